#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parascale/evidence/axis.h"

namespace parascale::evidence {

struct ChartPoint {
  double x = 0.0, y = 0.0;  ///< a y that is not finite breaks the line

  friend bool operator==(const ChartPoint&, const ChartPoint&) = default;
};

enum class ChartMark : std::uint8_t {
  line,
  faint_line,      ///< the noisy original behind a smoothed line
  dots,            ///< small, for many points
  line_with_dots,  ///< for few points
};

struct ChartSeries {
  std::string name;
  ChartMark mark = ChartMark::line;
  int colour = 1;                  ///< 1..4: CSS variables --c1..--c4
  std::vector<ChartPoint> points;  ///< ascending in x
};

/// A dashed line across the plot with a small text: vertical (`x`) for resumes, horizontal (`y`) for percentiles.
struct ChartRule {
  enum class Direction : std::uint8_t { vertical, horizontal } direction = Direction::vertical;
  double at = 0.0;
  std::string label;
};

struct ChartOptions {
  std::string title;
  std::string x_label = "step";
  std::string y_unit;  ///< behind the title: `images/s`, `ms`
  Scale y_scale = Scale::linear;
  TickFormat y_format = TickFormat::plain;
  bool y_from_zero = false;
  std::optional<double> x_low, x_high;  ///< widen the x axis to these, so that all plots of a run line up
  double y_quantile =
      1.0;  ///< the axis ends at this quantile of the values (outliers are clamped to the edge), 1 = at the maximum
};

/// Draws a chart as an `<svg>` element of 560 x 280 units: axes with nice ticks, legend, rules, and hover columns whose `<title>`
/// lists all values. Colours are CSS variables of the page (--c1..--c4, --ink, --muted, --grid), so it follows dark and light.
/// All texts are escaped. Lines of more than 800 points are reduced with `downsample`, dots of more than 2,000 with `scattered`.
/// Without any finite value it says `no data`. Deterministic.
std::string render_chart(const ChartOptions& options, std::span<const ChartSeries> series, std::span<const ChartRule> rules = {});

/// Draws a histogram of the finite values with `bins` equal bins between minimum and the 99.5th percentile; what lies above is
/// counted in the last.
std::string render_histogram(const ChartOptions& options, std::span<const double> values, std::size_t bins,
                             std::span<const ChartRule> rules = {});

/// Reduces to at most `limit` points (limit >= 4, even) keeping each bucket's minimum and maximum in order of x, so spikes stay
/// visible.
std::vector<ChartPoint> downsample(std::span<const ChartPoint> points, std::size_t limit);

/// Reduces a cloud to at most `limit` points (even): each bucket's middle point, which keeps the density honest, and its maximum.
std::vector<ChartPoint> scattered(std::span<const ChartPoint> points, std::size_t limit);

/// Centred moving mean over `window` points; near the ends the window shrinks, on the inner side to at most half
/// its reach more than on the outer, so that steep starts do not lag and the last values do not jump. Not-finite values are
/// passed over.
std::vector<ChartPoint> smoothed(std::span<const ChartPoint> points, std::size_t window);

}  // namespace parascale::evidence
