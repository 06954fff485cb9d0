#include "parascale/base/json.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace parascale {

std::string_view Json::type_name() const {
  static constexpr std::string_view kNames[] = {"null", "boolean", "integer", "integer", "number", "string", "array", "object"};
  return kNames[value_.index()];
}

std::optional<bool> Json::to_bool() const {
  const bool* value = std::get_if<bool>(&value_);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

std::optional<std::int64_t> Json::to_int64() const {
  const std::int64_t* value = std::get_if<std::int64_t>(&value_);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

std::optional<std::uint64_t> Json::to_uint64() const {
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) {
    return *value;
  }
  const std::int64_t* value = std::get_if<std::int64_t>(&value_);
  return value != nullptr && *value >= 0 ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt;
}

std::optional<double> Json::to_double() const {
  if (const auto* value = std::get_if<double>(&value_)) {
    return *value;
  }
  if (const auto* value = std::get_if<std::int64_t>(&value_)) {
    return static_cast<double>(*value);
  }
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) {
    return static_cast<double>(*value);
  }
  return std::nullopt;
}

const Json::Array& Json::items() const {
  static const Array empty;
  const Array* items = std::get_if<Array>(&value_);
  return items != nullptr ? *items : empty;
}

const Json::Object& Json::members() const {
  static const Object empty;
  const Object* members = std::get_if<Object>(&value_);
  return members != nullptr ? *members : empty;
}

Json::Array& Json::mutable_items() {
  if (is_null()) {
    value_ = Array{};
  }
  PS_CHECK(is_array(), "the JSON value is an array");
  return *std::get_if<Array>(&value_);
}

Json::Object& Json::mutable_members() {
  if (is_null()) {
    value_ = Object{};
  }
  PS_CHECK(is_object(), "the JSON value is an object");
  return *std::get_if<Object>(&value_);
}

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : members()) {
    if (name == key) {
      return &value;
    }
  }
  return nullptr;
}

Json* Json::find(std::string_view key) {
  auto* members = std::get_if<Object>(&value_);
  if (members != nullptr) {
    for (auto& [name, value] : *members) {
      if (name == key) {
        return &value;
      }
    }
  }
  return nullptr;
}

Json& Json::operator[](std::string_view key) {
  if (Json* found = find(key)) {
    return *found;
  }
  return mutable_members().emplace_back(std::string(key), Json()).second;
}

bool Json::erase(std::string_view key) {
  auto* members = std::get_if<Object>(&value_);
  return members != nullptr && std::erase_if(*members, [&](const Member& m) { return m.first == key; }) > 0;
}

namespace {

Error member_error(std::string_view key, std::string_view expected, const Json* found) {
  if (found == nullptr) {
    return Error(Code::json_invalid, fmt::format("member `{}` is missing; expected {}", key, expected));
  }
  return Error(Code::json_invalid, fmt::format("member `{}` is {}; expected {}", key, found->type_name(), expected));
}

template <typename T, typename Read>
Result<T> read_member(const Json& object, std::string_view key, std::string_view expected, Read read) {
  const Json* member = object.find(key);
  if (member != nullptr) {
    if (auto value = read(*member)) {
      return T(*std::move(value));
    }
  }
  return member_error(key, expected, member);
}

template <typename T>
std::optional<T> narrow(const Json& value) {
  if constexpr (std::is_signed_v<T>) {
    const auto wide = value.to_int64();
    return wide && std::in_range<T>(*wide) ? std::optional(static_cast<T>(*wide)) : std::nullopt;
  } else {
    const auto wide = value.to_uint64();
    return wide && std::in_range<T>(*wide) ? std::optional(static_cast<T>(*wide)) : std::nullopt;
  }
}

}  // namespace

