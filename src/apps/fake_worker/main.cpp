#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "fake_rank.h"
#include "parascale/base/text.h"

int main() {
  using parascale::protocol::Channel;
  const char* text = std::getenv(parascale::protocol::kWorkerFdVariable);
  const auto fd = parascale::parse_int64(text != nullptr ? text : "");
  if (!fd) {
    fmt::print(stderr, "the fake worker is started by a run: parascale train CONFIG --set runtime.worker=fake\n");
    return 2;
  }
  // The agent decides when to stop; a signal to the group must not take the rank away in the middle of a step.
  signal(SIGTERM, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  const char* faults = std::getenv("PARASCALE_FAKE_FAULT");
  return parascale::fake::FakeRank(Channel(parascale::UniqueFd(static_cast<int>(*fd))),
                                   parascale::fake::parse_faults(faults != nullptr ? faults : ""))
      .serve();
}
