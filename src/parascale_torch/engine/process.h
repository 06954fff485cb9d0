#pragma once

#include <cstdint>

#include "parascale/protocol/pulse.h"

namespace parascale::native {

/// What the kernel says about this process.
struct ProcessMemory {
  std::uint64_t rss_bytes = 0;
  std::uint64_t peak_bytes = 0;
};
ProcessMemory process_memory();

/// User and system time of all threads of this process.
std::int64_t process_cpu_ns();

/// Ignores SIGTERM and SIGINT (the agent decides), answers SIGUSR1 with `dump_stack`, and keeps freed memory for the next step.
void prepare_process();

/// False when the other end of the control socket was made by a process that is gone: nobody would ever stop this rank.
bool peer_alive(int control_fd);

/// Where this rank is, for `dump_stack`; written at every phase change.
void set_location(protocol::Phase phase, std::uint64_t step, std::uint32_t micro_step);
struct Location {
  protocol::Phase phase = protocol::Phase::none;
  std::uint64_t step = 0;
  std::uint32_t micro_step = 0;
};
Location location();

/// Writes phase, step and the stack of the calling thread to stderr. Async-signal-safe.
void dump_stack();

}  // namespace parascale::native
