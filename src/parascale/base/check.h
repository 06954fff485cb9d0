#pragma once

#include <source_location>
#include <string_view>

namespace parascale {

/// Prints what was expected, where, and the version, then exits with code 70. Used for bugs, never for bad input.
[[noreturn]] void check_failed(std::string_view condition, std::string_view what, std::source_location where);

}  // namespace parascale

/// Stops the process with exit code 70 when `condition` is false: a bug of ours, not a mistake of the user.
#define PS_CHECK(condition, what)                                                     \
  do {                                                                                \
    if (!(condition)) [[unlikely]] {                                                  \
      ::parascale::check_failed(#condition, (what), std::source_location::current()); \
    }                                                                                 \
  } while (false)
