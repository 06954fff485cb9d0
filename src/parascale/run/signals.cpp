#include "parascale/run/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

namespace parascale::run {

Result<SignalWatch> SignalWatch::make() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    sigaddset(&set, number);
  }
  if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0) {
    return io_error("block", "signals", errno);
  }
  signal(SIGPIPE, SIG_IGN);
  SignalWatch watch;
  watch.fd_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!watch.fd_.valid()) {
    return io_error("watch", "signals", errno);
  }
  return watch;
}

std::optional<int> SignalWatch::take() {
  signalfd_siginfo info{};
  if (read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

}  // namespace parascale::run
