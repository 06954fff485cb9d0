#include "parascale/config/marked_node.h"

#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <istream>
#include <streambuf>
#include <unordered_map>

#include "parascale/base/json.h"
#include "parascale/base/text.h"

namespace parascale::config {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kCoreTagPrefix = "tag:yaml.org,2002:";
constexpr std::size_t kMaxShownColumn = 500;
constexpr std::size_t kShownBehind = 100;

/// Lets the parser read a text without copying it.
class TextBuffer : public std::streambuf {
 public:
  explicit TextBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());  // NOLINT: the get area is only read
    setg(begin, begin, begin + text.size());
  }
};

/// Stops the parser library from inside an event; caught in `parse_marked`.
struct Refused {
  Error error;
};

Error syntax_error(const SourceText& source, const Place& place, std::string message) {
  return Error(Code::config_syntax, std::move(message)).at(source.mark(place));
}

/// Returns the offset of the first byte that is not UTF-8 or is a control character YAML does not allow.
std::optional<std::size_t> first_bad_byte(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x80) {
      if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F) {
        return i;
      }
      ++i;
      continue;
    }
    const std::size_t length = c >= 0xF0 && c < 0xF5 ? 4 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xC2 && c < 0xE0 ? 2 : 0;
    if (length == 0 || i + length > text.size()) {
      return i;
    }
    for (std::size_t j = 1; j < length; ++j) {
      if ((static_cast<unsigned char>(text[i + j]) & 0xC0U) != 0x80U) {
        return i;
      }
    }
    i += length;
  }
  return std::nullopt;
}

Place place_of_offset(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line_end = before.rfind('\n');
  const std::size_t begin = line_end == std::string_view::npos ? 0 : line_end + 1;
  return {.line = static_cast<std::uint32_t>(1 + std::ranges::count(before, '\n')),
          .column = static_cast<std::uint32_t>(offset - begin + 1)};
}

