#include "parascale/evidence/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "parascale/evidence/html.h"

namespace parascale::evidence {
namespace {

constexpr double kWidth = 560.0, kHeight = 280.0;
constexpr double kLeft = 58.0, kRight = 14.0, kTop = 44.0, kBottom = 40.0;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
constexpr std::size_t kMaxPoints = 800, kMaxDots = 2000, kMaxHoverColumns = 120;

struct Frame {
  Axis x, y;
  double px(double value) const { return kLeft + x.position(value) * kPlotWidth; }
  double py(double value) const { return kTop + (1.0 - y.position(value)) * kPlotHeight; }
};

// One decimal is a tenth of a unit of a 560 unit picture: enough, and short.
std::string coordinate(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) {
    text.resize(text.size() - 2);
  }
  return text;
}

double text_width(std::string_view text) { return 6.1 * static_cast<double>(text.size()); }

std::string open_svg(const ChartOptions& options) {
  return fmt::format(R"(<svg class="chart" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">)", kWidth, kHeight,
                     escape_html(options.title)) +
         fmt::format(R"(<text class="ct" x="12" y="20">{}<tspan class="cu" dx="6">{}</tspan></text>)", escape_html(options.title),
                     escape_html(options.y_unit));
}

std::string no_data(const ChartOptions& options) {
  return open_svg(options) + fmt::format(R"(<text class="cl" x="{:.0f}" y="{:.0f}" text-anchor="middle">no data</text></svg>)",
                                         kWidth / 2, kHeight / 2);
}

void draw_axes(std::string& out, const Frame& frame, const ChartOptions& options) {
  for (const Tick& tick : frame.y.ticks) {
    const std::string y = coordinate(frame.py(tick.value));
    out += fmt::format(R"(<path class="cg" d="M{:.0f} {}H{:.0f}"/>)", kLeft, y, kWidth - kRight);
    out += fmt::format(R"(<text class="cl" x="{:.0f}" y="{}" dy="3.5" text-anchor="end">{}</text>)", kLeft - 8, y,
                       escape_html(tick.label));
  }
  const double base = kTop + kPlotHeight;
  for (const Tick& tick : frame.x.ticks) {
    const std::string x = coordinate(frame.px(tick.value));
    out += fmt::format(R"(<path class="ca" d="M{} {:.0f}v4"/>)", x, base);
    const bool at_edge = frame.px(tick.value) + text_width(tick.label) / 2 > kWidth - kRight + 4.0;
    out += fmt::format(R"(<text class="cl" x="{}" y="{:.0f}" text-anchor="{}">{}</text>)",
                       at_edge ? coordinate(kWidth - kRight + 4.0) : x, base + 16, at_edge ? "end" : "middle",
                       escape_html(tick.label));
  }
  out += fmt::format(R"(<path class="ca" d="M{:.0f} {:.0f}H{:.0f}"/>)", kLeft, base, kWidth - kRight);
  out += fmt::format(R"(<text class="cl" x="{:.0f}" y="{:.0f}" text-anchor="end">{}</text>)", kWidth - kRight, kHeight - 7,
                     escape_html(options.x_label));
}

void draw_rules(std::string& out, const Frame& frame, std::span<const ChartRule> rules) {
  double label_end = -1.0;  // of the last vertical rule: a close neighbour's label moves down a line
  double lowered = 0.0;
  for (const ChartRule& rule : rules) {
    if (rule.direction == ChartRule::Direction::vertical) {
      if (rule.at < frame.x.low || rule.at > frame.x.high) {
        continue;
      }
      const double x = frame.px(rule.at);
      const bool left = x + 4.0 + text_width(rule.label) > kWidth - kRight;
      lowered = x < label_end ? lowered + 13.0 : 0.0;
      label_end = x + 8.0 + text_width(rule.label);
      out += fmt::format(R"(<path class="cr" d="M{} {:.0f}v{:.0f}"/>)", coordinate(x), kTop, kPlotHeight);
      out += fmt::format(R"(<text class="cm" x="{}" y="{:.0f}" text-anchor="{}">{}</text>)", coordinate(left ? x - 4.0 : x + 4.0),
                         kTop - 5.0 + lowered, left ? "end" : "start", escape_html(rule.label));
    } else if (rule.at >= frame.y.low && rule.at <= frame.y.high) {
      const double y = frame.py(rule.at);
      out += fmt::format(R"(<path class="cr" d="M{:.0f} {}H{:.0f}"/>)", kLeft, coordinate(y), kWidth - kRight);
      out += fmt::format(R"(<text class="cm" x="{:.0f}" y="{}" text-anchor="end">{}</text>)", kWidth - kRight - 2,
                         coordinate(y - 4.0), escape_html(rule.label));
    }
  }
}

void draw_legend(std::string& out, std::span<const ChartSeries> series) {
  if (series.size() < 2) {
    return;
  }
  double x = kWidth - kRight;
  for (std::size_t i = series.size(); i-- > 0;) {
    x -= text_width(series[i].name);
    out += fmt::format(R"(<text class="cl" x="{}" y="20">{}</text>)", coordinate(x), escape_html(series[i].name));
    x -= 18.0;
    out += fmt::format(R"(<path class="k{} s{}" d="M{} 16.5h13"/>)", series[i].mark == ChartMark::faint_line ? "f kw" : "l",
                       series[i].colour, coordinate(x));
    x -= 12.0;
  }
}

