#include "parascale/evidence/axis.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

namespace parascale::evidence {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> result;
  for (const Tick& tick : axis.ticks) {
    result.push_back(tick.label);
  }
  return result;
}

TEST(AxisTest, LinearTicksAreRoundNumbers) {
  EXPECT_THAT(labels(make_axis(0.0, 2500.0)), ElementsAre("0", "500", "1,000", "1,500", "2,000", "2,500"));
  EXPECT_THAT(labels(make_axis(0.0, 0.0015)), ElementsAre("0.0000", "0.0005", "0.0010", "0.0015"));
  EXPECT_THAT(labels(make_axis(-0.7, 1.2)), ElementsAre("-1.0", "-0.5", "0.0", "0.5", "1.0", "1.5"));
  EXPECT_THAT(labels(make_axis(0.88, 0.981, {.format = TickFormat::percent})), ElementsAre("85%", "90%", "95%", "100%"));
  EXPECT_THAT(labels(make_axis(0.0, 60'000.0)), ElementsAre("0", "20k", "40k", "60k"));
  EXPECT_THAT(labels(make_axis(0.0, 3e6)), ElementsAre("0", "1M", "2M", "3M"));
}

TEST(AxisTest, EndsAreRoundedOnlyWhenAsked) {
  const Axis rounded = make_axis(3.0, 97.0);
  EXPECT_EQ(rounded.low, 0.0);
  EXPECT_EQ(rounded.high, 100.0);
  const Axis exact = make_axis(3.0, 97.0, {.round_ends = false});
  EXPECT_EQ(exact.low, 3.0);
  EXPECT_EQ(exact.high, 97.0);
  EXPECT_THAT(labels(exact), ElementsAre("20", "40", "60", "80"));
}

TEST(AxisTest, EveryRangeGivesAFewTicksInside) {
  for (double low : {-1e6, -3.7, 0.0, 1e-7, 0.3, 999.0}) {
    for (double size : {1e-6, 0.013, 0.5, 1.0, 7.0, 1234.5, 8.9e8}) {
      for (const Scale scale : {Scale::linear, Scale::log}) {
        const Axis axis = make_axis(low, low + size, {.scale = scale});
        ASSERT_LT(axis.low, axis.high);
        EXPECT_GE(axis.ticks.size(), 2U) << low << " + " << size;
        EXPECT_LE(axis.ticks.size(), 12U) << low << " + " << size;
        const double rounding = size * 1e-6 + std::abs(axis.high) * 1e-9;
        for (const Tick& tick : axis.ticks) {
          EXPECT_GE(tick.value, axis.low - rounding);
          EXPECT_LE(tick.value, axis.high + rounding);
        }
      }
    }
  }
}

TEST(AxisTest, LogTicksAreDecadesOrOneTwoFive) {
  EXPECT_THAT(labels(make_axis(0.12, 8.0, {.scale = Scale::log})), ElementsAre("0.1", "0.2", "0.5", "1", "2", "5", "10"));
  EXPECT_THAT(labels(make_axis(0.001, 1000.0, {.scale = Scale::log, .target_ticks = 6})),
              ElementsAre("0.001", "0.01", "0.1", "1", "10", "100", "1,000"));
  EXPECT_EQ(make_axis(0.0, 10.0, {.scale = Scale::log}).scale, Scale::linear);
  EXPECT_DOUBLE_EQ(make_axis(0.01, 1.0, {.scale = Scale::log}).position(0.1), 0.5);
}

TEST(AxisTest, DegenerateRangesAreWidened) {
  const Axis axis = make_axis(5.0, 5.0);
  EXPECT_LT(axis.low, 5.0);
  EXPECT_GT(axis.high, 5.0);
  EXPECT_LT(make_axis(0.0, 0.0).low, make_axis(0.0, 0.0).high);
  EXPECT_LT(make_axis(1.0, 1.0, {.scale = Scale::log}).low, make_axis(1.0, 1.0, {.scale = Scale::log}).high);
  EXPECT_EQ(make_axis(std::numeric_limits<double>::quiet_NaN(), 1.0).high, 1.0);
}

TEST(AxisTest, PositionClamps) {
  const Axis axis = make_axis(0.0, 10.0);
  EXPECT_EQ(axis.position(-5.0), 0.0);
  EXPECT_EQ(axis.position(5.0), 0.5);
  EXPECT_EQ(axis.position(50.0), 1.0);
}

TEST(FormatFigureTest, ShowsAboutFourDigits) {
  EXPECT_EQ(format_figure(0.979), "0.9790");
  EXPECT_EQ(format_figure(12.345678), "12.35");
  EXPECT_EQ(format_figure(1540.4), "1,540");
  EXPECT_EQ(format_figure(3.1e-5), "3.1e-05");
  EXPECT_EQ(format_figure(0.0), "0");
  EXPECT_EQ(format_figure(-2.5), "-2.500");
  EXPECT_EQ(format_figure(std::numeric_limits<double>::infinity()), "-");
}

}  // namespace
}  // namespace parascale::evidence
