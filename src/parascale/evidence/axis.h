#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace parascale::evidence {

enum class Scale : std::uint8_t { linear, log };

/// A mark on an axis and its text.
struct Tick {
  double value = 0.0;
  std::string label;
};

/// How tick labels are written.
enum class TickFormat : std::uint8_t {
  plain,    ///< `0.25`, `1,500`, `12k`, `1e-05`
  percent,  ///< the value times 100 with `%`
};

/// The range that is drawn and its ticks. *thread-compatible*
struct Axis {
  Scale scale = Scale::linear;
  double low = 0.0, high = 1.0;  ///< low < high; both > 0 for a log scale
  std::vector<Tick> ticks;       ///< ascending, inside [low, high]

  /// Position of `value` in 0..1 along the axis; values outside are clamped.
  double position(double value) const;
};

struct AxisOptions {
  Scale scale = Scale::linear;
  TickFormat format = TickFormat::plain;
  int target_ticks = 5;
  bool round_ends = true;  ///< widen the range to the next ticks
};

/// Makes an axis for data in [low, high]. Tick steps are 1, 2 or 5 times a power of ten (linear) or decades with 1, 2, 5 in short
/// ranges (log). An empty range is widened; a log scale without positive data falls back to linear.
Axis make_axis(double low, double high, AxisOptions options = {});

/// Writes `value` as a tick label or a table figure: `decimals` places, thousands separators, `k`, `M`, `G` from 10,000 up,
/// `1e-05` below 0.001.
std::string format_tick(double value, int decimals, TickFormat format = TickFormat::plain);

/// Writes `value` with about four significant digits: `0.9790`, `12.35`, `1,540`, `3.1e-05`, `-` when not finite.
std::string format_figure(double value);

}  // namespace parascale::evidence