/// Builds the tree from the parser's events.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const SourceText& source, const ParseLimits& limits) : source_(source), limits_(limits) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ == 0) {
      return;
    }
    const Place place = place_at(mark, 1);
    if (rest_of_line(place).starts_with("---")) {
      refuse({.line = place.line, .column = place.column, .length = 3}, "the text holds a second document",
             "keep one document per file; remove the second `---`");
    }
    refuse(place, "the text is not valid YAML: the document ends before",
           "check indentation and brackets here and on the line before");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Place place = place_at(mark, 1);
    refuse_anchor(place, anchor);
    const std::string_view rest = rest_of_line(place);
    const bool written =
        rest.starts_with("null") || rest.starts_with("Null") || rest.starts_with("NULL") || rest.starts_with("~");
    place.length = written && !rest.starts_with("~") ? 4 : 1;
    if (expects_key()) {
      refuse(place, "a key is empty", "write a name before the colon");
    }
    if (!written) {
      require_colon();
    }
    add({.kind = MarkedNode::Kind::null, .place = written || open_.empty() ? place : fallback_place(place)});
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(place_at(mark, 1), "aliases are not supported", "write the value out, or quote a text that starts with `*`");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value) override {
    Place place = place_at(mark, 1);
    refuse_anchor(place, anchor);
    const std::string_view rest = rest_of_line(place);
    const char first = rest.empty() ? ' ' : rest.front();
    bool quoted = first == '"' || first == '\'' || first == '|' || first == '>';
    place.length = scalar_length(place, rest, value);
    if (!tag.empty() && tag != "?" && tag != "!") {
      quoted = tag == fmt::format("{}str", kCoreTagPrefix);
      if (!quoted) {
        refuse_tag(place, tag);
      }
      place.length = static_cast<std::uint32_t>(std::max<std::size_t>(1, trim(rest).size()));
    }
    if (expects_key()) {
      if (value == "<<" && !quoted) {
        refuse(place, "merge keys are not supported", "write the merged settings out");
      }
      start_member(value, place);
      return;
    }
    add({.kind = MarkedNode::Kind::scalar, .text = value, .quoted = quoted, .place = place});
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(MarkedNode::Kind::sequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(MarkedNode::Kind::mapping, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

  std::optional<MarkedNode> take_root() { return std::move(root_); }
  std::vector<Error> take_errors() { return std::move(errors_); }

 private:
  /// A container that is being filled. `keys` maps the keys seen to their places; `skipped` means its current value belongs to a
  /// duplicate key.
  struct Open {
    MarkedNode node;
    std::unordered_map<std::string, Place> keys;
    std::optional<std::string> key;
    Place key_place;
    bool duplicate = false;
  };

  [[noreturn]] void refuse(const Place& place, std::string message, std::string help) {
    throw Refused{syntax_error(source_, place, std::move(message)).help(std::move(help))};
  }
  void refuse_anchor(const Place& place, YAML::anchor_t anchor) {
    if (anchor != 0) {
      refuse(place, "anchors are not supported", "write the value out at each place, or quote a text that starts with `&`");
    }
  }
  void refuse_tag(const Place& place, const std::string& tag) {
    refuse(place, fmt::format("tags are not supported: `{}`", replace_all(tag, kCoreTagPrefix, "!!")),
           "remove the tag; quote a value to make it a string");
  }

  static Place place_at(const YAML::Mark& mark, std::uint32_t length) {
    return {.line = static_cast<std::uint32_t>(std::max(mark.line, 0)) + 1,
            .column = static_cast<std::uint32_t>(std::max(mark.column, 0)) + 1,
            .length = length};
  }
  std::string_view rest_of_line(const Place& place) const {
    const std::string_view line = source_.line(place.line);
    return line.substr(std::min<std::size_t>(place.column - 1, line.size()));
  }

  /// Returns the bytes of a quoted scalar from its opening quote on, quotes included; refuses one that never ends: the parser
  /// library takes the rest of the file for it.
  std::size_t quoted_length(const Place& place, char quote) {
    const std::string_view rest = std::string_view(source_.text()).substr(source_.offset(place));
    for (std::size_t end = 1; end < rest.size(); ++end) {
      if (quote == '"' && rest[end] == '\\') {
        ++end;
      } else if (rest[end] == quote && quote == '\'' && rest.substr(end + 1).starts_with('\'')) {
        ++end;
      } else if (rest[end] == quote) {
        return end + 1;
      }
    }
    refuse(place, "the text is not valid YAML: a quote is not closed", "close it on the same line");
  }

  /// How many bytes of its first line a scalar takes, quotes included.
  std::uint32_t scalar_length(const Place& place, std::string_view rest, const std::string& value) {
    const char first = rest.empty() ? ' ' : rest.front();
    std::size_t length = first == '|' || first == '>' ? 1 : std::min(value.size(), trim(rest).size());
    if (first == '"' || first == '\'') {
      length = std::min(quoted_length(place, first), rest.size());
    }
    return static_cast<std::uint32_t>(std::max<std::size_t>(1, length));
  }

  bool expects_key() const { return !open_.empty() && open_.back().node.kind == MarkedNode::Kind::mapping && !open_.back().key; }

  /// The parser library takes a last line without a colon for a key without a value.
  void require_colon() {
    if (open_.empty() || !open_.back().key) {
      return;
    }
    const Place& key = open_.back().key_place;
    const std::string_view rest = rest_of_line(key);
    if (!trim(rest.substr(std::min<std::size_t>(key.length, rest.size()))).starts_with(':')) {
      refuse(key, "the text is not valid YAML: a key has no colon", "write `key: value`");
    }
  }

  /// A missing value has no text of its own: its key shows where it is missing.
  Place fallback_place(const Place& place) const { return open_.back().key ? open_.back().key_place : place; }

  void start_member(const std::string& key, const Place& place) {
    Open& top = open_.back();
    const auto [first, fresh] = top.keys.try_emplace(key, place);
    top.key = key;
    top.key_place = place;
    top.duplicate = !fresh;
    if (!fresh) {
      const Place& other = first->second;
      errors_.push_back(Error(Code::duplicate_key, fmt::format("the key is given twice: `{}`", key))
                            .at(source_.mark(place))
                            .note(fmt::format("first given at {}:{}:{}", source_.name(), other.line, other.column))
                            .help("keep one of the two"));
    }
  }

  void add(MarkedNode node) {
    if (++nodes_ > limits_.max_nodes) {
      refuse(node.place, fmt::format("the text holds more than {} values", limits_.max_nodes),
             "move large lists out of the config file");
    }
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& top = open_.back();
    if (top.node.kind == MarkedNode::Kind::sequence) {
      top.node.items.push_back(std::move(node));
      return;
    }
    if (!top.duplicate) {
      top.node.members.push_back({.key = std::move(*top.key), .key_place = top.key_place, .value = std::move(node)});
    }
    top.key.reset();
  }

  void open(MarkedNode::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    const Place place = place_at(mark, 1);
    refuse_anchor(place, anchor);
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse_tag(place, tag);
    }
    if (expects_key()) {
      refuse(place, "a key is not a text", "write a name before the colon");
    }
    if (open_.size() >= limits_.max_depth) {
      refuse(place, fmt::format("nested deeper than {} levels", limits_.max_depth), "flatten the structure");
    }
    Open& top = open_.emplace_back();
    top.node.kind = kind;
    top.node.place = place;
  }

  void close() {
    MarkedNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  const SourceText& source_;
  const ParseLimits& limits_;
  std::vector<Open> open_;
  std::optional<MarkedNode> root_;
  std::vector<Error> errors_;
  std::size_t nodes_ = 0;
  std::size_t documents_ = 0;
};

/// The parser library's message in our words where it is a frequent one, else its own, lower case.
Error library_error(const SourceText& source, const YAML::Exception& cause) {
  std::string message = cause.msg;
  if (!message.empty() && message.front() >= 'A' && message.front() <= 'Z') {
    message.front() = static_cast<char>(message.front() - 'A' + 'a');
  }
  Place place{.line = static_cast<std::uint32_t>(std::max(cause.mark.line, 0)) + 1,
              .column = static_cast<std::uint32_t>(std::max(cause.mark.column, 0)) + 1};
  Error error = syntax_error(source, place, fmt::format("the text is not valid YAML: {}", message));
  const std::string_view line = source.line(place.line);
  if (line.find('\t') < line.find_first_not_of(" \t")) {
    error.help("indent with blanks; YAML does not allow tabs there");
  } else if (line.find("${") != std::string_view::npos && line.find_first_of("[{,") < line.find("${")) {
    error.help("quote texts with `${...}` inside `[ ]` and `{ }`: `\"${NAME}/dir\"`");
  } else {
    error.help("check indentation, colons, quotes and brackets on this line and the one before");
  }
  return error;
}

std::optional<Error> refuse_bytes(const SourceText& source, const ParseLimits& limits) {
  if (source.text().size() > limits.max_bytes) {
    return syntax_error(source, {.line = 1, .column = 1},
                        fmt::format("the text holds {}; the limit is {}", format_bytes(source.text().size()),
                                    format_bytes(limits.max_bytes)))
        .help("a config file holds settings only; move data out of it");
  }
  if (const auto bad = first_bad_byte(source.text())) {
    return syntax_error(source, place_of_offset(source.text(), *bad),
                        fmt::format("the text is not UTF-8: byte 0x{:02x}", static_cast<unsigned char>(source.text()[*bad])))
        .help("save the file as UTF-8 without control characters");
  }
  return std::nullopt;
}

}  // namespace

SourceText::SourceText(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  if (text_.starts_with(kByteOrderMark)) {
    text_.erase(0, kByteOrderMark.size());
  }
  line_begins_.push_back(0);
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') {
      line_begins_.push_back(i + 1);
    }
  }
}

