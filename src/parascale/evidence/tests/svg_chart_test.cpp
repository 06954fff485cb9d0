#include "parascale/evidence/svg_chart.h"

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>

namespace parascale::evidence {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

TEST(DownsampleTest, KeepsSpikesOrderAndLimit) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 10'000; ++i) {
    points.push_back({static_cast<double>(i), i == 4321 ? 50.0 : i == 7777 ? -50.0 : 0.001 * (i % 7)});
  }
  const auto reduced = downsample(points, 800);
  EXPECT_LE(reduced.size(), 800U);
  EXPECT_TRUE(std::ranges::is_sorted(reduced, {}, &ChartPoint::x));
  EXPECT_TRUE(std::ranges::find(reduced, ChartPoint{4321.0, 50.0}) != reduced.end());
  EXPECT_TRUE(std::ranges::find(reduced, ChartPoint{7777.0, -50.0}) != reduced.end());
  const std::vector<ChartPoint> few = {{0, 1}, {1, 2}};
  EXPECT_EQ(downsample(few, 800), few);
}

TEST(DownsampleTest, KeepsGaps) {
  std::vector<ChartPoint> points(1000, ChartPoint{0.0, kNan});
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i].x = static_cast<double>(i);
  }
  EXPECT_EQ(downsample(points, 100).size(), 50U);
}

TEST(ScatteredTest, KeepsTheMaximumOfEachBucket) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 5000; ++i) {
    points.push_back({static_cast<double>(i), i == 1234 ? 9.0 : 1.0});
  }
  const auto reduced = scattered(points, 200);
  EXPECT_LE(reduced.size(), 200U);
  EXPECT_TRUE(std::ranges::find(reduced, ChartPoint{1234.0, 9.0}) != reduced.end());
}

TEST(SmoothedTest, IsTheCentredMean) {
  const std::vector<ChartPoint> points = {{0, 0}, {1, 3}, {2, kNan}, {3, 6}, {4, 9}, {5, 12}};
  const auto result = smoothed(points, 3);
  ASSERT_EQ(result.size(), 5U);  // the NaN is passed over
  EXPECT_EQ(result[1], (ChartPoint{1.0, 3.0}));
  EXPECT_EQ(result[2], (ChartPoint{3.0, 6.0}));
  EXPECT_EQ(smoothed(points, 1)[3], (ChartPoint{4.0, 9.0}));
  EXPECT_TRUE(smoothed({}, 5).empty());
}

TEST(RenderChartTest, SmallChartIsStable) {
  const ChartSeries series{.name = "eval", .mark = ChartMark::line_with_dots, .colour = 2, .points = {{0, 0}, {10, 1}}};
  EXPECT_EQ(
      render_chart({.title = "Loss"}, std::span(&series, 1)),
      R"(<svg class="chart" viewBox="0 0 560 280" role="img" aria-label="Loss"><text class="ct" x="12" y="20">Loss<tspan class="cu" dx="6"></tspan></text>)"
      R"(<path class="cg" d="M58 240H546"/><text class="cl" x="50" y="240" dy="3.5" text-anchor="end">0.0</text>)"
      R"(<path class="cg" d="M58 200.8H546"/><text class="cl" x="50" y="200.8" dy="3.5" text-anchor="end">0.2</text>)"
      R"(<path class="cg" d="M58 161.6H546"/><text class="cl" x="50" y="161.6" dy="3.5" text-anchor="end">0.4</text>)"
      R"(<path class="cg" d="M58 122.4H546"/><text class="cl" x="50" y="122.4" dy="3.5" text-anchor="end">0.6</text>)"
      R"(<path class="cg" d="M58 83.2H546"/><text class="cl" x="50" y="83.2" dy="3.5" text-anchor="end">0.8</text>)"
      R"(<path class="cg" d="M58 44H546"/><text class="cl" x="50" y="44" dy="3.5" text-anchor="end">1.0</text>)"
      R"(<path class="ca" d="M58 240v4"/><text class="cl" x="58" y="256" text-anchor="middle">0</text>)"
      R"(<path class="ca" d="M155.6 240v4"/><text class="cl" x="155.6" y="256" text-anchor="middle">2</text>)"
      R"(<path class="ca" d="M253.2 240v4"/><text class="cl" x="253.2" y="256" text-anchor="middle">4</text>)"
      R"(<path class="ca" d="M350.8 240v4"/><text class="cl" x="350.8" y="256" text-anchor="middle">6</text>)"
      R"(<path class="ca" d="M448.4 240v4"/><text class="cl" x="448.4" y="256" text-anchor="middle">8</text>)"
      R"(<path class="ca" d="M546 240v4"/><text class="cl" x="550" y="256" text-anchor="end">10</text>)"
      R"(<path class="ca" d="M58 240H546"/><text class="cl" x="546" y="273" text-anchor="end">step</text>)"
      R"(<path class="kl s2" d="M58 240L546 44"/><circle class="p2" cx="58" cy="240" r="3"/><circle class="p2" cx="546" cy="44" r="3"/>)"
      R"(<rect class="h" x="58" y="44" width="244" height="196"><title>step 0: 0</title></rect>)"
      R"(<rect class="h" x="302" y="44" width="244" height="196"><title>step 10: 1.000</title></rect></svg>)");
}

