#include "parascale/base/console.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "parascale/base/json.h"

namespace parascale {

namespace {

constexpr std::string_view kGreen = "\x1b[1;32m";
constexpr std::string_view kRed = "\x1b[1;31m";
constexpr std::string_view kYellow = "\x1b[1;33m";
constexpr std::string_view kReset = "\x1b[0m";
constexpr std::string_view kEraseLine = "\r\x1b[K";

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      return;  // a reader that went away is no reason to stop
    }
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

}  // namespace

Console::Console(Options options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      stdout_terminal_(isatty(STDOUT_FILENO) == 1),
      stderr_terminal_(isatty(STDERR_FILENO) == 1) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  colour_ =
      stderr_terminal_ && (no_colour == nullptr || *no_colour == '\0') && (term == nullptr || std::string_view(term) != "dumb");
}

Console::~Console() { end_progress(); }

std::string Console::coloured(std::string_view text, std::string_view colour) const {
  return colour_ ? fmt::format("{}{}{}", colour, text, kReset) : std::string(text);
}

void Console::write_stderr(std::string_view text) {
  end_progress();
  write_all(STDERR_FILENO, text);
}

void Console::data(std::string_view text) {
  end_progress();
  write_all(STDOUT_FILENO, text);
}

void Console::status(std::string_view verb, std::string_view object) {
  if (!options_.quiet) {
    write_stderr(fmt::format("{} {}\n", coloured(fmt::format("{:>12}", verb), kGreen), object));
  }
}

void Console::progress(std::string_view verb, std::string_view text, std::chrono::seconds interval) {
  if (options_.quiet) {
    return;
  }
  if (stderr_terminal_) {
    winsize size{};
    std::size_t columns = 80;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) {
      columns = size.ws_col;
    }
    const std::string_view shown = text.substr(0, columns - 15);
    write_all(STDERR_FILENO, fmt::format("{}{} {}", kEraseLine, coloured(fmt::format("{:>12}", verb), kGreen), shown));
    progress_drawn_ = true;
    return;
  }
  const std::int64_t now = clock_.monotonic_ns();
  if (progress_ns_ == 0 || now - progress_ns_ >= std::chrono::nanoseconds(interval).count()) {
    progress_ns_ = now;
    write_all(STDERR_FILENO, fmt::format("{:>12} {}\n", verb, text));
  }
}

void Console::end_progress() {
  if (progress_drawn_) {
    progress_drawn_ = false;
    write_all(STDERR_FILENO, kEraseLine);
  }
}

void Console::warning(const Error& warning) {
  std::string text = render(warning, "warning");
  if (colour_) {
    text.replace(0, std::string_view("warning").size(), coloured("warning", kYellow));
  }
  write_stderr(text);
}

void Console::error(const Error& error) {
  std::string text = render(error);
  if (colour_) {
    text.replace(0, std::string_view("error").size(), coloured("error", kRed));
  }
  write_stderr(text);
  if (options_.json) {
    write_stderr(error_envelope(error, options_.command) + "\n");
  }
}

void Console::talk(std::string_view text) { write_stderr(text); }

void Console::next(std::string_view command) {
  if (stderr_terminal_ && !options_.quiet) {
    write_stderr(fmt::format("next: {}\n", command));
  }
}

std::string error_envelope(const Error& error, std::string_view command) {
  Json details = Json::object({{"exception", std::string(info(error.code()).name)}, {"code", code_text(error.code())}});
  if (error.mark()) {
    details["place"] =
        Json::object({{"file", error.mark()->file}, {"line", error.mark()->line}, {"column", error.mark()->column}});
  }
  for (const Error* e = &error; e != nullptr; e = e->cause()) {
    if (e != &error) {
      details["causes"].push_back(e->message());
    }
    for (const auto& note : e->notes()) {
      details["notes"].push_back(note);
    }
    for (const auto& help : e->helps()) {
      details["help"].push_back(help);
    }
  }
  return Json::object({{"status", "error"},
                       {"error_type", std::string(error_type(error.kind()))},
                       {"message", error.message()},
                       {"exit_code", exit_code(error.kind())},
                       {"command", std::string(command)},
                       {"details", std::move(details)}})
      .dump();
}

}  // namespace parascale
