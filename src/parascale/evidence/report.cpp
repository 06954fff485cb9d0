#include "parascale/evidence/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/core.h>

namespace parascale::evidence {
namespace {

using run::EventRecord;
using run::MetricsKind;
using run::MetricsRecord;

// Details were written by another program version or by hand: what has another type than expected counts as absent.
std::string text_of(const Json& details, std::string_view key) { return details.get_or<std::string>(key, "").value_or(""); }
bool flag_of(const Json& details, std::string_view key) { return details.get_or<bool>(key, false).value_or(false); }
std::optional<double> number_of(const Json& details, std::string_view key) {
  const Json* value = details.find(key);
  return value == nullptr ? std::nullopt : value->to_double();
}
std::optional<std::uint64_t> count_of(const Json& details, std::string_view key) {
  const Json* value = details.find(key);
  return value == nullptr ? std::nullopt : value->to_uint64();
}

Attempt& attempt_of(Evidence& evidence, std::uint32_t number) {
  auto found = std::ranges::find(evidence.attempts, number, &Attempt::number);
  if (found == evidence.attempts.end()) {
    Attempt attempt;
    attempt.number = number;
    attempt.outcome = "interrupted";
    evidence.attempts.push_back(std::move(attempt));
    return evidence.attempts.back();
  }
  return *found;
}

void take_started(Evidence& evidence, const EventRecord& event) {
  Attempt& attempt = attempt_of(evidence, event.attempt);
  attempt.wall_ns = event.wall_ns;
  if (const Json* from = event.details.find("resumed_from"); from != nullptr) {
    if (const auto step = count_of(*from, "step")) {
      attempt.resumed_from = Step{*step};
    }
  }
  const auto set = [&](std::string& target, std::string_view key) {
    if (std::string text = text_of(event.details, key); !text.empty()) {
      target = std::move(text);
    }
  };
  set(evidence.run_name, "run");
  set(evidence.version, "version");
  set(evidence.host, "host");
  set(evidence.mode, "mode");
  // One attempt with a fake worker taints the whole run.
  evidence.dry_run = evidence.dry_run || flag_of(event.details, "dry_run");
  evidence.mock = evidence.mock || flag_of(event.details, "mock");
  evidence.synthetic = evidence.synthetic || flag_of(event.details, "synthetic");
}

void take_finished(Evidence& evidence, const EventRecord& event) {
  Attempt& attempt = attempt_of(evidence, event.attempt);
  attempt.outcome = text_of(event.details, "outcome");
  attempt.seconds = number_of(event.details, "seconds");
  if (const Json* cpu = event.details.find("cpu_seconds"); cpu != nullptr && cpu->is_object()) {
    attempt.cpu_seconds = CpuSeconds{.agent = number_of(*cpu, "agent").value_or(0.0),
                                     .engine = number_of(*cpu, "engine").value_or(0.0),
                                     .workers = number_of(*cpu, "workers").value_or(0.0),
                                     .evaluation = number_of(*cpu, "evaluation").value_or(0.0)};
  }
}

void take_checkpoint(Evidence& evidence, const EventRecord& event) {
  CheckpointRow row{.step = event.step.value_or(Step{}),
                    .attempt = event.attempt,
                    .path = text_of(event.details, "path"),
                    .reason = text_of(event.details, "reason"),
                    .bytes = count_of(event.details, "bytes"),
                    .seconds = number_of(event.details, "seconds"),
                    .blocked_ms = number_of(event.details, "blocked_ms"),
                    .best = flag_of(event.details, "best")};
  if (row.best) {
    for (CheckpointRow& earlier : evidence.checkpoints) {
      earlier.best = false;
    }
  }
  // A resume may commit a step again under the same path: the later event describes what lies there.
  std::erase_if(evidence.checkpoints,
                [&](const CheckpointRow& earlier) { return file_name(earlier.path) == file_name(row.path); });
  evidence.checkpoints.push_back(std::move(row));
}

FailureRow failure_of(const EventRecord& event) {
  FailureRow row{.code = text_of(event.details, "code"),
                 .message = text_of(event.details, "message"),
                 .log = text_of(event.details, "log"),
                 .attempt = event.attempt,
                 .step = event.step,
                 .rank = event.rank,
                 .consequence = event.details.contains("consequence_of")};
  if (const Json* notes = event.details.find("notes"); notes != nullptr) {
    for (const Json& note : notes->items()) {
      row.notes.push_back(note.to_string() != nullptr ? *note.to_string() : note.dump());
    }
  }
  return row;
}

// The ledger: a resumed run repeats steps, so one failure of a sample at one step counts once.
void build_ledger(Evidence& evidence) {
  std::map<std::pair<std::string, std::uint64_t>, std::size_t> place;
  std::set<std::tuple<std::string, std::uint64_t, std::uint64_t>> seen;
  for (const EventRecord& event : evidence.events) {
    const auto id = count_of(event.details, "id");
    if (event.name != run::event::sample_failed || !id) {
      continue;
    }
    const std::string split = text_of(event.details, "split");
    if (!seen.insert({split, *id, event.step.value_or(Step{}).value}).second) {
      continue;
    }
    const auto [entry, is_new] = place.try_emplace({split, *id}, evidence.failed_samples.size());
    if (!is_new) {
      ++evidence.failed_samples[entry->second].occurrences;
      continue;
    }
    evidence.failed_samples.push_back({.split = split,
                                       .reason = text_of(event.details, "reason"),
                                       .source = text_of(event.details, "source"),
                                       .id = *id,
                                       .replacement = count_of(event.details, "replacement"),
                                       .first_step = event.step});
  }
}

void take_events(Evidence& evidence) {
  for (const EventRecord& event : evidence.events) {
    if (event.name == run::event::started) {
      take_started(evidence, event);
    } else if (event.name == run::event::finished) {
      take_finished(evidence, event);
    } else if (event.name == run::event::checkpoint_committed) {
      take_checkpoint(evidence, event);
    } else if (event.name == run::event::checkpoint_removed) {
      for (CheckpointRow& row : evidence.checkpoints) {
        row.removed = row.removed || file_name(row.path) == file_name(text_of(event.details, "path"));
      }
    } else if (event.name == run::event::failure) {
      evidence.failures.push_back(failure_of(event));
    } else if (event.name == run::event::warning) {
      evidence.warnings.push_back(failure_of(event));
    } else if (event.name == run::event::signal) {
      evidence.signals.push_back(fmt::format("{} in attempt {}", text_of(event.details, "signal"), event.attempt));
    } else if (event.name == run::event::eval) {
      if (std::string metric = text_of(event.details, "metric"); !metric.empty()) {
        evidence.metric = std::move(metric);
      }
    }
  }
  build_ledger(evidence);
}

// Warm-up of an attempt: its first 10 steps, but at most a tenth of them.
void measure(Evidence& evidence) {
  std::map<std::uint32_t, std::uint64_t> steps_of_attempt;
  for (const MetricsRecord& record : evidence.metrics) {
    steps_of_attempt[record.attempt] += record.kind == MetricsKind::train ? 1 : 0;
  }
  std::map<std::uint32_t, std::uint64_t> seen;
  std::vector<double> step_ms, wait_ms, rate, end_to_end;
  double step_total = 0.0, wait_total = 0.0, images_total = 0.0;
  for (const MetricsRecord& record : evidence.metrics) {
    if (record.kind != MetricsKind::train) {
      continue;
    }
    const std::uint64_t warmup = std::min<std::uint64_t>(10, steps_of_attempt[record.attempt] / 10);
    if (seen[record.attempt]++ < warmup) {
      ++evidence.window.warmup_steps_effective;
      continue;
    }
    ++evidence.window.measured_steps;
    if (record.timing.step_time_seconds) {
      const double seconds = *record.timing.step_time_seconds;
      const double wait = record.timing.dataloader_wait_ms.value_or(0.0);
      step_ms.push_back(seconds * 1e3);
      wait_ms.push_back(wait);
      step_total += seconds;
      wait_total += wait * 1e-3;
      images_total += static_cast<double>(record.batch_size.value_or(0));
    }
    if (record.rates.images_per_second) {
      rate.push_back(*record.rates.images_per_second);
    }
    if (record.rates.end_to_end_images_per_second) {
      end_to_end.push_back(*record.rates.end_to_end_images_per_second);
    }
  }
  evidence.step_time_ms = run::percentiles_of(step_ms);
  evidence.data_wait_ms = run::percentiles_of(wait_ms);
  evidence.images_per_second = run::percentiles_of(rate);
  evidence.end_to_end_images_per_second = run::percentiles_of(end_to_end);
  if (step_total + wait_total > 0.0) {
    evidence.data_wait_share = wait_total / (step_total + wait_total);
    if (images_total > 0.0) {
      evidence.overall_images_per_second = images_total / (step_total + wait_total);
    }
  }
}

void take_evaluation(Evidence& evidence, const MetricsRecord& record) {
  EvaluationRow row{.step = record.step,
                    .epoch = record.epoch,
                    .attempt = record.attempt,
                    .loss = record.loss,
                    .evaluated = record.batch_size.value_or(0),
                    .left_out = record.left_out,
                    .seconds = record.timing.evaluation_seconds};
  for (const run::MetricsTerm& term : record.terms) {
    if (term.name == "loss") {
      row.loss = row.loss ? row.loss : std::optional<double>(term.mean());
    } else {
      row.metrics.emplace_back(term.name, term.mean());
    }
    row.evaluated = row.evaluated != 0 ? row.evaluated : static_cast<std::uint64_t>(std::max(term.weight, 0.0));
  }
  evidence.left_out_samples += record.left_out;
  evidence.evaluations.push_back(std::move(row));
}

std::optional<double> metric_value(const EvaluationRow& row, std::string_view metric) {
  if (metric == "loss") {
    return row.loss;
  }
  const auto found = std::ranges::find(row.metrics, metric, &std::pair<std::string, double>::first);
  return found == row.metrics.end() ? std::nullopt : std::optional<double>(found->second);
}

// The rule of the run: higher is better except for loss; ties go to the earlier evaluation.
void choose_best(Evidence& evidence) {
  if (evidence.metric.empty() && !evidence.evaluations.empty()) {
    const auto& metrics = evidence.evaluations.front().metrics;
    evidence.metric = metrics.empty() ? "loss" : metrics.front().first;
  }
  std::optional<double> best;
  for (std::size_t i = 0; i < evidence.evaluations.size(); ++i) {
    const auto value = metric_value(evidence.evaluations[i], evidence.metric);
    if (!value || !std::isfinite(*value)) {
      continue;
    }
    if (!best || (evidence.metric == "loss" ? *value < *best : *value > *best)) {
      best = value;
      evidence.best_evaluation = i;
    }
  }
  if (evidence.best_evaluation) {
    evidence.evaluations[*evidence.best_evaluation].best = true;
  }
}

void take_metrics(Evidence& evidence, const std::vector<MetricsRecord>& all) {
  std::vector<double> losses;
  for (const MetricsRecord& record : evidence.metrics) {
    if (record.kind == MetricsKind::eval) {
      take_evaluation(evidence, record);
      continue;
    }
    evidence.steps = std::max(evidence.steps, record.step.value);
    evidence.samples = std::max(evidence.samples, record.samples);
    evidence.epochs = std::max(evidence.epochs, record.epoch);
    evidence.skipped_steps += record.skipped ? 1 : 0;
    evidence.replaced_samples += record.replaced;
    if (record.loss) {
      losses.push_back(*record.loss);
    }
    if (record.memory.peak_memory_bytes) {
      evidence.peak_memory_bytes = std::max(evidence.peak_memory_bytes.value_or(0), *record.memory.peak_memory_bytes);
    }
  }
  for (const MetricsRecord& record : all) {
    if (record.kind == MetricsKind::train) {
      Attempt& attempt = attempt_of(evidence, record.attempt);
      attempt.first_step = attempt.first_step ? attempt.first_step : record.step;
      attempt.last_step = record.step;
    }
  }
  const std::size_t tail = std::min<std::size_t>(50, losses.size());
  if (tail > 0) {
    double sum = 0.0;
    for (std::size_t i = losses.size() - tail; i < losses.size(); ++i) {
      sum += losses[i];
    }
    evidence.final_train_loss = sum / static_cast<double>(tail);
  }
  measure(evidence);
  choose_best(evidence);
}

// A resume that goes back and then ends early leaves lines of steps that its weights never saw; they are no part of the result.
void drop_abandoned(Evidence& evidence) {
  std::erase_if(evidence.metrics, [&](const MetricsRecord& record) {
    return std::ranges::any_of(evidence.attempts, [&](const Attempt& later) {
      return later.number > record.attempt && later.resumed_from && record.step > *later.resumed_from;
    });
  });
}

void sum_attempts(Evidence& evidence) {
  std::ranges::sort(evidence.attempts, {}, &Attempt::number);
  evidence.cpu_seconds_complete = !evidence.attempts.empty();
  for (const Attempt& attempt : evidence.attempts) {
    if (attempt.seconds) {
      evidence.wall_seconds = evidence.wall_seconds.value_or(0.0) + *attempt.seconds;
    }
    if (attempt.cpu_seconds) {
      CpuSeconds total = evidence.cpu_seconds.value_or(CpuSeconds{});
      total.agent += attempt.cpu_seconds->agent;
      total.engine += attempt.cpu_seconds->engine;
      total.workers += attempt.cpu_seconds->workers;
      total.evaluation += attempt.cpu_seconds->evaluation;
      evidence.cpu_seconds = total;
    }
    evidence.cpu_seconds_complete = evidence.cpu_seconds_complete && attempt.cpu_seconds.has_value();
  }
  evidence.outcome = evidence.attempts.empty() ? "interrupted" : evidence.attempts.back().outcome;
}

void grade(Evidence& evidence) {
  if (evidence.dry_run) {
    evidence.runtime_status = "plan_only";
    evidence.capability_level = "dry_run";
  } else if (evidence.mock) {
    evidence.runtime_status = "mock";
    evidence.capability_level = "interface_ready";
  } else if (evidence.synthetic) {
    evidence.runtime_status = "synthetic";
    evidence.capability_level = "smoke_verified";
  } else {
    evidence.runtime_status = "real_local";
    evidence.capability_level = evidence.outcome == "completed" ? "single_node_verified" : "smoke_verified";
  }
}

Result<std::optional<Json>> read_document(FileSystem& files, const std::string& path) {
  if (!files.exists(path)) {
    return std::optional<Json>();
  }
  PS_ASSIGN(const std::string text, read_file(files, path));
  PS_ASSIGN(Json json, parse_json(text, path));
  return std::optional<Json>(std::move(json));
}

}  // namespace

std::vector<std::string> Evidence::labels() const {
  std::vector<std::string> labels;
  if (dry_run) {
    labels.emplace_back("DRY RUN");
  }
  if (mock) {
    labels.emplace_back("FAKE WORKER");
  }
  if (synthetic) {
    labels.emplace_back("SYNTHETIC DATA");
  }
  return labels;
}

Result<Evidence> build_evidence(FileSystem& files, const std::string& run_dir) {
  const std::string events_path = join_path(run_dir, "events.jsonl");
  if (!files.exists(events_path)) {
    return Error(Code::path_not_found, fmt::format("`{}` holds no run: there is no events.jsonl", run_dir))
        .help("give the run directory that `parascale train` printed, for example runs/<name>");
  }
  Evidence evidence;
  evidence.run_name = file_name(run_dir);
  PS_ASSIGN(auto events, run::read_events(files, events_path));
  evidence.events = std::move(events.records);
  evidence.cut_lines = events.cut_lines;

  std::vector<MetricsRecord> all;  // stays empty for a run that ended before its first step
  if (const std::string path = join_path(run_dir, "metrics.jsonl"); files.exists(path)) {
    PS_ASSIGN(auto metrics, run::read_metrics(files, path));
    all = std::move(metrics.records);
    evidence.cut_lines += metrics.cut_lines;
  }
  evidence.metrics = run::effective_metrics(all);
  PS_ASSIGN(evidence.plan, read_document(files, join_path(run_dir, "plan.json")));
  PS_ASSIGN(evidence.resolved_config, read_document(files, join_path(run_dir, "config.resolved.json")));

  take_events(evidence);
  drop_abandoned(evidence);
  take_metrics(evidence, all);
  sum_attempts(evidence);
  grade(evidence);
  return evidence;
}

}  // namespace parascale::evidence