void draw_line(std::string& out, const Frame& frame, const ChartSeries& series, std::span<const ChartPoint> points) {
  std::string path;
  bool pen_down = false;
  for (const ChartPoint& point : points) {
    if (!std::isfinite(point.y)) {
      pen_down = false;
      continue;
    }
    path += pen_down ? 'L' : 'M';
    path += coordinate(frame.px(point.x)) + ' ' + coordinate(frame.py(point.y));
    pen_down = true;
  }
  out += fmt::format(R"(<path class="k{} s{}" d="{}"/>)", series.mark == ChartMark::faint_line ? "f" : "l", series.colour, path);
}

void draw_series(std::string& out, const Frame& frame, const ChartSeries& series) {
  if (series.mark == ChartMark::dots) {
    const std::vector<ChartPoint> points = scattered(series.points, kMaxDots);
    std::string path;  // zero-length strokes with round caps: one element instead of hundreds
    for (const ChartPoint& point : points) {
      if (std::isfinite(point.y)) {
        path += 'M' + coordinate(frame.px(point.x)) + ' ' + coordinate(frame.py(point.y)) + "h0";
      }
    }
    out += fmt::format(R"(<path class="kd s{}" d="{}"/>)", series.colour, path);
    return;
  }
  const std::vector<ChartPoint> points = downsample(series.points, kMaxPoints);
  draw_line(out, frame, series, points);
  if (series.mark == ChartMark::line_with_dots) {
    for (const ChartPoint& point : points) {
      if (std::isfinite(point.y)) {
        out += fmt::format(R"(<circle class="p{}" cx="{}" cy="{}" r="3"/>)", series.colour, coordinate(frame.px(point.x)),
                           coordinate(frame.py(point.y)));
      }
    }
  }
}

std::string value_text(double value, TickFormat format) {
  return format == TickFormat::percent && std::isfinite(value) ? fmt::format("{:.2f}%", value * 100.0) : format_figure(value);
}

// Transparent columns over the plot: the browser's own tooltip lists the values nearest to the column's middle.
void draw_hover(std::string& out, const Frame& frame, const ChartOptions& options, std::span<const ChartSeries> series) {
  const auto longest = std::ranges::max_element(series, {}, [](const ChartSeries& s) { return s.points.size(); });
  const std::size_t columns = std::min(longest->points.size(), kMaxHoverColumns);
  if (columns == 0) {
    return;
  }
  const double width = kPlotWidth / static_cast<double>(columns);
  for (std::size_t column = 0; column < columns; ++column) {
    const double left = width * static_cast<double>(column);
    const double middle = frame.x.low + (left + width / 2) / kPlotWidth * (frame.x.high - frame.x.low);
    std::string title;
    for (const ChartSeries& one : series) {
      const auto nearest = std::ranges::min_element(one.points, {}, [&](const ChartPoint& p) { return std::abs(p.x - middle); });
      if (nearest == one.points.end()) {
        continue;
      }
      const std::string name = series.size() == 1 ? std::string() : one.name + " ";
      title += fmt::format("{}{} {}: {}{}", title.empty() ? "" : "\n", options.x_label, format_tick(nearest->x, 0), name,
                           value_text(nearest->y, options.y_format));
    }
    out += fmt::format(R"(<rect class="h" x="{}" y="{:.0f}" width="{}" height="{:.0f}"><title>{}</title></rect>)",
                       coordinate(kLeft + left), kTop, coordinate(width), kPlotHeight, escape_html(title));
  }
}

struct Extent {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

// The smallest value that `q` of the values do not exceed.
double quantile(std::vector<double> values, double q) {
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::ranges::nth_element(values, place);
  return *place;
}

}  // namespace

std::vector<ChartPoint> downsample(std::span<const ChartPoint> points, std::size_t limit) {
  if (points.size() <= limit) {
    return {points.begin(), points.end()};
  }
  std::vector<ChartPoint> result;
  result.reserve(limit);
  const std::size_t buckets = limit / 2;
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    const std::size_t first = points.size() * bucket / buckets;
    const std::size_t end = points.size() * (bucket + 1) / buckets;
    std::size_t low = end, high = end;  // end = none is finite
    for (std::size_t i = first; i < end; ++i) {
      if (std::isfinite(points[i].y)) {
        low = low == end || points[i].y < points[low].y ? i : low;
        high = high == end || points[i].y > points[high].y ? i : high;
      }
    }
    if (low == end) {
      result.push_back(points[first]);  // keeps the gap
      continue;
    }
    result.push_back(points[std::min(low, high)]);
    if (low != high) {
      result.push_back(points[std::max(low, high)]);
    }
  }
  return result;
}

