#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace parascale {

/// Who has to act: decides the exit code of the process (2, 3, 4, 5, 6, 70).
enum class ErrorKind : std::uint8_t { config, dependency, run, checkpoint, benchmark, internal };

/// One code of the registry `diagnostic_codes.def`; printed as `PSnnn`.
enum class Code : std::uint16_t {
#define PS_DIAGNOSTIC(number, name, kind, title) name = number,
#include "parascale/base/diagnostic_codes.def"
#undef PS_DIAGNOSTIC
};

/// What the registry says about a code.
struct CodeInfo {
  Code code;
  std::string_view name;  ///< `unknown_key`
  ErrorKind kind;
  std::string_view title;  ///< one line, lower case
};

/// Returns every registered code, ascending.
const std::vector<CodeInfo>& registered_codes();
/// Returns the registry's entry of `code`.
const CodeInfo& info(Code code);
/// Returns `PS103`.
std::string code_text(Code code);
/// The registered code that `PS103` stands for, or nothing.
std::optional<Code> code_from_text(std::string_view text);
/// Returns 2, 3, 4, 5, 6 or 70.
int exit_code(ErrorKind kind);
/// Returns the specification's name: `config_error`, `dependency_error`, `runtime_error`, `checkpoint_error`, `benchmark_error`,
/// `internal_error`.
std::string_view error_type(ErrorKind kind);

/// A place in a text the user wrote. Line and column start at 1, columns count bytes; `length` bytes are underlined.
struct Mark {
  std::string file;
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::uint32_t length = 1;
  std::string line_text;  ///< the whole line, without its end
};

/// An expected failure: what was observed, where, what follows from it, and what to do.
///
/// `message` is lower case without a full stop, observed fact first, variable part last, user text in backticks; the remedy
/// stands only in `help`. Layers add context once with `wrap`. *thread-compatible*
class Error {
 public:
  explicit Error(Code code, std::string message, std::source_location where = std::source_location::current());

  Error& at(Mark mark) &;
  Error&& at(Mark mark) &&;
  Error& note(std::string text) &;
  Error&& note(std::string text) &&;
  Error& help(std::string text) &;
  Error&& help(std::string text) &&;
  /// Makes `this` the cause of a new error that names the operation and the object of the layer above.
  Error wrap(Code code, std::string message, std::source_location where = std::source_location::current()) const;

  Code code() const { return code_; }
  ErrorKind kind() const { return info(code_).kind; }
  const std::string& message() const { return message_; }
  const std::optional<Mark>& mark() const { return mark_; }
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<std::string>& helps() const { return helps_; }
  const Error* cause() const { return cause_.get(); }
  const std::source_location& where() const { return where_; }

 private:
  Code code_;
  std::string message_;
  std::optional<Mark> mark_;
  std::vector<std::string> notes_;
  std::vector<std::string> helps_;
  std::shared_ptr<const Error> cause_;
  std::source_location where_;
};

/// Renders the error in the form of STYLE.md (`error[PS103]: ...`, place with caret, notes, help), ending with a line feed.
/// `severity` is `error` or `warning`.
std::string render(const Error& error, std::string_view severity = "error");

/// Returns an io_failed error that names operation and path and explains `error_number` (an errno value).
Error io_error(std::string_view operation, std::string_view path, int error_number,
               std::source_location where = std::source_location::current());

}  // namespace parascale
