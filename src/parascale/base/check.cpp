#include "parascale/base/check.h"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <cstdio>
#include <cstdlib>

#include "parascale/base/version.h"

namespace parascale {

void check_failed(std::string_view condition, std::string_view what, std::source_location where) {
  utsname platform{};
  uname(&platform);
  fmt::print(stderr,
             "internal error[PS901]: {} ({})\n  --> {}:{} in {}\n   = note: parascale {}, {} {} {}\n"
             "   = help: this is a bug; please report it with the command line and the run directory's logs\n",
             what, condition, where.file_name(), where.line(), where.function_name(), kVersion, platform.sysname,
             platform.release, platform.machine);
  std::fflush(stderr);
  std::_Exit(70);
}

}  // namespace parascale
