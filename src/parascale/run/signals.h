#pragma once

#include <optional>

#include "parascale/base/result.h"
#include "parascale/base/unique_fd.h"

namespace parascale::run {

/// SIGINT, SIGTERM and SIGHUP as a readable descriptor. They stay blocked for the life of the process: make it before any thread
/// starts.
class SignalWatch {
 public:
  /// Errors: io_failed.
  static Result<SignalWatch> make();
  int fd() const { return fd_.get(); }
  /// The next signal that arrived, or nothing.
  std::optional<int> take();

 private:
  UniqueFd fd_;
};

}  // namespace parascale::run
