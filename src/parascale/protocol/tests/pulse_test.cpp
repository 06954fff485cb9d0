#include "parascale/protocol/pulse.h"

#include <array>

#include "tests/support/matchers.h"

namespace parascale::protocol {
namespace {

struct alignas(64) Page {
  std::array<std::byte, kPulseBytes> bytes{};
};

TEST(PulseTest, AZeroedPageHasNotStarted) {
  const Page page;
  const Pulse pulse = read_pulse(page.bytes);
  EXPECT_EQ(pulse.phase, Phase::none);
  EXPECT_EQ(pulse.changed_ns, 0);
  EXPECT_EQ(phase_name(pulse.phase), "not started");
}

TEST(PulseTest, TheWatchdogReadsWhatTheRankStored) {
  Page page;
  PulseWriter writer(page.bytes);
  const auto before = real_clock().monotonic_ns();
  writer.enter(Phase::backward, 137, 2);
  writer.set_memory(10, 20);
  writer.add_samples(32);
  writer.add_samples(16);
  const Pulse pulse = read_pulse(page.bytes);
  EXPECT_EQ(pulse.phase, Phase::backward);
  EXPECT_EQ(pulse.step, 137U);
  EXPECT_EQ(pulse.micro_step, 2U);
  EXPECT_EQ(pulse.samples_done, 48U);
  EXPECT_EQ(pulse.allocated_bytes, 10U);
  EXPECT_EQ(pulse.peak_bytes, 20U);
  EXPECT_GE(pulse.changed_ns, before);
  EXPECT_LE(pulse.changed_ns, real_clock().monotonic_ns());
}

TEST(PulseTest, EachCellHasItsOwnCacheLine) {
  Page page;
  PulseWriter writer(page.bytes);
  writer.enter(Phase::infer, 1, 0);
  // phase is the first cell, step the second; the rest of their lines stays untouched.
  EXPECT_EQ(page.bytes[0], std::byte{10});
  EXPECT_EQ(page.bytes[64], std::byte{1});
  EXPECT_THAT(std::span(page.bytes).subspan(8, 56), ::testing::Each(std::byte{0}));
}

TEST(PulseTest, AForeignPhaseHasAName) {
  Page page;
  page.bytes[0] = std::byte{200};
  EXPECT_EQ(phase_name(read_pulse(page.bytes).phase), "unknown");
  EXPECT_EQ(phase_name(Phase::wait_data), "wait_data");
}

}  // namespace
}  // namespace parascale::protocol
