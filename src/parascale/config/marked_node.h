#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parascale/base/error.h"

namespace parascale::config {

/// A place in a source text. Line and column start at 1, columns count bytes; `length` bytes belong to the thing named.
struct Place {
  std::uint32_t line = 0;  ///< 0 = nowhere
  std::uint32_t column = 0;
  std::uint32_t length = 1;

  friend bool operator==(const Place&, const Place&) = default;
};

/// A text that a user wrote, with a name for messages; turns places into marks. *thread-compatible*
class SourceText {
 public:
  SourceText(std::string name, std::string text);

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }
  /// The line (from 1) without its end; empty when there is no such line.
  std::string_view line(std::uint32_t number) const;
  /// Bytes before the place; at most the size of the text.
  std::size_t offset(const Place& place) const;
  /// A mark with the line's text for carets; of a long line only the part up to the place, of a very long one none.
  Mark mark(const Place& place) const;

 private:
  std::string name_;
  std::string text_;
  std::vector<std::size_t> line_begins_;
};

struct MarkedMember;

/// One value of a YAML or JSON text, with the place where it stands. Scalars keep their text: what it means is decided when the
/// type that is wanted is known (`scalar.h`). *thread-compatible*
struct MarkedNode {
  enum class Kind : std::uint8_t { null, scalar, sequence, mapping };

  Kind kind = Kind::null;
  std::string text;                   ///< of a scalar, without quotes, escapes resolved
  bool quoted = false;                ///< a quoted or block scalar: always a string
  bool expanded = false;              ///< an environment variable was put into `text`
  bool undefined = false;             ///< a variable in `text` is not defined; that error is reported, the value is unknown
  Place place;                        ///< of the value; of the key for a missing value
  std::vector<MarkedNode> items;      ///< of a sequence
  std::vector<MarkedMember> members;  ///< of a mapping, in the order of the text, keys unique
};

/// A key with its value.
struct MarkedMember {
  std::string key;
  Place key_place;
  MarkedNode value;
};

/// How much a text may hold.
struct ParseLimits {
  std::size_t max_bytes = 1UL << 20;
  std::size_t max_nodes = 100'000;
  std::size_t max_depth = 64;
};

/// The tree of a text, or what is wrong with it. A duplicate key is an error, but the tree (with the first value) exists all the
/// same, so that the remaining mistakes of the text are found in the same run.
struct ParsedText {
  std::optional<MarkedNode> root;
  std::vector<Error> errors;
};

/// Parses one YAML 1.2 document. An empty text gives a null root. UTF-8 with or without byte order mark.
///
/// Errors: config_syntax with the place (syntax, several documents, anchors, aliases, merge keys, tags other than the core ones,
/// keys that are no text, limits), duplicate_key with both places. Nothing of the parser library is thrown out of here.
/// *thread-safe*
ParsedText parse_marked(const SourceText& source, const ParseLimits& limits = {});

/// Parses one JSON document (strict RFC 8259) with the same marks and errors as `parse_marked`.
ParsedText parse_marked_json(const SourceText& source, const ParseLimits& limits = {});

}  // namespace parascale::config
