#include "parascale/base/clock.h"
#include "parascale/base/ids.h"
#include "parascale/base/text.h"
#include "parascale/base/unique_fd.h"
#include "tests/support/matchers.h"

#include <fcntl.h>

namespace parascale {
namespace {

using std::chrono::nanoseconds;

TEST(UnitsTest, BytesChangeUnitBeforeFourDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(99 * 1024 + 900), "99.9 KiB");
  EXPECT_EQ(format_bytes(100 * 1024), "100 KiB");
  EXPECT_EQ(format_bytes((1ULL << 20) - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(UINT64_MAX), "16384 PiB");
}

TEST(UnitsTest, DurationsChangeUnitWhenRoundingDoes) {
  EXPECT_EQ(format_duration(nanoseconds(0)), "0 us");
  EXPECT_EQ(format_duration(nanoseconds(999'400)), "999 us");
  EXPECT_EQ(format_duration(nanoseconds(999'600)), "1 ms");
  EXPECT_EQ(format_duration(nanoseconds(999'600'000)), "1.0 s");
  EXPECT_EQ(format_duration(nanoseconds(59'940'000'000)), "59.9 s");
  EXPECT_EQ(format_duration(nanoseconds(59'960'000'000)), "1m00s");
  EXPECT_EQ(format_duration(std::chrono::seconds(3599)), "59m59s");
  EXPECT_EQ(format_duration(std::chrono::milliseconds(3'599'600)), "1h00m");
  EXPECT_EQ(format_duration(std::chrono::hours(26)), "26h00m");
}

TEST(UnitsTest, ThousandsAreGrouped) {
  EXPECT_EQ(format_thousands(0), "0");
  EXPECT_EQ(format_thousands(999), "999");
  EXPECT_EQ(format_thousands(1000), "1,000");
  EXPECT_EQ(format_thousands(UINT64_MAX), "18,446,744,073,709,551,615");
  EXPECT_EQ(format_count(0, "sample"), "0 samples");
}

TEST(UnitsTest, IsoTimeIsUtcWithMilliseconds) {
  EXPECT_EQ(iso_time(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(iso_time(1'790'000'000'123'999'999), "2026-09-21T14:13:20.123Z");
}

TEST(UnitsTest, NumbersAtTheirBounds) {
  EXPECT_EQ(parse_int64("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(parse_int64("9223372036854775808"), std::nullopt);
  EXPECT_EQ(parse_uint64("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_uint64("18446744073709551616"), std::nullopt);
  EXPECT_EQ(parse_uint64("+1"), std::nullopt);
  EXPECT_EQ(parse_uint64(" 1"), std::nullopt);
  EXPECT_EQ(parse_double("1e999"), std::nullopt);
}

TEST(TextTest, SplitsJoinsTrimsAndReplaces) {
  EXPECT_THAT(split("a,,b", ','), ::testing::ElementsAre("a", "", "b"));
  EXPECT_THAT(split("", ','), ::testing::ElementsAre(""));
  EXPECT_EQ(join(split("a,,b", ','), ";"), "a;;b");
  EXPECT_EQ(trim(" \t a b \r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(replace_all("aXaXX", "X", "XX"), "aXXaXXXX");  // what was put in is not looked at again
}

TEST(IdsTest, KindsCompareAndCount) {
  Step step{3};
  EXPECT_LT(step, Step{4});
  EXPECT_EQ(++step, Step{4});
  EXPECT_EQ(std::hash<Step>{}(step), std::hash<std::uint64_t>{}(4));
}

TEST(UniqueFdTest, ClosesOnceAndMoves) {
  const int number = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(number, 0);
  {
    UniqueFd first(number);
    const UniqueFd second(std::move(first));
    EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): this is what is tested
    EXPECT_EQ(second.get(), number);
    EXPECT_NE(fcntl(number, F_GETFD), -1);
  }
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

}  // namespace
}  // namespace parascale