template <>
Result<bool> Json::get<bool>(std::string_view key) const {
  return read_member<bool>(*this, key, "boolean", [](const Json& v) { return v.to_bool(); });
}
template <>
Result<std::int64_t> Json::get<std::int64_t>(std::string_view key) const {
  return read_member<std::int64_t>(*this, key, "integer", [](const Json& v) { return v.to_int64(); });
}
template <>
Result<std::uint64_t> Json::get<std::uint64_t>(std::string_view key) const {
  return read_member<std::uint64_t>(*this, key, "non-negative integer", [](const Json& v) { return v.to_uint64(); });
}
template <>
Result<std::int32_t> Json::get<std::int32_t>(std::string_view key) const {
  return read_member<std::int32_t>(*this, key, "32-bit integer", [](const Json& v) { return narrow<std::int32_t>(v); });
}
template <>
Result<std::uint32_t> Json::get<std::uint32_t>(std::string_view key) const {
  return read_member<std::uint32_t>(*this, key, "non-negative 32-bit integer",
                                    [](const Json& v) { return narrow<std::uint32_t>(v); });
}
template <>
Result<double> Json::get<double>(std::string_view key) const {
  return read_member<double>(*this, key, "number", [](const Json& v) { return v.to_double(); });
}
template <>
Result<std::string> Json::get<std::string>(std::string_view key) const {
  return read_member<std::string>(*this, key, "string", [](const Json& v) {
    const std::string* text = v.to_string();
    return text != nullptr ? std::optional(*text) : std::nullopt;
  });
}
template <>
Result<Json> Json::get<Json>(std::string_view key) const {
  return read_member<Json>(*this, key, "a value", [](const Json& v) { return std::optional(v); });
}

void append_json_string(std::string& out, std::string_view text) {
  const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char c = byte_at(i);
    if (c < 0x80) {
      switch (c) {
        case '"':
          out += "\\\"";
          break;
        case '\\':
          out += "\\\\";
          break;
        case '\n':
          out += "\\n";
          break;
        case '\r':
          out += "\\r";
          break;
        case '\t':
          out += "\\t";
          break;
        default:
          if (c < 0x20) {
            out += fmt::format("\\u{:04x}", c);
          } else {
            out += static_cast<char>(c);
          }
      }
      ++i;
      continue;
    }
    const std::size_t length = c >= 0xF0 && c < 0xF5 ? 4 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xC2 && c < 0xE0 ? 2 : 0;
    bool valid = length != 0 && i + length <= text.size();
    for (std::size_t j = 1; valid && j < length; ++j) {
      valid = (byte_at(i + j) & 0xC0U) == 0x80U;
    }
    if (valid && length == 3) {  // overlong forms and surrogates
      valid = !(c == 0xE0 && byte_at(i + 1) < 0xA0) && !(c == 0xED && byte_at(i + 1) >= 0xA0);
    } else if (valid && length == 4) {
      valid = !(c == 0xF0 && byte_at(i + 1) < 0x90) && !(c == 0xF4 && byte_at(i + 1) >= 0x90);
    }
    if (valid) {
      out += text.substr(i, length);
      i += length;
    } else {
      out += "\xEF\xBF\xBD";
      ++i;
    }
  }
  out += '"';
}

void append_json_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char buffer[32];
  const auto [end, ec] = std::to_chars(std::begin(buffer), std::end(buffer), value);
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) {
    out += ".0";  // stays a number that is not an integer when read back
  }
}

namespace {

struct Style {
  bool pretty = false;
  bool sorted = false;
};

void append_break(std::string& out, const Style& style, int depth) {
  if (style.pretty) {
    out += '\n';
    out.append(static_cast<std::size_t>(depth) * 2, ' ');
  }
}

void append_value(std::string& out, const Json& value, const Style& style, int depth) {
  if (value.is_object()) {
    const auto& members = value.members();
    std::vector<const Json::Member*> order;
    order.reserve(members.size());
    for (const auto& member : members) {
      order.push_back(&member);
    }
    if (style.sorted) {
      std::ranges::sort(order, {}, [](const Json::Member* m) -> const std::string& { return m->first; });
    }
    out += '{';
    for (std::size_t i = 0; i < order.size(); ++i) {
      out += i == 0 ? "" : ",";
      append_break(out, style, depth + 1);
      append_json_string(out, order[i]->first);
      out += style.pretty ? ": " : ":";
      append_value(out, order[i]->second, style, depth + 1);
    }
    if (!order.empty()) {
      append_break(out, style, depth);
    }
    out += '}';
  } else if (value.is_array()) {
    // A pretty array of plain values stays on one line: shapes and lists of numbers read better so.
    const auto& items = value.items();
    const bool flat = std::ranges::none_of(items, [](const Json& i) { return i.is_object() || i.is_array(); });
    const Style inner{.pretty = style.pretty && !flat, .sorted = style.sorted};
    out += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      out += i == 0 ? "" : style.pretty && flat ? ", " : ",";
      append_break(out, inner, depth + 1);
      append_value(out, items[i], style, depth + 1);
    }
    if (!items.empty()) {
      append_break(out, inner, depth);
    }
    out += ']';
  } else if (const auto flag = value.to_bool()) {
    out += *flag ? "true" : "false";
  } else if (const auto number = value.to_int64()) {
    out += std::to_string(*number);
  } else if (const auto big = value.to_uint64()) {
    out += std::to_string(*big);
  } else if (const auto real = value.to_double()) {
    append_json_number(out, *real);
  } else if (const std::string* text = value.to_string()) {
    append_json_string(out, *text);
  } else {
    out += "null";
  }
}

