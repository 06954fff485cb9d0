#include "parascale/evidence/report_charts.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/core.h>

#include "parascale/evidence/svg_chart.h"

namespace parascale::evidence {
namespace {

using run::MetricsKind;
using run::MetricsRecord;
using Pick = std::function<std::optional<double>(const MetricsRecord&)>;

std::vector<ChartPoint> points_of(const Evidence& evidence, MetricsKind kind, const Pick& pick) {
  std::vector<ChartPoint> points;
  for (const MetricsRecord& record : evidence.metrics) {
    if (record.kind == kind) {
      if (const auto value = pick(record)) {
        points.push_back({static_cast<double>(record.step.value), *value});
      }
    }
  }
  return points;
}

std::vector<ChartRule> resume_rules(const Evidence& evidence) {
  std::vector<ChartRule> rules;
  for (const Attempt& attempt : evidence.attempts) {
    if (attempt.number > 1) {
      const Step at = attempt.resumed_from.value_or(attempt.first_step.value_or(Step{}));
      rules.push_back({.at = static_cast<double>(at.value), .label = fmt::format("attempt {}", attempt.number)});
    }
  }
  return rules;
}

// All plots over steps share one axis, so that the eye can go from one to the next.
ChartOptions over_run(const Evidence& evidence, ChartOptions options) {
  options.x_low = 0.0;
  options.x_high = static_cast<double>(evidence.steps);
  return options;
}

// A twentieth of the run, at most 50 steps: visible detail without the noise of single batches.
std::size_t smoothing_window(std::size_t points) { return std::clamp<std::size_t>(points / 20, 1, 50); }

// The noisy line behind its moving average; short runs are drawn as they are.
std::vector<ChartSeries> noisy_series(std::string name, std::vector<ChartPoint> points, int colour) {
  const std::size_t window = smoothing_window(points.size());
  if (points.size() < 60) {
    return {{.name = std::move(name), .mark = ChartMark::line, .colour = colour, .points = std::move(points)}};
  }
  std::vector<ChartPoint> average = smoothed(points, window);
  return {{.name = name, .mark = ChartMark::faint_line, .colour = colour, .points = std::move(points)},
          {.name = fmt::format("mean of {}", window), .mark = ChartMark::line, .colour = colour, .points = std::move(average)}};
}

void add_loss(std::vector<std::string>& charts, const Evidence& evidence) {
  const auto loss = [](const MetricsRecord& record) { return record.loss; };
  std::vector<ChartSeries> series = noisy_series("train", points_of(evidence, MetricsKind::train, loss), 1);
  std::vector<ChartPoint> eval = points_of(evidence, MetricsKind::eval, loss);
  if (!eval.empty()) {
    series.push_back({.name = "evaluation", .mark = ChartMark::line_with_dots, .colour = 2, .points = std::move(eval)});
  }
  charts.push_back(render_chart(over_run(evidence, {.title = "Loss", .y_from_zero = true}), series, resume_rules(evidence)));
}

void add_accuracy(std::vector<std::string>& charts, const Evidence& evidence) {
  std::vector<ChartSeries> series;
  int colour = 2;
  for (const char* name : {"top1", "top5"}) {
    std::vector<ChartPoint> points = points_of(evidence, MetricsKind::eval, [&](const MetricsRecord& record) {
      const run::MetricsTerm* term = record.term(name);
      return term == nullptr ? std::nullopt : std::optional<double>(term->mean());
    });
    if (!points.empty()) {
      series.push_back({.name = name, .mark = ChartMark::line_with_dots, .colour = colour++, .points = std::move(points)});
    }
  }
  if (!series.empty()) {
    charts.push_back(
        render_chart(over_run(evidence, {.title = "Accuracy", .y_unit = "evaluation", .y_format = TickFormat::percent}), series,
                     resume_rules(evidence)));
  }
}

void add_train_chart(std::vector<std::string>& charts, const Evidence& evidence, const ChartOptions& options, const Pick& pick,
                     ChartMark mark, int colour) {
  std::vector<ChartPoint> points = points_of(evidence, MetricsKind::train, pick);
  if (points.empty()) {
    return;
  }
  std::vector<ChartSeries> series;
  if (mark == ChartMark::faint_line) {
    series = noisy_series("each step", std::move(points), colour);
  } else {
    series.push_back({.name = "each step", .mark = mark, .colour = colour, .points = std::move(points)});
  }
  std::vector<ChartRule> rules = resume_rules(evidence);
  if (options.title == "Step time") {
    rules.push_back({.direction = ChartRule::Direction::horizontal,
                     .at = evidence.step_time_ms.p99,
                     .label = fmt::format("p99 {}", format_figure(evidence.step_time_ms.p99))});
  }
  charts.push_back(render_chart(over_run(evidence, options), series, rules));
}

void add_histogram(std::vector<std::string>& charts, const Evidence& evidence) {
  std::vector<double> values;
  for (const MetricsRecord& record : evidence.metrics) {
    if (record.kind == MetricsKind::train && record.timing.step_time_seconds) {
      values.push_back(*record.timing.step_time_seconds * 1e3);
    }
  }
  if (values.empty()) {
    return;
  }
  const run::Percentiles& p = evidence.step_time_ms;
  std::vector<ChartRule> rules;
  for (const auto& [name, value] : {std::pair{"p50", p.p50}, std::pair{"p90", p.p90}, std::pair{"p99", p.p99}}) {
    rules.push_back({.at = value, .label = fmt::format("{} {}", name, format_figure(value))});
  }
  charts.push_back(render_histogram({.title = "Step time distribution", .x_label = "ms", .y_unit = "steps"}, values, 48, rules));
}

}  // namespace

std::vector<std::string> render_charts(const Evidence& evidence) {
  std::vector<std::string> charts;
  add_loss(charts, evidence);
  add_accuracy(charts, evidence);
  add_train_chart(
      charts, evidence, {.title = "Learning rate", .y_from_zero = true}, [](const MetricsRecord& r) { return r.lr; },
      ChartMark::line, 1);
  add_train_chart(
      charts, evidence, {.title = "Gradient norm", .y_unit = "before clipping", .y_scale = Scale::log},
      [](const MetricsRecord& r) { return r.grad_norm; }, ChartMark::faint_line, 3);
  add_train_chart(
      charts, evidence, {.title = "Throughput", .y_unit = "images/s, wait for data included", .y_from_zero = true},
      [](const MetricsRecord& r) { return r.rates.end_to_end_images_per_second; }, ChartMark::faint_line, 4);
  add_train_chart(
      charts, evidence, {.title = "Step time", .y_unit = "ms", .y_from_zero = true, .y_quantile = 0.995},
      [](const MetricsRecord& r) {
        return r.timing.step_time_seconds ? std::optional(*r.timing.step_time_seconds * 1e3) : std::nullopt;
      },
      ChartMark::dots, 1);
  add_histogram(charts, evidence);
  add_train_chart(
      charts, evidence, {.title = "Wait for data", .y_unit = "ms per step", .y_from_zero = true, .y_quantile = 0.995},
      [](const MetricsRecord& r) { return r.timing.dataloader_wait_ms; }, ChartMark::dots, 2);
  return charts;
}

}  // namespace parascale::evidence
