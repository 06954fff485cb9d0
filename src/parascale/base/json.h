#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "parascale/base/result.h"

namespace parascale {

/// A JSON value. Objects keep insertion order; integers stay exact (int64 or uint64).
///
/// Reading: `parse_json` (strict: no comments, no duplicate keys, limited depth). Writing: `dump` (compact), `dump_pretty`,
/// `canonical` (sorted keys, compact: for hashes). Doubles are written in the shortest form that reads back equal; non-finite
/// ones as null. *thread-compatible*
class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;
  Json(std::nullptr_t) {}                                     // NOLINT: literals convert
  Json(bool value) : value_(value) {}                         // NOLINT
  Json(double value) : value_(value) {}                       // NOLINT
  Json(const char* text) : value_(std::string(text)) {}       // NOLINT
  Json(std::string_view text) : value_(std::string(text)) {}  // NOLINT
  Json(std::string text) : value_(std::move(text)) {}         // NOLINT
  Json(Array items) : value_(std::move(items)) {}             // NOLINT
  Json(Object members) : value_(std::move(members)) {}        // NOLINT
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Json(T value) {  // NOLINT
    if constexpr (std::is_signed_v<T>) {
      value_ = static_cast<std::int64_t>(value);
    } else if (value <= static_cast<std::uint64_t>(INT64_MAX)) {
      value_ = static_cast<std::int64_t>(value);
    } else {
      value_ = static_cast<std::uint64_t>(value);
    }
  }

  static Json object(std::initializer_list<Member> members = {}) { return Json(Object(members)); }
  static Json array(std::initializer_list<Json> items = {}) { return Json(Array(items)); }
  template <typename Range>
  static Json array_of(const Range& range) {
    Array items;
    for (const auto& item : range) {
      items.emplace_back(item);
    }
    return Json(std::move(items));
  }

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const {
    return std::holds_alternative<std::int64_t>(value_) || std::holds_alternative<std::uint64_t>(value_);
  }
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  /// Returns `null`, `boolean`, `integer`, `number`, `string`, `array` or `object`.
  std::string_view type_name() const;

  std::optional<bool> to_bool() const;
  std::optional<std::int64_t> to_int64() const;
  std::optional<std::uint64_t> to_uint64() const;
  std::optional<double> to_double() const;  ///< of an integer too
  const std::string* to_string() const { return std::get_if<std::string>(&value_); }
  /// The items, or an empty list when this is no array.
  const Array& items() const;
  /// The members, or an empty list when this is no object.
  const Object& members() const;
  Array& mutable_items();     ///< makes this an array when it is null
  Object& mutable_members();  ///< makes this an object when it is null

  /// Returns the member, or nullptr when it is absent or this is no object.
  const Json* find(std::string_view key) const;
  Json* find(std::string_view key);
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// Returns the member, made null when absent; makes this an object when it is null.
  Json& operator[](std::string_view key);
  void push_back(Json item) { mutable_items().push_back(std::move(item)); }
  bool erase(std::string_view key);

  /// Returns member `key` as T (bool, integer types, double, std::string, Json), or an error that names the key and both types.
  template <typename T>
  Result<T> get(std::string_view key) const;
  /// Like get, but `fallback` when the member is absent or null.
  template <typename T>
  Result<T> get_or(std::string_view key, T fallback) const {
    const Json* member = find(key);
    return member == nullptr || member->is_null() ? Result<T>(std::move(fallback)) : get<T>(key);
  }

  std::string dump() const;
  std::string dump_pretty() const;
  std::string canonical() const;

  friend bool operator==(const Json&, const Json&) = default;

 private:
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value_;
};

/// Limits of `parse_json`.
struct JsonLimits {
  std::size_t max_bytes = 64UL << 20;
  std::size_t max_depth = 64;
};

/// Parses one JSON document (RFC 8259, UTF-8). Errors: json_invalid with `name` and line:column of the fault.
Result<Json> parse_json(std::string_view text, std::string_view name, JsonLimits limits = {});

/// Appends the JSON string literal of `text`; bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);
/// Appends the shortest decimal text that reads back as `value`; `null` when it is not finite.
void append_json_number(std::string& out, double value);

template <>
Result<bool> Json::get<bool>(std::string_view key) const;
template <>
Result<std::int64_t> Json::get<std::int64_t>(std::string_view key) const;
template <>
Result<std::uint64_t> Json::get<std::uint64_t>(std::string_view key) const;
template <>
Result<std::int32_t> Json::get<std::int32_t>(std::string_view key) const;
template <>
Result<std::uint32_t> Json::get<std::uint32_t>(std::string_view key) const;
template <>
Result<double> Json::get<double>(std::string_view key) const;
template <>
Result<std::string> Json::get<std::string>(std::string_view key) const;
template <>
Result<Json> Json::get<Json>(std::string_view key) const;

}  // namespace parascale
