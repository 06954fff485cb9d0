// parascale_worker: one rank in C++ with libtorch. Started by the agent with its end of the control socket in
// PARASCALE_WORKER_FD.

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "parascale/base/text.h"
#include "parascale/base/version.h"
#include "parascale/protocol/frame.h"
#include "parascale_torch/engine/process.h"
#include "parascale_torch/engine/worker.h"

namespace {

constexpr int kUsage = 2;

int refuse(std::string_view reason) {
  fmt::print(stderr, "parascale_worker: {}\n", reason);
  return kUsage;
}

std::uint64_t rank_from_environment() {
  const char* text = std::getenv("RANK");
  return text != nullptr ? parascale::parse_uint64(text).value_or(0) : 0;
}

int work() {
  const char* text = std::getenv(parascale::protocol::kWorkerFdVariable);
  if (text == nullptr) {
    return refuse("started by `parascale train` and its relatives, not by hand; try --capabilities");
  }
  const auto fd = parascale::parse_int64(text);
  if (!fd || *fd < 0 || *fd > 1 << 20) {
    return refuse("PARASCALE_WORKER_FD is no descriptor");
  }
  parascale::native::prepare_process();
  if (!parascale::native::peer_alive(static_cast<int>(*fd))) {
    return 0;  // the agent died before the parent-death signal was armed
  }
  parascale::native::Worker worker(parascale::protocol::Channel(parascale::UniqueFd(static_cast<int>(*fd))),
                                   rank_from_environment());
  return worker.run();
}

}  // namespace

int main(int argc, char** argv) {
  int code = kUsage;
  if (argc == 2 && std::string_view(argv[1]) == "--capabilities") {
    fmt::print("{}\n", parascale::native::capabilities().dump());
    code = 0;
  } else if (argc == 2 && std::string_view(argv[1]) == "--version") {
    fmt::print("parascale_worker {} (torch {})\n", parascale::kVersion, parascale::native::torch_version());
    code = 0;
  } else if (argc == 1) {
    code = work();
  } else {
    code = refuse("unknown argument; known: --capabilities, --version");
  }
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(code);  // taking the tensor library apart would cost more than the run's last step
}
