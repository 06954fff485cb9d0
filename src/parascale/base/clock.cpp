#include "parascale/base/clock.h"

#include <fmt/core.h>

#include <ctime>

namespace parascale {

namespace {

std::int64_t read_clock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

class RealClock final : public Clock {
 public:
  std::int64_t monotonic_ns() const override { return read_clock(CLOCK_MONOTONIC); }
  std::int64_t wall_ns() const override { return read_clock(CLOCK_REALTIME); }
};

}  // namespace

const Clock& real_clock() {
  static const RealClock clock;
  return clock;
}

std::string iso_time(std::int64_t wall_ns) {
  const std::time_t seconds = wall_ns / 1'000'000'000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec, wall_ns / 1'000'000 % 1000);
}

}  // namespace parascale
