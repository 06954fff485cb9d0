#include "parascale/evidence/report_html.h"

#include <algorithm>
#include <chrono>

#include <fmt/core.h>

#include "parascale/base/clock.h"
#include "parascale/base/text.h"
#include "parascale/base/version.h"
#include "parascale/evidence/axis.h"
#include "parascale/evidence/html.h"
#include "parascale/evidence/html_table.h"
#include "parascale/evidence/report_charts.h"
#include "parascale/evidence/report_sections.h"
#include "parascale/evidence/report_style.h"

namespace parascale::evidence {
namespace {

std::string outcome_badge(const std::string& outcome) {
  const char* kind = outcome == "completed" ? "good" : outcome == "stopped" ? "warn" : "bad";
  return fmt::format(R"(<span class="badge {}">{}</span>)", kind, escape_html(outcome));
}

std::string notice(const Evidence& evidence) {
  if (evidence.labels().empty()) {
    return {};
  }
  std::string meaning;
  if (evidence.dry_run) {
    meaning += " Nothing was run.";
  }
  if (evidence.mock) {
    meaning += " A fake worker stood in for the model: loss and accuracy mean nothing, times measure the control plane only.";
  }
  if (evidence.synthetic) {
    meaning += " The data was made up: results say nothing about a real task.";
  }
  return fmt::format(R"(<p class="notice warn">{}.<span>{}</span></p>)", escape_html(join(evidence.labels(), ", ")), meaning);
}

std::string header(const Evidence& evidence) {
  std::string out = R"(<header><div class="eyebrow">ParaScale run report</div>)";
  out += fmt::format("<h1>{}</h1><div>{}", escape_html(evidence.run_name), outcome_badge(evidence.outcome));
  for (const std::string& label : evidence.labels()) {
    out += fmt::format(R"(<span class="badge warn">{}</span>)", escape_html(label));
  }
  for (const auto& [name, value] : plan_highlights(evidence)) {
    if (name == "backend" || name == "workload" || name == "device" || name == "precision") {
      out += fmt::format(R"(<span class="badge">{} {}</span>)", escape_html(name), escape_html(value));
    }
  }
  if (evidence.attempts.size() > 1) {
    out += fmt::format(R"(<span class="badge">{} attempts</span>)", evidence.attempts.size());
  }
  out += R"(</div><div class="sub">)";
  out += fmt::format("{}, {}, {:.4g} epochs", format_count(evidence.steps, "step"), format_count(evidence.samples, "sample"),
                     evidence.epochs);
  if (evidence.wall_seconds) {
    out += ", " + seconds_text(*evidence.wall_seconds);
  }
  if (!evidence.attempts.empty() && evidence.attempts.front().wall_ns > 0) {
    out += ", started " + replace_all(iso_time(evidence.attempts.front().wall_ns).substr(0, 16), "T", " ") + " UTC";
  }
  if (!evidence.host.empty()) {
    out += " on " + escape_html(evidence.host);
  }
  return out + "</div></header>\n" + notice(evidence);
}

void add_figure(std::string& out, const std::string& name, const std::string& value, const std::string& detail) {
  out += fmt::format(R"(<div class="figure"><span>{}</span><b>{}</b><small>{}</small></div>)", escape_html(name),
                     escape_html(value), escape_html(detail));
}

std::string figures(const Evidence& evidence) {
  std::string out = R"(<div class="figures">)";
  if (evidence.best_evaluation) {
    const EvaluationRow& best = evidence.evaluations[*evidence.best_evaluation];
    add_figure(out, "Best " + evidence.metric, metric_text(evidence.metric, metric_of(best, evidence.metric)),
               fmt::format("step {}", format_thousands(best.step.value)));
  }
  if (evidence.final_train_loss) {
    add_figure(out, "Train loss", format_figure(*evidence.final_train_loss), "last 50 steps");
  }
  if (evidence.end_to_end_images_per_second.count > 0) {
    add_figure(out, "Throughput", format_figure(evidence.end_to_end_images_per_second.p50) + "/s", "images, wait included");
  }
  if (evidence.step_time_ms.count > 0) {
    add_figure(out, "Step time, ms", format_figure(evidence.step_time_ms.p50),
               fmt::format("median; p99 {}", format_figure(evidence.step_time_ms.p99)));
  }
  if (evidence.data_wait_share) {
    add_figure(out, "Wait for data", fmt::format("{:.2f}%", *evidence.data_wait_share * 100.0), "of step time");
  }
  if (evidence.cpu_seconds) {
    add_figure(out, "CPU time, s", fmt::format("{:.0f}", evidence.cpu_seconds->training()),
               evidence.cpu_seconds_complete ? "all processes, evaluation left out" : "incomplete: an attempt was killed");
  }
  if (evidence.peak_memory_bytes) {
    add_figure(out, "Peak memory", format_bytes(*evidence.peak_memory_bytes), "of a rank");
  }
  return out + "</div>\n";
}

std::string section(std::string_view title, const std::string& content) { return fmt::format("<h2>{}</h2>\n{}", title, content); }

}  // namespace

std::string render_html(const Evidence& evidence, std::int64_t rendered_wall_ns) {
  std::string out = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n";
  out += R"(<meta name="viewport" content="width=device-width,initial-scale=1">)";
  out += R"(<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">)";
  out += fmt::format("\n<title>{} - ParaScale run report</title>\n<style>{}</style></head><body><main>\n",
                     escape_html(evidence.run_name), kReportStyle);
  out += header(evidence);
  out += figures(evidence);

  std::string charts = R"(<div class="charts">)";
  for (const std::string& chart : render_charts(evidence)) {
    charts += R"(<div class="panel">)" + chart + "</div>\n";
  }
  out += section("Curves", charts + "</div>\n");
  out += section("Evaluations", evaluations_table(evidence));
  out += section("Checkpoints", checkpoints_table(evidence));
  out += section("Time", time_tables(evidence));
  out += section("Attempts", attempts_table(evidence));
  out += section("Failures", failures_table(evidence.failures));
  if (!evidence.warnings.empty()) {
    out += section("Warnings", failures_table(evidence.warnings));
  }
  out += section("Unreadable samples", ledger_table(evidence));
  out += section("Plan", plan_tables(evidence));
  out += section("Configuration", config_tables(evidence));

  out += fmt::format(
      R"(<footer>Status {}, capability level {}. Rendered {} by parascale {} from <a href="events.jsonl">events.jsonl</a> and )"
      R"(<a href="metrics.jsonl">metrics.jsonl</a>; the figures are also in <a href="evidence.json">evidence.json</a>.)",
      escape_html(evidence.runtime_status), escape_html(evidence.capability_level), iso_time(rendered_wall_ns), kVersion);
  if (evidence.cut_lines > 0) {
    out += fmt::format(" {} cut by a crash and left out.", format_count(evidence.cut_lines, "record line"));
  }
  return out + "</footer></main></body></html>\n";
}

}  // namespace parascale::evidence
