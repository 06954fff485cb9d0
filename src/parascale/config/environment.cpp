#include "parascale/config/environment.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace parascale::config {

namespace {

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

class Expander {
 public:
  Expander(const SourceText& source, const Environment& environment) : source_(source), environment_(environment) {}

  void visit(MarkedNode& node) {
    if (node.kind == MarkedNode::Kind::scalar && node.text.find("${") != std::string::npos) {
      expand(node);
    }
    for (MarkedNode& item : node.items) {
      visit(item);
    }
    for (MarkedMember& member : node.members) {
      visit(member.value);
    }
  }

  std::vector<Error> take_errors() { return std::move(errors_); }

 private:
  void expand(MarkedNode& node) {
    std::string out;
    std::size_t at = 0;
    Place place = node.place;
    for (std::size_t begin = node.text.find("${"); begin != std::string::npos; begin = node.text.find("${", at)) {
      out.append(node.text, at, begin - at);
      const std::size_t end = node.text.find('}', begin);
      const std::string name = node.text.substr(begin + 2, end == std::string::npos ? end : end - begin - 2);
      const std::string written = node.text.substr(begin, end == std::string::npos ? end : end - begin + 1);
      place = place_of(written, place);
      at = end == std::string::npos ? node.text.size() : end + 1;
      if (const auto value = end != std::string::npos && is_name(name) ? environment_(name) : std::nullopt) {
        out += *value;
      } else {
        report(name, end != std::string::npos && is_name(name), place);
        node.undefined = true;
      }
      place.column += place.length;
    }
    out.append(node.text, at);
    node.text = std::move(out);
    node.expanded = true;
  }

  /// Where `written` stands in the line, searched from `from` on; a text over several lines may not show it.
  Place place_of(const std::string& written, const Place& from) const {
    const std::string_view line = source_.line(from.line);
    const auto found = line.find(written, std::min<std::size_t>(from.column - 1, line.size()));
    if (found == std::string_view::npos) {
      return {.line = from.line, .column = from.column, .length = 1};
    }
    return {
        .line = from.line, .column = static_cast<std::uint32_t>(found + 1), .length = static_cast<std::uint32_t>(written.size())};
  }

  void report(const std::string& name, bool valid, const Place& place) {
    if (valid) {
      errors_.push_back(Error(Code::undefined_variable, fmt::format("the environment variable is not defined: `{}`", name))
                            .at(source_.mark(place))
                            .help(fmt::format("set it for this command: `{}=... parascale ...`, or write the value out", name)));
    } else {
      errors_.push_back(
          Error(Code::undefined_variable, fmt::format("`${{...}}` does not hold the name of a variable: `{}`", name))
              .at(source_.mark(place))
              .help("write `${NAME}` with letters, digits and `_`; defaults and other forms are not supported"));
    }
  }

  const SourceText& source_;
  const Environment& environment_;
  std::vector<Error> errors_;
};

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nothing of ours sets variables
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
}

Environment fixed_environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found != variables.end() ? std::optional(found->second) : std::nullopt;
  };
}

std::vector<Error> expand_variables(MarkedNode& node, const SourceText& source, const Environment& environment) {
  Expander expander(source, environment);
  expander.visit(node);
  return expander.take_errors();
}

}  // namespace parascale::config
