#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "parascale/base/clock.h"
#include "parascale/base/error.h"

namespace parascale {

/// Everything the product says: data on stdout, talk on stderr. The only place that prints.
///
/// Status lines are a right-aligned verb and an object (`  Committed checkpoint step 250`). A live progress line is drawn on a
/// terminal and replaced by one line per interval elsewhere. Colour is used on terminals without NO_COLOR and never carries
/// meaning alone. *confined to one thread*
class Console {
 public:
  struct Options {
    bool json = false;    ///< stdout carries JSON only; errors also end stderr as one JSON line
    bool quiet = false;   ///< no status and progress lines
    std::string command;  ///< for the error envelope
  };
  explicit Console(Options options, const Clock& clock = real_clock());
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  const Options& options() const { return options_; }
  bool stderr_is_terminal() const { return stderr_terminal_; }
  bool stdout_is_terminal() const { return stdout_terminal_; }

  /// Writes to stdout unchanged.
  void data(std::string_view text);
  /// One status line on stderr.
  void status(std::string_view verb, std::string_view object);
  /// Draws or replaces the progress line; without a terminal prints it at most every `interval`.
  void progress(std::string_view verb, std::string_view text, std::chrono::seconds interval = std::chrono::seconds(10));
  /// Removes the progress line.
  void end_progress();
  void warning(const Error& warning);
  void error(const Error& error);
  /// Plain text on stderr.
  void talk(std::string_view text);
  /// `next: ...`, only on a terminal.
  void next(std::string_view command);

 private:
  std::string coloured(std::string_view text, std::string_view colour) const;
  void write_stderr(std::string_view text);

  Options options_;
  const Clock& clock_;
  bool stdout_terminal_;
  bool stderr_terminal_;
  bool colour_;
  bool progress_drawn_ = false;
  std::int64_t progress_ns_ = 0;
};

/// Returns the one-line JSON error envelope of the specification: status, error_type, message, exit_code, command, details.
std::string error_envelope(const Error& error, std::string_view command);

}  // namespace parascale