TEST(RenderChartTest, EscapesEveryText) {
  const ChartSeries one{.name = "<a&b>", .points = {{0, 1}, {1, 2}}};
  const std::vector<ChartSeries> series = {one, one};
  const ChartRule rule{.at = 0.5, .label = "\"<x>\""};
  const std::string svg = render_chart({.title = "<script>", .x_label = "<x>", .y_unit = "<u>"}, series, std::span(&rule, 1));
  for (const char* raw : {"<script>", "<a&b>", "<x>", "<u>"}) {
    EXPECT_THAT(svg, Not(HasSubstr(raw)));
  }
  EXPECT_THAT(svg, HasSubstr("&lt;a&amp;b&gt;"));
}

TEST(RenderChartTest, NotFiniteValuesBreakTheLine) {
  const ChartSeries series{.name = "loss", .points = {{0, 1}, {1, 2}, {2, kNan}, {3, 1}, {4, 2}}};
  const std::string svg = render_chart({.title = "Loss"}, std::span(&series, 1));
  const std::size_t path = svg.find(R"(class="kl)");
  EXPECT_EQ(count_of(svg.substr(path, svg.find("/>", path) - path), "M"), 2U);
  const ChartSeries nothing{.name = "loss", .points = {{0, kNan}}};
  EXPECT_THAT(render_chart({.title = "Loss"}, std::span(&nothing, 1)), HasSubstr("no data"));
  EXPECT_THAT(render_chart({.title = "Loss"}, {}), HasSubstr("no data"));
}

TEST(RenderChartTest, LongSeriesStaySmall) {
  ChartSeries series{.name = "loss", .points = {}};
  for (int i = 0; i < 100'000; ++i) {
    series.points.push_back({static_cast<double>(i), static_cast<double>(i % 13)});
  }
  EXPECT_LT(render_chart({.title = "Loss"}, std::span(&series, 1)).size(), 40'000U);
}

TEST(RenderChartTest, QuantileClampsOutliers) {
  ChartSeries series{.name = "ms", .mark = ChartMark::dots, .points = {}};
  for (int i = 0; i < 1000; ++i) {
    series.points.push_back({static_cast<double>(i), i == 500 ? 1e6 : 40.0 + i % 3});
  }
  EXPECT_THAT(render_chart({.title = "t"}, std::span(&series, 1)), HasSubstr(">1M<"));
  EXPECT_THAT(render_chart({.title = "t", .y_quantile = 0.99}, std::span(&series, 1)), Not(HasSubstr(">1M<")));
}

TEST(RenderHistogramTest, CountsEveryFiniteValueOnce) {
  std::vector<double> values = {kNan};
  for (int i = 0; i < 1000; ++i) {
    values.push_back(i);
  }
  values.push_back(1e9);  // beyond the 99.5th percentile: counted in the last bin
  const std::string svg = render_histogram({.title = "t", .x_label = "ms"}, values, 10);
  EXPECT_EQ(count_of(svg, R"(<rect class="b1")"), 10U);
  std::size_t total = 0;
  for (std::size_t at = svg.find(" ms: "); at != std::string::npos; at = svg.find(" ms: ", at + 1)) {
    total += std::stoul(svg.substr(at + 5));
  }
  EXPECT_EQ(total, 1001U);
  EXPECT_THAT(svg, HasSubstr("the maximum"));
  EXPECT_THAT(render_histogram({.title = "t"}, {}, 10), HasSubstr("no data"));
}

}  // namespace
}  // namespace parascale::evidence
