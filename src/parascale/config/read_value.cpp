#include "parascale/config/read_value.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "parascale/base/text.h"
#include "parascale/config/scalar.h"

namespace parascale::config {

namespace {

constexpr double kLargestExactInteger = 9'007'199'254'740'992.0;  // 2^53

std::string_view kind_text(const MarkedNode& node) {
  switch (node.kind) {
    case MarkedNode::Kind::null:
      return "empty";
    case MarkedNode::Kind::sequence:
      return "a list";
    case MarkedNode::Kind::mapping:
      return "a mapping";
    case MarkedNode::Kind::scalar:
      break;
  }
  const Json value = to_json(node);
  return value.is_bool()      ? "a boolean"
         : value.is_integer() ? "an integer"
         : value.is_number()  ? "a number"
         : value.is_null()    ? "empty"
                              : "a string";
}

std::string shown(const MarkedNode& node) {
  constexpr std::size_t kLongest = 60;
  std::string text = node.text.size() > kLongest ? node.text.substr(0, kLongest) + "..." : node.text;
  return node.quoted ? fmt::format("\"{}\"", text) : text;
}

Shape item_shape(Shape shape) { return shape == Shape::texts ? Shape::text : Shape::number; }

class Reader {
 public:
  Reader(const Setting& setting, const SourceText& source, const Place& key) : setting_(setting), source_(source), key_(key) {}

  std::optional<Json> read(const MarkedNode& node) {
    if (node.kind == MarkedNode::Kind::null ||
        (node.kind == MarkedNode::Kind::scalar && !node.quoted && !node.expanded && to_json(node).is_null())) {
      return read_null(node);
    }
    switch (setting_.shape) {
      case Shape::any:
        return undefined_inside(node) ? std::nullopt : std::optional(to_json(node));
      case Shape::mapping:
        if (node.kind != MarkedNode::Kind::mapping) {
          return wrong_type(node, setting_.shape);
        }
        return undefined_inside(node) ? std::nullopt : std::optional(to_json(node));
      case Shape::numbers:
      case Shape::number_pair:
      case Shape::texts:
        return read_list(node);
      default:
        return read_scalar(node, setting_.shape);
    }
  }

  std::vector<Error> take_errors() { return std::move(errors_); }

 private:
  std::optional<Json> read_null(const MarkedNode& node) {
    if (setting_.nullable()) {
      return Json();
    }
    if (setting_.shape == Shape::any || (setting_.fallback.to_string() != nullptr && setting_.fallback.to_string()->empty())) {
      return setting_.fallback;
    }
    return wrong_type(node, setting_.shape);
  }

  std::optional<Json> read_list(const MarkedNode& node) {
    if (setting_.shape == Shape::texts && node.kind == MarkedNode::Kind::scalar) {
      auto text = read_scalar(node, Shape::text);
      return text ? std::optional(Json::array({*std::move(text)})) : std::nullopt;
    }
    if (node.kind != MarkedNode::Kind::sequence || (setting_.shape == Shape::number_pair && node.items.size() != 2)) {
      return wrong_type(node, setting_.shape);
    }
    Json::Array items;
    for (const MarkedNode& item : node.items) {
      if (auto value = read_scalar(item, item_shape(setting_.shape))) {
        items.push_back(*std::move(value));
      }
    }
    return items.size() == node.items.size() ? std::optional(Json(std::move(items))) : std::nullopt;
  }

  std::optional<Json> read_scalar(const MarkedNode& node, Shape shape) {
    if (node.undefined) {
      return std::nullopt;
    }
    if (node.kind != MarkedNode::Kind::scalar) {
      return wrong_type(node, shape);
    }
    // A plain scalar that holds a variable is read like a plain one when a number or switch is wanted.
    const Json value = node.quoted ? Json(node.text) : plain_scalar(node.text);
    switch (shape) {
      case Shape::boolean:
        return value.is_bool() ? std::optional(value) : wrong_type(node, shape);
      case Shape::integer:
        return read_integer(node, value);
      case Shape::number:
        return read_number(node, value);
      case Shape::choice:
        return read_choice(node);
      default:
        return node.quoted || node.expanded || value.to_string() != nullptr ? std::optional(Json(node.text))
                                                                            : wrong_type(node, shape);
    }
  }

  std::optional<Json> read_integer(const MarkedNode& node, const Json& value) {
    std::optional<std::int64_t> integer = value.to_int64();
    if (const auto real = value.to_double(); !integer && real && !value.is_integer()) {
      // `1e6` is a float by the core schema, yet means an integer; `6.0` is left a mistake.
      const bool exponent_form = node.text.find('.') == std::string::npos && std::abs(*real) <= kLargestExactInteger;
      if (exponent_form && std::floor(*real) == *real) {
        integer = static_cast<std::int64_t>(*real);
      } else if (node.text.find_first_of(".eE") == std::string::npos) {
        return outside(node, "an integer of 64 bits");
      }
    }
    if (!integer) {
      return wrong_type(node, Shape::integer);
    }
    return setting_.bounds.hold(static_cast<double>(*integer)) ? std::optional(Json(*integer))
                                                               : outside(node, wanted(Shape::integer));
  }

