#include "parascale/config/scalar.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "parascale/base/text.h"

namespace parascale::config {

namespace {

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view without_sign(std::string_view text) {
  return text.starts_with('-') || text.starts_with('+') ? text.substr(1) : text;
}

/// `0o17` and `0x1F`; no sign by the core schema.
std::optional<std::int64_t> based_integer(std::string_view text) {
  const int base = text.starts_with("0o") ? 8 : text.starts_with("0x") ? 16 : 0;
  if (base == 0 || text.size() < 3 || text[2] == '-') {
    return std::nullopt;
  }
  std::int64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data() + 2, text.data() + text.size(), value, base);
  return ec == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// `[-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`
bool is_float(std::string_view text) {
  text = without_sign(text);
  if (const auto exponent = text.find_first_of("eE"); exponent != std::string_view::npos) {
    if (!is_digits(without_sign(text.substr(exponent + 1)))) {
      return false;
    }
    text = text.substr(0, exponent);
  }
  const auto point = text.find('.');
  if (point == std::string_view::npos) {
    return is_digits(text);
  }
  const std::string_view whole = text.substr(0, point);
  const std::string_view fraction = text.substr(point + 1);
  return (whole.empty() || is_digits(whole)) && (fraction.empty() ? !whole.empty() : is_digits(fraction));
}

std::optional<double> special_float(std::string_view text) {
  const std::string_view bare = without_sign(text);
  if (bare == ".inf" || bare == ".Inf" || bare == ".INF") {
    return text.starts_with('-') ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
  if (text == ".nan" || text == ".NaN" || text == ".NAN") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return std::nullopt;
}

}  // namespace

Json plain_scalar(std::string_view text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") {
    return Json();
  }
  if (text == "true" || text == "True" || text == "TRUE") {
    return Json(true);
  }
  if (text == "false" || text == "False" || text == "FALSE") {
    return Json(false);
  }
  const std::string_view unsigned_text = text.starts_with('+') ? text.substr(1) : text;
  if (is_digits(without_sign(text))) {
    if (const auto value = parse_int64(unsigned_text)) {
      return Json(*value);
    }
  }
  if (const auto value = based_integer(text)) {
    return Json(*value);
  }
  if (const auto value = special_float(text)) {
    return Json(*value);
  }
  if (is_float(text)) {
    if (const auto value = parse_double(unsigned_text)) {
      return Json(*value);
    }
    // Out of the range of a double: from_chars leaves the value alone; by IEEE rounding it is infinite or zero.
    const auto exponent = text.find_first_of("eE");
    const bool tiny = exponent != std::string_view::npos && text.substr(exponent + 1).starts_with('-');
    return Json(tiny                    ? 0.0
                : text.starts_with('-') ? -std::numeric_limits<double>::infinity()
                                        : std::numeric_limits<double>::infinity());
  }
  return Json(text);
}

Json to_json(const MarkedNode& node) {
  switch (node.kind) {
    case MarkedNode::Kind::null:
      return Json();
    case MarkedNode::Kind::scalar:
      return node.quoted || node.expanded ? Json(node.text) : plain_scalar(node.text);
    case MarkedNode::Kind::sequence: {
      Json::Array items;
      items.reserve(node.items.size());
      for (const auto& item : node.items) {
        items.push_back(to_json(item));
      }
      return Json(std::move(items));
    }
    case MarkedNode::Kind::mapping: {
      Json::Object members;
      members.reserve(node.members.size());
      for (const auto& member : node.members) {
        members.emplace_back(member.key, to_json(member.value));
      }
      return Json(std::move(members));
    }
  }
  return Json();
}

}  // namespace parascale::config
