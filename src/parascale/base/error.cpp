#include "parascale/base/error.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "parascale/base/check.h"

namespace parascale {

const std::vector<CodeInfo>& registered_codes() {
  static const std::vector<CodeInfo> codes = {
#define PS_DIAGNOSTIC(number, name, kind, title) CodeInfo{Code::name, #name, ErrorKind::kind, title},
#include "parascale/base/diagnostic_codes.def"
#undef PS_DIAGNOSTIC
  };
  return codes;
}

const CodeInfo& info(Code code) {
  const auto& codes = registered_codes();
  const auto found = std::ranges::lower_bound(codes, code, {}, &CodeInfo::code);
  PS_CHECK(found != codes.end() && found->code == code, "diagnostic code is registered");
  return *found;
}

std::string code_text(Code code) { return fmt::format("PS{:03}", static_cast<unsigned>(code)); }

std::optional<Code> code_from_text(std::string_view text) {
  for (const auto& entry : registered_codes()) {
    if (code_text(entry.code) == text) {
      return entry.code;
    }
  }
  return std::nullopt;
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::config:
      return 2;
    case ErrorKind::dependency:
      return 3;
    case ErrorKind::run:
      return 4;
    case ErrorKind::checkpoint:
      return 5;
    case ErrorKind::benchmark:
      return 6;
    case ErrorKind::internal:
      return 70;
  }
  return 70;
}

std::string_view error_type(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::config:
      return "config_error";
    case ErrorKind::dependency:
      return "dependency_error";
    case ErrorKind::run:
      return "runtime_error";
    case ErrorKind::checkpoint:
      return "checkpoint_error";
    case ErrorKind::benchmark:
      return "benchmark_error";
    case ErrorKind::internal:
      return "internal_error";
  }
  return "internal_error";
}

Error::Error(Code code, std::string message, std::source_location where)
    : code_(code), message_(std::move(message)), where_(where) {}

Error& Error::at(Mark mark) & {
  mark_ = std::move(mark);
  return *this;
}
Error&& Error::at(Mark mark) && { return std::move(at(std::move(mark))); }

Error& Error::note(std::string text) & {
  notes_.push_back(std::move(text));
  return *this;
}
Error&& Error::note(std::string text) && { return std::move(note(std::move(text))); }

Error& Error::help(std::string text) & {
  helps_.push_back(std::move(text));
  return *this;
}
Error&& Error::help(std::string text) && { return std::move(help(std::move(text))); }

Error Error::wrap(Code code, std::string message, std::source_location where) const {
  Error outer(code, std::move(message), where);
  outer.cause_ = std::make_shared<const Error>(*this);
  return outer;
}

namespace {

void append_mark(std::string& out, const Mark& mark) {
  const std::string number = std::to_string(mark.line);
  const std::string gutter(number.size(), ' ');
  out += fmt::format("{}--> {}:{}:{}\n", gutter, mark.file, mark.line, mark.column);
  if (mark.line_text.empty()) {
    return;
  }
  // Tabs and multi-byte characters keep the caret under its text: the pad repeats tabs and skips continuation bytes.
  std::string pad;
  const std::size_t before = std::min<std::size_t>(mark.column > 0 ? mark.column - 1 : 0, mark.line_text.size());
  for (const char c : mark.line_text.substr(0, before)) {
    if (c == '\t') {
      pad += '\t';
    } else if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) {
      pad += ' ';
    }
  }
  const std::size_t rest = mark.line_text.size() - before;
  const std::size_t carets = std::max<std::size_t>(1, std::min<std::size_t>(mark.length, std::max<std::size_t>(rest, 1)));
  out += fmt::format("{} |\n{} | {}\n{} | {}{}\n", gutter, number, mark.line_text, gutter, pad, std::string(carets, '^'));
}

}  // namespace

std::string render(const Error& error, std::string_view severity) {
  std::string out = fmt::format("{}[{}]: {}\n", severity, code_text(error.code()), error.message());
  std::vector<const Error*> chain;
  for (const Error* e = &error; e != nullptr; e = e->cause()) {
    chain.push_back(e);
  }
  for (const Error* e : chain) {
    if (e->mark()) {
      append_mark(out, *e->mark());
      break;
    }
  }
  for (const Error* e : chain) {
    if (e != &error) {
      out += fmt::format("   = cause: {}\n", e->message());
    }
    for (const auto& note : e->notes()) {
      out += fmt::format("   = note: {}\n", note);
    }
  }
  for (const Error* e : chain) {
    for (const auto& help : e->helps()) {
      out += fmt::format("   = help: {}\n", help);
    }
  }
  return out;
}

Error io_error(std::string_view operation, std::string_view path, int error_number, std::source_location where) {
  return Error(Code::io_failed, fmt::format("cannot {} `{}`: {}", operation, path, std::generic_category().message(error_number)),
               where);
}

}  // namespace parascale
