#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "parascale/base/clock.h"

namespace parascale::protocol {

/// What a rank is doing. 0 is never written, so that a zeroed page says "not started".
enum class Phase : std::uint32_t {
  none = 0,
  idle = 1,
  wait_data = 2,
  h2d = 3,
  forward = 4,
  backward = 5,
  comm = 6,
  optimizer = 7,
  snapshot = 8,
  load = 9,
  infer = 10,
};
std::string_view phase_name(Phase phase);

/// The pulse page: atomics the rank updates without system calls, each on its own cache line (64 bytes), in this order.
struct PulsePage {
  struct alignas(64) Cell {
    std::atomic<std::uint64_t> value;
  };
  Cell phase;
  Cell step;
  Cell micro_step;
  Cell collective;  ///< sequence number; 0 = unknown
  Cell bucket;      ///< 0 = unknown
  Cell changed_ns;  ///< CLOCK_MONOTONIC of the last change
  Cell allocated_bytes;
  Cell peak_bytes;
  Cell samples_done;
};
static_assert(sizeof(PulsePage) == 9 * 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
inline constexpr std::size_t kPulseBytes = 4096;

/// The rank's side: stores with release order, `changed_ns` last. *confined to one thread*
class PulseWriter {
 public:
  explicit PulseWriter(std::span<std::byte> page);
  void enter(Phase phase, std::uint64_t step, std::uint32_t micro_step);
  void add_samples(std::uint64_t count);
  void set_memory(std::uint64_t allocated_bytes, std::uint64_t peak_bytes);

 private:
  PulsePage* page_;
};

/// One reading of a page by the watchdog.
struct Pulse {
  Phase phase = Phase::none;
  std::uint64_t step = 0;
  std::uint64_t micro_step = 0;
  std::uint64_t collective = 0;
  std::uint64_t bucket = 0;
  std::int64_t changed_ns = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t samples_done = 0;
};
Pulse read_pulse(std::span<const std::byte> page);

}  // namespace parascale::protocol
