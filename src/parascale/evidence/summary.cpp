#include "parascale/evidence/summary.h"

#include <algorithm>

#include <fmt/core.h>

#include "parascale/base/text.h"
#include "parascale/evidence/axis.h"
#include "parascale/evidence/report_sections.h"

namespace parascale::evidence {
namespace {

void add_line(std::string& out, std::string_view name, const std::string& value, const std::string& detail) {
  std::string line = fmt::format("  {:<12} {:<16} {}", name, value.empty() ? "-" : value, detail);
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + "\n";
}

std::string headline(const Evidence& evidence) {
  std::string out;
  if (!evidence.labels().empty()) {
    out += join(evidence.labels(), ", ") + "\n";
  }
  out += fmt::format("{} {}: {}, {}", evidence.run_name, evidence.outcome, format_count(evidence.steps, "step"),
                     format_count(evidence.samples, "sample"));
  if (evidence.wall_seconds) {
    out += " in " + seconds_text(*evidence.wall_seconds);
  }
  if (evidence.attempts.size() > 1) {
    out += fmt::format(" ({} attempts)", evidence.attempts.size());
  }
  return out + "\n\n";
}

void add_result(std::string& out, const Evidence& evidence) {
  if (!evidence.best_evaluation) {
    add_line(out, "result", "", "no evaluation");
    return;
  }
  const EvaluationRow& best = evidence.evaluations[*evidence.best_evaluation];
  std::string detail = fmt::format("best of {}, at step {}", format_count(evidence.evaluations.size(), "evaluation"),
                                   format_thousands(best.step.value));
  for (const auto& [name, value] : best.metrics) {
    if (name != evidence.metric) {
      detail += fmt::format(", {} {}", name, format_figure(value));
    }
  }
  add_line(out, "result", fmt::format("{} {}", evidence.metric, format_figure(metric_of(best, evidence.metric).value_or(0.0))),
           detail);
}

std::string cpu_detail(const Evidence& evidence) {
  const CpuSeconds& cpu = *evidence.cpu_seconds;
  return fmt::format("{:.0f} workers + {:.0f} engine + {:.0f} agent - {:.0f} evaluation", cpu.workers, cpu.engine, cpu.agent,
                     cpu.evaluation);
}

// Attempts that were killed reported nothing: the sum is then a lower bound.
std::string cpu_value(const Evidence& evidence) {
  return fmt::format("{}{:.0f} s", evidence.cpu_seconds_complete ? "" : "at least ", evidence.cpu_seconds->training());
}

std::string checkpoint_detail(const Evidence& evidence) {
  const auto kept = [](const CheckpointRow& row) { return !row.removed; };
  std::string detail;
  const auto last = std::find_if(evidence.checkpoints.rbegin(), evidence.checkpoints.rend(), kept);
  if (last != evidence.checkpoints.rend()) {
    detail = fmt::format("last step {}", format_thousands(last->step.value));
  }
  const auto best = std::ranges::find_if(evidence.checkpoints, [&](const CheckpointRow& row) { return kept(row) && row.best; });
  if (best != evidence.checkpoints.end()) {
    detail += fmt::format(", best step {}", format_thousands(best->step.value));
  }
  return detail;
}

}  // namespace

std::string summary_text(const Evidence& evidence, const EvidencePaths& paths) {
  std::string out = headline(evidence);
  add_result(out, evidence);
  add_line(out, "train loss", evidence.final_train_loss ? format_figure(*evidence.final_train_loss) : "",
           "mean of the last 50 steps");
  const run::Percentiles& rate = evidence.end_to_end_images_per_second;
  const run::Percentiles& step = evidence.step_time_ms;
  add_line(out, "throughput", rate.count > 0 ? format_figure(rate.p50) + " images/s" : "", "median, wait for data included");
  add_line(out, "step time", step.count > 0 ? format_figure(step.p50) + " ms" : "",
           step.count > 0 ? fmt::format("median; p90 {}, p99 {}", format_figure(step.p90), format_figure(step.p99)) : "");
  add_line(out, "data wait", evidence.data_wait_share ? fmt::format("{:.2f}%", *evidence.data_wait_share * 100.0) : "",
           "of step time");
  add_line(out, "cpu time", evidence.cpu_seconds ? cpu_value(evidence) : "", evidence.cpu_seconds ? cpu_detail(evidence) : "");
  const auto kept = std::ranges::count_if(evidence.checkpoints, [](const CheckpointRow& row) { return !row.removed; });
  add_line(out, "checkpoints", fmt::format("{} kept", kept), checkpoint_detail(evidence));
  add_line(out, "samples", fmt::format("{} replaced", format_thousands(evidence.replaced_samples)),
           fmt::format("{} left out of evaluation, {} in the ledger", format_thousands(evidence.left_out_samples),
                       format_thousands(evidence.failed_samples.size())));
  for (const FailureRow& failure : evidence.failures) {
    if (!failure.consequence && failure.attempt == evidence.attempts.back().number) {
      add_line(out, "failure", failure.code, failure.message);
    }
  }
  add_line(out, "evidence", paths.evidence, "");
  add_line(out, "report", paths.report, "");
  add_line(out, "tensorboard", paths.tensorboard, "");
  return out;
}

}  // namespace parascale::evidence