std::string_view SourceText::line(std::uint32_t number) const {
  if (number == 0 || number > line_begins_.size()) {
    return {};
  }
  const std::size_t begin = line_begins_[number - 1];
  std::string_view line = std::string_view(text_).substr(begin);
  line = line.substr(0, line.find('\n'));
  return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

std::size_t SourceText::offset(const Place& place) const {
  const std::size_t line = std::clamp<std::size_t>(place.line, 1, line_begins_.size());
  return std::min(line_begins_[line - 1] + std::max(place.column, 1U) - 1, text_.size());
}

Mark SourceText::mark(const Place& place) const {
  // The end of the text has no line of its own: the caret then stands behind the last line that says something.
  Place shown = place;
  while (shown.line > 1 && line(shown.line).empty()) {
    --shown.line;
    shown.column = static_cast<std::uint32_t>(line(shown.line).size()) + 1;
  }
  // Of a very long line only the part up to the place is shown; far out there it is not shown at all.
  const std::string_view text = line(shown.line);
  const std::size_t shown_bytes =
      shown.column <= kMaxShownColumn ? std::max<std::size_t>(shown.column + kShownBehind, 2 * kShownBehind) : 0;
  return {.file = name_,
          .line = shown.line,
          .column = shown.column,
          .length = shown.length,
          .line_text = std::string(text.substr(0, shown_bytes))};
}

ParsedText parse_marked(const SourceText& source, const ParseLimits& limits) {
  ParsedText parsed;
  if (auto error = refuse_bytes(source, limits)) {
    parsed.errors.push_back(*std::move(error));
    return parsed;
  }
  TreeBuilder builder(source, limits);
  TextBuffer buffer(source.text());
  std::istream stream(&buffer);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    parsed.root = builder.take_root();
    if (!parsed.root) {
      parsed.root = MarkedNode{.place = {.line = 1, .column = 1}};
    }
    parsed.errors = builder.take_errors();
  } catch (Refused& refused) {
    parsed.errors = builder.take_errors();
    parsed.errors.push_back(std::move(refused.error));
  } catch (const YAML::Exception& cause) {
    parsed.errors = builder.take_errors();
    parsed.errors.push_back(library_error(source, cause));
  } catch (const std::exception& cause) {
    parsed.errors = builder.take_errors();
    parsed.errors.push_back(
        syntax_error(source, {.line = 1, .column = 1}, fmt::format("the text cannot be parsed: {}", cause.what())));
  }
  return parsed;
}

