#include "parascale/evidence/report_sections.h"

#include <algorithm>
#include <chrono>

#include <fmt/core.h>

#include "parascale/base/clock.h"
#include "parascale/base/text.h"
#include "parascale/evidence/axis.h"
#include "parascale/evidence/html_table.h"

namespace parascale::evidence {
namespace {

constexpr auto kText = HtmlTable::Align::text;
constexpr auto kNumber = HtmlTable::Align::number;
constexpr std::size_t kMaxRows = 200;  // of a table in the page; evidence.json has all

std::string step_text(const std::optional<Step>& step) { return step ? format_thousands(step->value) : ""; }
std::string seconds_or_none(const std::optional<double>& seconds) { return seconds ? seconds_text(*seconds) : ""; }
std::string figure_or_none(const std::optional<double>& value) { return value ? format_figure(*value) : ""; }

std::string more_note(std::size_t total) {
  return total <= kMaxRows
             ? ""
             : fmt::format(R"(<p class="none">and {} more in evidence.json</p>)", format_thousands(total - kMaxRows));
}

std::string folded(std::string_view summary, const std::string& content) {
  return fmt::format("<details><summary>{}</summary>{}</details>\n", summary, content);
}

std::string value_text(const Json& value) {
  return value.to_string() != nullptr ? *value.to_string() : value.is_null() ? "" : value.dump();
}

// Every leaf of a document as (path, value).
void flatten(const Json& json, const std::string& path, std::vector<std::pair<std::string, std::string>>& out) {
  if (!json.is_object() || json.members().empty()) {
    out.emplace_back(path, value_text(json));
    return;
  }
  for (const auto& [key, value] : json.members()) {
    flatten(value, path.empty() ? key : path + "." + key, out);
  }
}

const Json* at(const Json& json, std::initializer_list<std::string_view> path) {
  const Json* place = &json;
  for (const std::string_view key : path) {
    place = place == nullptr ? nullptr : place->find(key);
  }
  return place;
}

void add_percentiles(HtmlTable& table, const std::string& name, const run::Percentiles& p) {
  if (p.count > 0) {
    table.add({name, format_figure(p.min), format_figure(p.p50), format_figure(p.p90), format_figure(p.p99), format_figure(p.max),
               format_figure(p.mean)});
  }
}

// `default 32, then configs/a.yaml:12:21 64`
std::string history_text(const Json& field) {
  std::vector<std::string> parts;
  if (const Json* history = field.find("history"); history != nullptr) {
    for (const Json& entry : history->items()) {
      const Json* source = entry.find("source");
      const Json* value = entry.find("value");
      parts.push_back(
          fmt::format("{} {}", source == nullptr ? "" : value_text(*source), value == nullptr ? "" : value_text(*value)));
    }
  }
  return parts.size() < 2 ? std::string() : join(parts, ", then ");
}

}  // namespace

std::string seconds_text(double seconds) {
  return format_duration(std::chrono::nanoseconds(static_cast<std::int64_t>(std::clamp(seconds, 0.0, 9e9) * 1e9)));
}

std::optional<double> metric_of(const EvaluationRow& row, std::string_view name) {
  if (name == "loss") {
    return row.loss;
  }
  const auto found = std::ranges::find(row.metrics, name, &std::pair<std::string, double>::first);
  return found == row.metrics.end() ? std::nullopt : std::optional<double>(found->second);
}

std::string metric_text(std::string_view name, std::optional<double> value) {
  if (!value) {
    return "-";
  }
  return name.starts_with("top") ? fmt::format("{:.2f}%", *value * 100.0) : format_figure(*value);
}

std::string evaluations_table(const Evidence& evidence) {
  std::vector<HtmlTable::Column> columns = {{"step", kNumber}, {"epoch", kNumber}, {"loss", kNumber}};
  std::vector<std::string> names;
  for (const EvaluationRow& row : evidence.evaluations) {
    for (const auto& [name, value] : row.metrics) {
      if (std::ranges::find(names, name) == names.end()) {
        names.push_back(name);
        columns.push_back({name, kNumber});
      }
    }
  }
  columns.insert(columns.end(),
                 {{"samples", kNumber}, {"left out", kNumber}, {"time", kNumber}, {"attempt", kNumber}, {"note", kText}});
  HtmlTable table(columns);
  for (const EvaluationRow& row : evidence.evaluations) {
    std::vector<std::string> cells = {format_thousands(row.step.value), fmt::format("{:.2f}", row.epoch),
                                      figure_or_none(row.loss)};
    for (const std::string& name : names) {
      cells.push_back(metric_text(name, metric_of(row, name)));
    }
    cells.insert(cells.end(), {format_thousands(row.evaluated), format_thousands(row.left_out), seconds_or_none(row.seconds),
                               std::to_string(row.attempt), row.best ? "best " + evidence.metric : ""});
    table.add(std::move(cells), row.best ? "best" : "");
  }
  return table.html("no evaluation was made");
}

std::string checkpoints_table(const Evidence& evidence) {
  HtmlTable table({{"step", kNumber},
                   {"path", kText},
                   {"why", kText},
                   {"size", kNumber},
                   {"written in", kNumber},
                   {"training blocked", kNumber},
                   {"attempt", kNumber},
                   {"state", kText}});
  const std::size_t first = evidence.checkpoints.size() - std::min(evidence.checkpoints.size(), kMaxRows);
  for (std::size_t i = first; i < evidence.checkpoints.size(); ++i) {
    const CheckpointRow& row = evidence.checkpoints[i];
    std::string state = row.removed ? "removed by retention" : "kept";
    state += row.best ? ", best" : "";
    table.add({format_thousands(row.step.value), row.path, row.reason, row.bytes ? format_bytes(*row.bytes) : "",
               seconds_or_none(row.seconds), row.blocked_ms ? format_figure(*row.blocked_ms) + " ms" : "",
               std::to_string(row.attempt), state},
              row.best ? "best" : "");
  }
  return table.html("no checkpoint was committed") + more_note(evidence.checkpoints.size());
}

std::string time_tables(const Evidence& evidence) {
  HtmlTable table({{"per step", kText},
                   {"min", kNumber},
                   {"p50", kNumber},
                   {"p90", kNumber},
                   {"p99", kNumber},
                   {"max", kNumber},
                   {"mean", kNumber}});
  add_percentiles(table, "step time, ms", evidence.step_time_ms);
  add_percentiles(table, "wait for data, ms", evidence.data_wait_ms);
  add_percentiles(table, "images/s", evidence.images_per_second);
  add_percentiles(table, "images/s with wait", evidence.end_to_end_images_per_second);
  HtmlTable cpu({{"CPU seconds", kText}, {"user + system", kNumber}});
  if (evidence.cpu_seconds) {
    cpu.add({"agent", format_figure(evidence.cpu_seconds->agent)});
    cpu.add({"data engine", format_figure(evidence.cpu_seconds->engine)});
    cpu.add({"workers", format_figure(evidence.cpu_seconds->workers)});
    cpu.add({"of these, evaluation", format_figure(evidence.cpu_seconds->evaluation)});
    cpu.add({"training (all without evaluation)", format_figure(evidence.cpu_seconds->training())});
  }
  return fmt::format(R"(<div class="two"><div>{}</div><div>{}</div></div><p class="none">{} measured, {} warm-up left out.</p>)",
                     table.html("no step was measured"), cpu.html("CPU time was not reported"),
                     format_count(evidence.window.measured_steps, "step"),
                     format_count(evidence.window.warmup_steps_effective, "step"));
}

std::string attempts_table(const Evidence& evidence) {
  HtmlTable table({{"attempt", kNumber},
                   {"started (UTC)", kText},
                   {"went on from step", kNumber},
                   {"first step", kNumber},
                   {"last step", kNumber},
                   {"wall time", kNumber},
                   {"outcome", kText}});
  for (const Attempt& attempt : evidence.attempts) {
    table.add({std::to_string(attempt.number),
               attempt.wall_ns > 0 ? replace_all(iso_time(attempt.wall_ns).substr(0, 19), "T", " ") : "",
               step_text(attempt.resumed_from), step_text(attempt.first_step), step_text(attempt.last_step),
               seconds_or_none(attempt.seconds), attempt.outcome});
  }
  return table.html("no attempt was recorded") +
         (evidence.signals.empty() ? "" : fmt::format(R"(<p class="none">signals: {}</p>)", join(evidence.signals, ", ")));
}

std::string failures_table(const std::vector<FailureRow>& failures) {
  HtmlTable table(
      {{"code", kText}, {"what", kText}, {"step", kNumber}, {"rank", kNumber}, {"attempt", kNumber}, {"notes", kText}});
  for (const FailureRow& row : failures) {
    std::vector<std::string> notes = row.notes;
    if (row.consequence) {
      notes.insert(notes.begin(), "consequence of an earlier failure");
    }
    if (!row.log.empty()) {
      notes.push_back("log " + row.log);
    }
    table.add({row.code, row.message, step_text(row.step), row.rank ? std::to_string(row.rank->value) : "",
               std::to_string(row.attempt), join(notes, "; ")});
  }
  return table.html("none");
}

std::string ledger_table(const Evidence& evidence) {
  HtmlTable table({{"split", kText},
                   {"sample id", kNumber},
                   {"reason", kText},
                   {"replaced by", kNumber},
                   {"first at step", kNumber},
                   {"occurrences", kNumber},
                   {"source", kText}});
  for (std::size_t i = 0; i < std::min(evidence.failed_samples.size(), kMaxRows); ++i) {
    const FailedSample& row = evidence.failed_samples[i];
    table.add({row.split, std::to_string(row.id), row.reason, row.replacement ? std::to_string(*row.replacement) : "",
               step_text(row.first_step), std::to_string(row.occurrences), row.source});
  }
  std::string out = table.html("none: every sample could be read");
  if (table.rows() > 0) {
    out += fmt::format(R"(<p class="none">{} replaced in training, {} left out of evaluations.</p>)",
                       format_count(evidence.replaced_samples, "sample"), format_thousands(evidence.left_out_samples));
  }
  return out + more_note(evidence.failed_samples.size());
}

std::vector<std::pair<std::string, std::string>> plan_highlights(const Evidence& evidence) {
  std::vector<std::pair<std::string, std::string>> rows;
  if (!evidence.plan) {
    return rows;
  }
  const Json& plan = *evidence.plan;
  const auto text = [&](std::initializer_list<std::string_view> path) {
    const Json* value = at(plan, path);
    return value == nullptr ? std::string() : value_text(*value);
  };
  const auto add = [&](std::string name, std::string value) {
    if (!value.empty()) {
      rows.emplace_back(std::move(name), std::move(value));
    }
  };
  add("hash", text({"hash"}));
  add("workload", text({"workload", "name"}));
  if (const Json* parameters = at(plan, {"workload", "parameters"}); parameters != nullptr && parameters->to_uint64()) {
    add("parameters", format_thousands(*parameters->to_uint64()));
  }
  add("backend", text({"backend", "name"}));
  add("worker", text({"backend", "worker"}));
  add("ranks", text({"backend", "world_size"}));
  add("precision", text({"backend", "precision"}));
  add("device", text({"device", "kind"}));
  add("global batch", text({"batch", "global"}));
  add("accumulation", text({"batch", "accumulation"}));
  add("steps", text({"schedule", "max_steps"}));
  add("learning rate", fmt::format("{} {}", text({"schedule", "lr", "type"}), text({"schedule", "lr", "peak"})));
  add("optimizer", text({"optimizer", "type"}));
  add("training samples", text({"data", "train_samples"}));
  add("validation samples", text({"data", "validation_samples"}));
  add("engine threads", text({"threads", "engine"}));
  add("intra-op threads", text({"threads", "intra_op"}));
  if (const Json* memory = at(plan, {"memory"}); memory != nullptr) {
    std::uint64_t bytes = 0;
    for (const Json& component : memory->items()) {
      const Json* part = component.find("bytes");
      bytes += part == nullptr ? 0 : part->to_uint64().value_or(0);
    }
    add("memory estimate", bytes == 0 ? "" : format_bytes(bytes) + " per rank");
  }
  return rows;
}

std::string plan_tables(const Evidence& evidence) {
  if (!evidence.plan) {
    return R"(<p class="none">plan.json is not in the run directory</p>)";
  }
  const auto rows = plan_highlights(evidence);
  HtmlTable left({{"plan", kText}, {"value", kText}}), right({{"plan", kText}, {"value", kText}});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    (i < (rows.size() + 1) / 2 ? left : right).add({rows[i].first, rows[i].second});
  }
  std::vector<std::pair<std::string, std::string>> leaves;
  flatten(*evidence.plan, "", leaves);
  HtmlTable all({{"path", kText}, {"value", kText}});
  for (const auto& [path, value] : leaves) {
    all.add({path, value});
  }
  return fmt::format(R"(<div class="two"><div>{}</div><div>{}</div></div>)", left.html("nothing to show"), right.html("")) +
         folded(fmt::format("all {} values of plan.json", leaves.size()), all.html(""));
}

std::string config_tables(const Evidence& evidence) {
  const Json* fields = evidence.resolved_config ? evidence.resolved_config->find("fields") : nullptr;
  if (fields == nullptr) {
    return R"(<p class="none">config.resolved.json is not in the run directory</p>)";
  }
  HtmlTable given({{"setting", kText}, {"value", kText}, {"origin", kText}, {"history", kText}});
  HtmlTable defaults({{"setting", kText}, {"value", kText}, {"origin", kText}, {"history", kText}});
  for (const Json& field : fields->items()) {
    const std::string source = field.get_or<std::string>("source", "").value_or("");
    const Json* value = field.find("value");
    (source == "default" ? defaults : given)
        .add({field.get_or<std::string>("path", "").value_or(""), value == nullptr ? "" : value_text(*value), source,
              history_text(field)});
  }
  return given.html("every setting has its default") + folded(fmt::format("{} defaults", defaults.rows()), defaults.html("none"));
}

}  // namespace parascale::evidence
