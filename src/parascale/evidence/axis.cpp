#include "parascale/evidence/axis.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/core.h>

#include "parascale/base/text.h"

namespace parascale::evidence {
namespace {

constexpr double kTolerance = 1e-9;  // of a tick step: rounding of repeated additions

// The smallest of 1, 2, 5 x 10^n that is not below `raw`.
double nice_step(double raw) {
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power * (1.0 + kTolerance)) {
      return factor * power;
    }
  }
  return 10.0 * power;
}

std::string trim_zeros(std::string text) {
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') {
      text.pop_back();
    }
  }
  return text;
}

std::string with_thousands(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", std::abs(value), decimals);
  const std::size_t point = std::min(text.find('.'), text.size());
  for (std::size_t place = point; place > 3; place -= 3) {
    text.insert(place - 3, ",");
  }
  const bool zero = text.find_first_not_of("0.,") == std::string::npos;
  return (value < 0.0 && !zero ? "-" : "") + text;
}

Axis linear_axis(double low, double high, const AxisOptions& options) {
  if (!(high > low)) {
    const double around = low == 0.0 ? 1.0 : std::abs(low) * 0.1;
    low -= around;
    high += around;
  }
  const double step = nice_step((high - low) / std::max(options.target_ticks, 1));
  Axis axis{.scale = Scale::linear, .low = low, .high = high, .ticks = {}};
  if (options.round_ends) {
    axis.low = std::floor(low / step + kTolerance) * step;
    axis.high = std::ceil(high / step - kTolerance) * step;
  }
  const double shown = options.format == TickFormat::percent ? step * 100.0 : step;
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(shown) - kTolerance)));
  const double first = std::ceil(axis.low / step - kTolerance);
  for (double n = first; n * step <= axis.high + step * kTolerance; n += 1.0) {
    axis.ticks.push_back({n * step, format_tick(n * step, decimals, options.format)});
  }
  return axis;
}

Axis log_axis(double low, double high, const AxisOptions& options) {
  double first = std::floor(std::log10(low) + kTolerance);
  double last = std::ceil(std::log10(high) - kTolerance);
  if (last <= first) {
    last = first + 1.0;
  }
  Axis axis{.scale = Scale::log, .low = low, .high = high, .ticks = {}};
  if (options.round_ends || !(high > low)) {
    axis.low = std::pow(10.0, first);
    axis.high = std::pow(10.0, last);
  }
  const double decades = last - first;
  const double stride = std::max(1.0, std::ceil(decades / std::max(options.target_ticks, 1)));
  for (double exponent = first; exponent <= last + kTolerance; exponent += stride) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10.0, exponent);
      const bool inside = value >= axis.low * (1.0 - kTolerance) && value <= axis.high * (1.0 + kTolerance);
      if (inside && (factor == 1.0 || decades <= 2.0)) {
        const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(value) + kTolerance)));
        axis.ticks.push_back({value, format_tick(value, decimals, options.format)});
      }
    }
  }
  return axis;
}

}  // namespace

double Axis::position(double value) const {
  if (scale == Scale::log) {
    if (value <= 0.0) {
      return 0.0;
    }
    return std::clamp((std::log(value) - std::log(low)) / (std::log(high) - std::log(low)), 0.0, 1.0);
  }
  return std::clamp((value - low) / (high - low), 0.0, 1.0);
}

Axis make_axis(double low, double high, AxisOptions options) {
  if (!std::isfinite(low) || !std::isfinite(high)) {
    return make_axis(0.0, 1.0, {.format = options.format, .target_ticks = options.target_ticks});
  }
  if (options.scale == Scale::log && low > 0.0) {
    return log_axis(low, high, options);
  }
  return linear_axis(low, high, options);
}

std::string format_tick(double value, int decimals, TickFormat format) {
  if (format == TickFormat::percent) {
    return with_thousands(value * 100.0, decimals) + "%";
  }
  struct Unit {
    double factor;
    const char* letter;
  };
  static constexpr std::array kUnits = {Unit{1e9, "G"}, Unit{1e6, "M"}, Unit{1e3, "k"}};
  const double size = std::abs(value);
  if (size >= 1e4 * (1.0 - kTolerance)) {
    for (const Unit& unit : kUnits) {
      if (size >= unit.factor * (1.0 - kTolerance)) {
        return trim_zeros(fmt::format("{:.3f}", value / unit.factor)) + unit.letter;
      }
    }
  }
  if (size > 0.0 && size < 0.001 * (1.0 - kTolerance)) {
    return fmt::format("{:.3g}", value);
  }
  return with_thousands(value, decimals);
}

std::string format_figure(double value) {
  if (!std::isfinite(value)) {
    return "-";
  }
  const double size = std::abs(value);
  if (size < 0.001) {
    return fmt::format("{:.2g}", size == 0.0 ? 0.0 : value);
  }
  return with_thousands(value, size >= 1000.0 ? 0 : size >= 100.0 ? 1 : size >= 10.0 ? 2 : size >= 1.0 ? 3 : 4);
}

}  // namespace parascale::evidence