  std::optional<Json> read_number(const MarkedNode& node, const Json& value) {
    const auto real = value.to_double();
    if (!real) {
      return wrong_type(node, Shape::number);
    }
    return std::isfinite(*real) && setting_.bounds.hold(*real) ? std::optional(Json(*real))
                                                               : outside(node, wanted(Shape::number));
  }

  std::optional<Json> read_choice(const MarkedNode& node) {
    if (const Choice* choice = setting_.find_choice(node.text)) {
      return Json(choice->name);
    }
    std::vector<std::string> spellings;
    std::string known;
    for (const Choice& choice : setting_.choices) {
      spellings.push_back(choice.name);
      spellings.insert(spellings.end(), choice.aliases.begin(), choice.aliases.end());
      known += (known.empty() ? "" : ", ") + choice.name;
    }
    Error error = Error(Code::unknown_value, fmt::format("unknown {} `{}`", setting_.noun, shown(node)))
                      .at(value_mark(node, source_, key_))
                      .note(fmt::format("known for `{}`: {}", setting_.path, known));
    if (const auto close = closest(node.text, spellings)) {
      error.help(fmt::format("did you mean `{}`?", *close));
    } else {
      error.help("use one of the known names");
    }
    errors_.push_back(std::move(error));
    return std::nullopt;
  }

  std::string wanted(Shape shape) const {
    const std::string bounds = setting_.bounds.text();
    return bounds.empty() ? std::string(shape_text(shape))
                          : fmt::format("{} {}{}", shape_text(shape), bounds.starts_with("at") ? "of " : "", bounds);
  }

  std::nullopt_t wrong_type(const MarkedNode& node, Shape shape) {
    std::string message = fmt::format("`{}` is {}, not {}", setting_.path, kind_text(node), shape_text(shape));
    if (node.kind == MarkedNode::Kind::scalar) {
      message += fmt::format(": `{}`", shown(node));
    }
    Error error = Error(Code::wrong_type, std::move(message)).at(value_mark(node, source_, key_));
    error.help(type_help(node, shape));
    errors_.push_back(std::move(error));
    return std::nullopt;
  }

  std::string type_help(const MarkedNode& node, Shape shape) const {
    const Json plain = plain_scalar(node.text);
    if (node.kind == MarkedNode::Kind::null) {
      return fmt::format("give {}, or remove the key: the default is `{}`", wanted(shape), setting_.fallback.dump());
    }
    if (node.kind == MarkedNode::Kind::scalar) {
      if (node.quoted && ((shape == Shape::boolean && plain.is_bool()) || (shape == Shape::integer && plain.is_integer()) ||
                          (shape == Shape::number && plain.is_number()))) {
        return fmt::format("remove the quotes: `{}`", node.text);
      }
      if (shape == Shape::text) {
        return fmt::format("quote it to make it a string: `\"{}\"`", node.text);
      }
      if (shape == Shape::boolean && (node.text == "yes" || node.text == "on" || node.text == "Yes" || node.text == "On")) {
        return "write `true`: `yes` and `on` are strings in YAML 1.2";
      }
      if (shape == Shape::boolean && (node.text == "no" || node.text == "off" || node.text == "No" || node.text == "Off")) {
        return "write `false`: `no` and `off` are strings in YAML 1.2";
      }
    }
    if (shape == Shape::number_pair) {
      return fmt::format("give two numbers: `{}`", setting_.fallback.dump());
    }
    return fmt::format("give {}", wanted(shape));
  }

  std::nullopt_t outside(const MarkedNode& node, const std::string& expected) {
    errors_.push_back(Error(Code::out_of_bounds, fmt::format("`{}` is out of bounds: `{}`", setting_.path, shown(node)))
                          .at(value_mark(node, source_, key_))
                          .help(fmt::format("give {}", expected)));
    return std::nullopt;
  }

  static bool undefined_inside(const MarkedNode& node) {
    return node.undefined || std::ranges::any_of(node.items, undefined_inside) ||
           std::ranges::any_of(node.members, [](const MarkedMember& member) { return undefined_inside(member.value); });
  }

  const Setting& setting_;
  const SourceText& source_;
  const Place& key_;
  std::vector<Error> errors_;
};

}  // namespace

Mark value_mark(const MarkedNode& node, const SourceText& source, const Place& key) {
  // A block container begins somewhere below its key; a flow container (same line, bracket) shows itself.
  const std::string_view line = source.line(node.place.line);
  const char first = node.place.column <= line.size() && node.place.column > 0 ? line[node.place.column - 1] : ' ';
  const bool container = node.kind == MarkedNode::Kind::sequence || node.kind == MarkedNode::Kind::mapping;
  return source.mark(node.place.line == 0 || (container && first != '[' && first != '{') ? key : node.place);
}

ReadValue read_value(const Setting& setting, const MarkedNode& node, const SourceText& source, const Place& key) {
  Reader reader(setting, source, key);
  ReadValue result;
  result.value = reader.read(node);
  result.errors = reader.take_errors();
  return result;
}

}  // namespace parascale::config