std::vector<ChartPoint> scattered(std::span<const ChartPoint> points, std::size_t limit) {
  if (points.size() <= limit) {
    return {points.begin(), points.end()};
  }
  std::vector<ChartPoint> result;
  result.reserve(limit);
  const std::size_t buckets = limit / 2;
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    const std::size_t first = points.size() * bucket / buckets;
    const std::size_t end = points.size() * (bucket + 1) / buckets;
    std::size_t high = first;
    for (std::size_t i = first; i < end; ++i) {
      high = points[i].y > points[high].y || !std::isfinite(points[high].y) ? i : high;
    }
    const std::size_t middle = first + (end - first) / 2;
    result.push_back(points[std::min(middle, high)]);
    if (middle != high) {
      result.push_back(points[std::max(middle, high)]);
    }
  }
  return result;
}

std::vector<ChartPoint> smoothed(std::span<const ChartPoint> points, std::size_t window) {
  std::vector<ChartPoint> finite;
  std::ranges::copy_if(points, std::back_inserter(finite), [](const ChartPoint& point) { return std::isfinite(point.y); });
  std::vector<double> sums(finite.size() + 1, 0.0);
  for (std::size_t i = 0; i < finite.size(); ++i) {
    sums[i + 1] = sums[i] + finite[i].y;
  }
  std::vector<ChartPoint> result;
  result.reserve(finite.size());
  for (std::size_t i = 0; i < finite.size(); ++i) {
    const std::size_t half = window / 2;
    const std::size_t before = std::min(half, i), after = std::min(half, finite.size() - 1 - i);
    const std::size_t first = i - std::min(before, after + half / 2);
    const std::size_t end = i + std::min(after, before + half / 2) + 1;
    result.push_back({finite[i].x, (sums[end] - sums[first]) / static_cast<double>(end - first)});
  }
  return result;
}

std::string render_chart(const ChartOptions& options, std::span<const ChartSeries> series, std::span<const ChartRule> rules) {
  Extent x, y;
  std::vector<double> values;
  for (const ChartSeries& one : series) {
    for (const ChartPoint& point : one.points) {
      if (std::isfinite(point.y) && !(options.y_scale == Scale::log && point.y <= 0.0)) {
        x.add(point.x);
        y.add(point.y);
        values.push_back(point.y);
      }
    }
  }
  if (x.empty()) {
    return no_data(options);
  }
  if (options.y_quantile < 1.0) {
    y.high = quantile(values, options.y_quantile);
    for (const ChartRule& rule : rules) {
      if (rule.direction == ChartRule::Direction::horizontal) {
        y.add(rule.at);
      }
    }
  }
  if (options.y_from_zero) {
    y.add(0.0);
  }
  x.add(options.x_low.value_or(x.low));
  x.add(options.x_high.value_or(x.high));
  const Frame frame{.x = make_axis(x.low, x.high, {.target_ticks = 6, .round_ends = false}),
                    .y = make_axis(y.low, y.high, {.scale = options.y_scale, .format = options.y_format})};
  std::string out = open_svg(options);
  draw_axes(out, frame, options);
  draw_rules(out, frame, rules);
  for (const ChartSeries& one : series) {
    draw_series(out, frame, one);
  }
  draw_legend(out, series);
  draw_hover(out, frame, options, series);
  out += "</svg>";
  return out;
}

std::string render_histogram(const ChartOptions& options, std::span<const double> values, std::size_t bins,
                             std::span<const ChartRule> rules) {
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite), [](double value) { return std::isfinite(value); });
  if (finite.empty() || bins == 0) {
    return no_data(options);
  }
  const double low = std::ranges::min(finite);
  double high = quantile(finite, 0.995);
  high = high > low ? high : low + std::max(std::abs(low) * 0.01, 1e-9);
  const double width = (high - low) / static_cast<double>(bins);
  std::vector<std::size_t> counts(bins, 0);
  for (const double value : finite) {
    ++counts[std::min(static_cast<std::size_t>(std::max(0.0, (value - low) / width)), bins - 1)];
  }
  const Frame frame{.x = make_axis(low, high, {.target_ticks = 6, .round_ends = false}),
                    .y = make_axis(0.0, static_cast<double>(std::ranges::max(counts)), {.target_ticks = 4})};
  std::string out = open_svg(options);
  draw_axes(out, frame, options);
  const double base = kTop + kPlotHeight;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    const double from = low + width * static_cast<double>(bin);
    const double left = frame.px(from), right = frame.px(from + width), top = frame.py(static_cast<double>(counts[bin]));
    const std::string title = fmt::format(
        "{} to {}{} {}: {} of {}", format_figure(from), bin + 1 == bins && std::ranges::max(finite) > high ? "the maximum, " : "",
        bin + 1 == bins && std::ranges::max(finite) > high ? format_figure(std::ranges::max(finite))
                                                           : format_figure(from + width),
        options.x_label, counts[bin], finite.size());
    out +=
        fmt::format(R"(<rect class="b1" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>)", coordinate(left + 0.5),
                    coordinate(top), coordinate(std::max(right - left - 1.0, 0.5)), coordinate(base - top), escape_html(title));
  }
  draw_rules(out, frame, rules);
  out += "</svg>";
  return out;
}

}  // namespace parascale::evidence