std::string written(const Json& value, const Style& style) {
  std::string out;
  append_value(out, value, style, 0);
  return out;
}

/// Builds a Json from parser events; refuses duplicate keys and too much depth.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(std::size_t max_depth) : max_depth_(max_depth) {}

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(std::int64_t value) override { return add(Json(value)); }
  bool number_unsigned(std::uint64_t value) override { return add(Json(value)); }
  bool number_float(double value, const std::string&) override {
    return std::isfinite(value) ? add(Json(value)) : fail("number is too large");
  }
  bool string(std::string& value) override { return add(Json(std::move(value))); }
  bool binary(binary_t&) override { return fail("binary value"); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    if (is_known(name)) {
      return fail(fmt::format("key `{}` is given twice", name));
    }
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& cause) override {
    position_ = position;
    reason_ = cause.what();
    // nlohmann's text repeats position and exception id; keep what follows the last prefix.
    if (const auto colon = reason_.find(": "); colon != std::string::npos) {
      reason_ = reason_.substr(colon + 2);
    }
    return false;
  }

  Json take() { return std::move(root_); }
  const std::string& reason() const { return reason_; }
  std::optional<std::size_t> position() const { return position_; }

 private:
  bool fail(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }
  /// Small objects are searched; the names of a large one are kept in a set from then on.
  bool is_known(const std::string& name) {
    constexpr std::size_t kSearched = 24;
    const auto& members = stack_.back()->members();
    if (members.size() < kSearched) {
      return stack_.back()->contains(name);
    }
    auto& names = keys_.back();
    if (names.empty()) {
      for (const auto& member : members) {
        names.insert(member.first);
      }
    }
    return !names.insert(name).second;
  }
  Json* place(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& top = *stack_.back();
    if (top.is_array()) {
      return &top.mutable_items().emplace_back(std::move(value));
    }
    return &top.mutable_members().emplace_back(std::move(key_), std::move(value)).second;
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (stack_.size() >= max_depth_) {
      return fail(fmt::format("nested deeper than {} levels", max_depth_));
    }
    stack_.push_back(place(std::move(value)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    stack_.pop_back();
    keys_.pop_back();
    return true;
  }

  std::size_t max_depth_;
  Json root_;
  std::vector<Json*> stack_;  // a parent's storage does not move while its child is open
  std::vector<std::unordered_set<std::string>> keys_;
  std::string key_;
  std::string reason_ = "not a JSON document";
  std::optional<std::size_t> position_;
};

}  // namespace

std::string Json::dump() const { return written(*this, {}); }
std::string Json::dump_pretty() const { return written(*this, {.pretty = true}); }
std::string Json::canonical() const { return written(*this, {.sorted = true}); }

Result<Json> parse_json(std::string_view text, std::string_view name, JsonLimits limits) {
  if (text.size() > limits.max_bytes) {
    return Error(Code::json_invalid, fmt::format("{} holds {} bytes; the limit is {}", name, text.size(), limits.max_bytes));
  }
  // The parser would take a NUL for the end of the text and skip a byte order mark; neither is JSON.
  if (text.find('\0') != std::string_view::npos || text.starts_with("\xEF\xBB\xBF")) {
    return Error(Code::json_invalid, fmt::format("{} is not valid JSON: it holds a NUL byte or a byte order mark", name));
  }
  Builder builder(limits.max_depth);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    return builder.take();
  }
  Error error(Code::json_invalid, fmt::format("{} is not valid JSON: {}", name, builder.reason()));
  if (const auto position = builder.position()) {
    const std::string_view before = text.substr(0, std::min(*position > 0 ? *position - 1 : 0, text.size()));
    const auto line = static_cast<std::uint32_t>(1 + std::ranges::count(before, '\n'));
    const auto start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    const auto end = text.find('\n', start);
    error.at(Mark{.file = std::string(name),
                  .line = line,
                  .column = static_cast<std::uint32_t>(before.size() - start + 1),
                  .length = 1,
                  .line_text = std::string(text.substr(start, std::min<std::size_t>(end - start, 200)))});
  }
  return error;
}

}  // namespace parascale
