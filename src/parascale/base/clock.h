#pragma once

#include <cstdint>
#include <string>

namespace parascale {

/// Seam for time, so that tests can turn it. Waits and deadlines use the monotonic clock; the wall clock is only a label.
/// *thread-safe*
class Clock {
 public:
  virtual ~Clock() = default;
  /// Nanoseconds of CLOCK_MONOTONIC: comparable between processes of one host.
  virtual std::int64_t monotonic_ns() const = 0;
  /// Nanoseconds since 1970-01-01 UTC.
  virtual std::int64_t wall_ns() const = 0;
};

/// The system's clocks.
const Clock& real_clock();

/// Returns `2026-11-30T14:02:11.123Z`.
std::string iso_time(std::int64_t wall_ns);

}  // namespace parascale
