#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parascale/base/json.h"
#include "parascale/config/resolved_config.h"

namespace parascale::config {

/// What a value looks like. Decides how a text is read and what a wrong one is told.
enum class Shape : std::uint8_t {
  any,          ///< kept as given
  boolean,      ///< true, false
  integer,      ///< 64 bits; `1e6` counts as one
  number,       ///< a finite double
  text,         ///< a string
  choice,       ///< one of the setting's `choices`
  numbers,      ///< a list of numbers
  number_pair,  ///< a list of exactly two numbers
  texts,        ///< a list of strings, or one string
  mapping,      ///< a mapping kept as given
};

/// `an integer`, `a list of two numbers`, ...
std::string_view shape_text(Shape shape);

/// What becomes of a setting that somebody gives.
enum class Status : std::uint8_t {
  used,       ///< read by the product
  not_built,  ///< known; anything but the default is an error (PS110) that says when or why
  dead,       ///< known; has no effect, a warning (PS111) says why
};

std::string_view status_text(Status status);

/// One permitted name of a choice.
struct Choice {
  std::string name;
  std::vector<std::string> aliases = {};  ///< other spellings, replaced by `name`
  std::string not_built = {};             ///< why this name is refused (PS110); empty = usable
};

/// The range of a number, or of every number of a list.
struct Bounds {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool above_minimum = false;  ///< the minimum itself is outside
  bool below_maximum = false;  ///< the maximum itself is outside

  bool hold(double value) const;
  bool given() const;
  /// `at least 1`, `greater than 0 and at most 1`, ...; empty without bounds.
  std::string text() const;
};

inline Bounds at_least(double minimum) { return {.minimum = minimum}; }
inline Bounds above(double minimum) { return {.minimum = minimum, .above_minimum = true}; }
inline Bounds between(double minimum, double maximum) { return {.minimum = minimum, .maximum = maximum}; }
/// [0, 1): a momentum, a probability that must not be certain.
inline Bounds fraction_below_one() { return {.minimum = 0.0, .maximum = 1.0, .below_maximum = true}; }

/// Ties a setting to its member of ResolvedConfig: shape and emptiness follow from the member's type.
struct Binding {
  Shape shape = Shape::any;
  bool nullable = false;
  Json (*read)(const ResolvedConfig&) = nullptr;
  void (*write)(ResolvedConfig&, const Json&) = nullptr;
};

/// The one declaration of a setting. Parsing, errors, did-you-mean, `config.resolved.json`, and the reference follow from it.
struct Setting {
  std::string path;     ///< canonical
  Binding member = {};  ///< used settings; the others give `shape` themselves
  Shape shape = Shape::any;
  Json fallback = {};  ///< the default; null = unset
  Bounds bounds = {};
  std::vector<Choice> choices = {};
  std::string doc = {};
  std::vector<std::string> aliases = {};
  std::string noun = {};  ///< what messages call a choice; default: the last part of the path
  Status status = Status::used;
  std::string why = {};  ///< for not_built and dead: when it comes, or why it has no effect
  std::vector<std::string> fine_with_backends =
      {};  ///< not_built, but left to the planner when one of these back ends is asked for

  bool nullable() const { return member.nullable || (member.read == nullptr && fallback.is_null()); }
  /// Returns the choice that `text` names, or nullptr.
  const Choice* find_choice(std::string_view text) const;
  std::string_view last_part() const;
};

namespace binding_detail {

template <typename T>
struct MemberTraits;
template <>
struct MemberTraits<bool> {
  static constexpr Shape kShape = Shape::boolean;
  static Json read(bool value) { return Json(value); }
  static bool write(const Json& json) { return json.to_bool().value_or(false); }
};
template <>
struct MemberTraits<std::int64_t> {
  static constexpr Shape kShape = Shape::integer;
  static Json read(std::int64_t value) { return Json(value); }
  static std::int64_t write(const Json& json) { return json.to_int64().value_or(0); }
};
template <>
struct MemberTraits<double> {
  static constexpr Shape kShape = Shape::number;
  static Json read(double value) { return Json(value); }
  static double write(const Json& json) { return json.to_double().value_or(0.0); }
};
template <>
struct MemberTraits<std::string> {
  static constexpr Shape kShape = Shape::text;
  static Json read(const std::string& value) { return Json(value); }
  static std::string write(const Json& json) { return json.to_string() != nullptr ? *json.to_string() : std::string(); }
};
template <>
struct MemberTraits<std::array<double, 2>> {
  static constexpr Shape kShape = Shape::number_pair;
  static Json read(const std::array<double, 2>& value) { return Json::array_of(value); }
  static std::array<double, 2> write(const Json& json) {
    std::array<double, 2> pair{};
    for (std::size_t i = 0; i < pair.size() && i < json.items().size(); ++i) {
      pair.at(i) = json.items()[i].to_double().value_or(0.0);
    }
    return pair;
  }
};
template <typename T>
struct MemberTraits<std::vector<T>> {
  static constexpr Shape kShape = MemberTraits<T>::kShape == Shape::number ? Shape::numbers : Shape::texts;
  static Json read(const std::vector<T>& value) { return Json::array_of(value); }
  static std::vector<T> write(const Json& json) {
    std::vector<T> list;
    for (const Json& item : json.items()) {
      list.push_back(MemberTraits<T>::write(item));
    }
    return list;
  }
};
template <typename T>
struct MemberTraits<std::optional<T>> {
  static constexpr Shape kShape = MemberTraits<T>::kShape;
  static Json read(const std::optional<T>& value) { return value ? MemberTraits<T>::read(*value) : Json(); }
  static std::optional<T> write(const Json& json) {
    return json.is_null() ? std::nullopt : std::optional<T>(MemberTraits<T>::write(json));
  }
};

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

/// `Access` is a lambda without captures that names the member of a config, const or not.
template <typename Access>
Binding bind(Access) {
  using Member = std::remove_cvref_t<decltype(Access{}(std::declval<ResolvedConfig&>()))>;
  return {.shape = MemberTraits<Member>::kShape,
          .nullable = kIsOptional<Member>,
          .read = [](const ResolvedConfig& config) { return MemberTraits<Member>::read(Access{}(config)); },
          .write = [](ResolvedConfig& config, const Json& value) { Access{}(config) = MemberTraits<Member>::write(value); }};
}

}  // namespace binding_detail

/// `PS_MEMBER(training.batch_size)`: the binding to `ResolvedConfig::training.batch_size`.
#define PS_MEMBER(name) ::parascale::config::binding_detail::bind([](auto& config) -> auto& { return config.name; })

}  // namespace parascale::config