ParsedText parse_marked_json(const SourceText& source, const ParseLimits& limits) {
  ParsedText parsed = parse_marked(source, limits);
  const bool duplicates = std::ranges::any_of(parsed.errors, [](const Error& e) { return e.code() == Code::duplicate_key; });
  // A text that is YAML but not JSON is refused at the place where JSON ends; duplicate keys have better marks already.
  if (auto json = parse_json(source.text(), source.name(), {.max_bytes = limits.max_bytes, .max_depth = limits.max_depth});
      !json.ok() && !(duplicates && !json.error().mark())) {
    const std::string prefix = fmt::format("{} is not valid JSON: ", source.name());
    std::string reason = json.error().message();
    reason = reason.starts_with(prefix) ? reason.substr(prefix.size()) : reason;
    Error error(Code::config_syntax, fmt::format("the text is not valid JSON: {}", reason));
    if (json.error().mark()) {
      error.at(*json.error().mark());
    } else {
      error.at(source.mark({.line = 1, .column = 1}));
    }
    parsed.root.reset();
    parsed.errors.clear();
    parsed.errors.push_back(
        std::move(error).help("correct the JSON, or rename the file to `.yaml`: YAML allows comments and unquoted texts"));
  }
  return parsed;
}

}  // namespace parascale::config
