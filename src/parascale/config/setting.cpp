#include "parascale/config/setting.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace parascale::config {

namespace {

std::string bound_text(double value) {
  return std::abs(value) < 1e15 ? fmt::format("{:.15g}", value) : fmt::format("{:g}", value);
}

}  // namespace

std::string_view shape_text(Shape shape) {
  switch (shape) {
    case Shape::any:
      return "any value";
    case Shape::boolean:
      return "true or false";
    case Shape::integer:
      return "an integer";
    case Shape::number:
      return "a number";
    case Shape::text:
      return "a string";
    case Shape::choice:
      return "one of the known names";
    case Shape::numbers:
      return "a list of numbers";
    case Shape::number_pair:
      return "a list of two numbers";
    case Shape::texts:
      return "a list of strings";
    case Shape::mapping:
      return "a mapping";
  }
  return "any value";
}

std::string_view status_text(Status status) {
  switch (status) {
    case Status::used:
      return "used";
    case Status::not_built:
      return "not_built";
    case Status::dead:
      return "dead";
  }
  return "used";
}

bool Bounds::hold(double value) const {
  return (above_minimum ? value > minimum : value >= minimum) && (below_maximum ? value < maximum : value <= maximum);
}

bool Bounds::given() const { return std::isfinite(minimum) || std::isfinite(maximum); }

std::string Bounds::text() const {
  std::string out;
  if (std::isfinite(minimum)) {
    out = fmt::format("{} {}", above_minimum ? "greater than" : "at least", bound_text(minimum));
  }
  if (std::isfinite(maximum)) {
    out += fmt::format("{}{} {}", out.empty() ? "" : " and ", below_maximum ? "less than" : "at most", bound_text(maximum));
  }
  return out;
}

const Choice* Setting::find_choice(std::string_view text) const {
  const auto found = std::ranges::find_if(choices, [&](const Choice& choice) {
    return choice.name == text || std::ranges::find(choice.aliases, text) != choice.aliases.end();
  });
  return found == choices.end() ? nullptr : &*found;
}

std::string_view Setting::last_part() const {
  const auto dot = path.rfind('.');
  return std::string_view(path).substr(dot == std::string::npos ? 0 : dot + 1);
}

}  // namespace parascale::config
