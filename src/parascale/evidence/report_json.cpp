// The document of evidence.json. Field by field: docs/formats/records.md.
#include <fmt/core.h>

#include "parascale/base/clock.h"
#include "parascale/evidence/report.h"

namespace parascale::evidence {
namespace {

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}
Json or_null(const std::optional<Step>& step) { return step ? Json(step->value) : Json(); }

template <typename Rows, typename Render>
Json rows_json(const Rows& rows, Render render) {
  Json array = Json::array();
  for (const auto& row : rows) {
    array.push_back(render(row));
  }
  return array;
}

Json cpu_json(const std::optional<CpuSeconds>& cpu) {
  if (!cpu) {
    return {};
  }
  return Json::object({{"agent", cpu->agent},
                       {"engine", cpu->engine},
                       {"workers", cpu->workers},
                       {"evaluation", cpu->evaluation},
                       {"training", cpu->training()}});
}

Json attempt_json(const Attempt& attempt) {
  return Json::object({{"attempt", attempt.number},
                       {"started", iso_time(attempt.wall_ns)},
                       {"resumed_from", or_null(attempt.resumed_from)},
                       {"first_step", or_null(attempt.first_step)},
                       {"last_step", or_null(attempt.last_step)},
                       {"outcome", attempt.outcome},
                       {"seconds", or_null(attempt.seconds)},
                       {"cpu_seconds", cpu_json(attempt.cpu_seconds)}});
}

Json evaluation_json(const EvaluationRow& row) {
  Json metrics = Json::object();
  for (const auto& [name, value] : row.metrics) {
    metrics[name] = value;
  }
  return Json::object({{"step", row.step.value},
                       {"epoch", row.epoch},
                       {"attempt", row.attempt},
                       {"loss", or_null(row.loss)},
                       {"metrics", std::move(metrics)},
                       {"samples", row.evaluated},
                       {"left_out", row.left_out},
                       {"seconds", or_null(row.seconds)},
                       {"best", row.best}});
}

Json checkpoint_json(const CheckpointRow& row) {
  return Json::object({{"step", row.step.value},
                       {"attempt", row.attempt},
                       {"path", row.path},
                       {"reason", row.reason},
                       {"bytes", or_null(row.bytes)},
                       {"seconds", or_null(row.seconds)},
                       {"blocked_ms", or_null(row.blocked_ms)},
                       {"best", row.best},
                       {"removed", row.removed}});
}

Json sample_json(const FailedSample& row) {
  return Json::object({{"split", row.split},
                       {"id", row.id},
                       {"reason", row.reason},
                       {"replacement", or_null(row.replacement)},
                       {"source", row.source},
                       {"first_step", or_null(row.first_step)},
                       {"occurrences", row.occurrences}});
}

Json failure_json(const FailureRow& row) {
  return Json::object({{"code", row.code},
                       {"message", row.message},
                       {"attempt", row.attempt},
                       {"step", or_null(row.step)},
                       {"rank", row.rank ? Json(row.rank->value) : Json()},
                       {"notes", Json::array_of(row.notes)},
                       {"log", row.log},
                       {"consequence", row.consequence}});
}

Json config_json(const std::optional<Json>& config) {
  if (!config) {
    return Json::object({{"available", false}, {"warning_count", 0}, {"error_count", 0}});
  }
  const auto count = [&](std::string_view key) {
    const Json* list = config->find(key);
    return Json(list == nullptr ? std::size_t{0} : list->items().size());
  };
  return Json::object({{"available", true}, {"warning_count", count("warnings")}, {"error_count", count("errors")}});
}

Json artifact_json(const std::optional<Json>& document, std::string_view path) {
  if (!document) {
    return {};
  }
  const auto member = [&](std::string_view key) {
    const Json* value = document->find(key);
    return value == nullptr ? Json() : *value;
  };
  return Json::object({{"path", path}, {"format_version", member("format_version")}, {"hash", member("hash")}});
}

Json throughput_json(const Evidence& evidence) {
  return Json::object({{"images_per_second", evidence.images_per_second.to_json()},
                       {"end_to_end_images_per_second", evidence.end_to_end_images_per_second.to_json()},
                       {"overall_images_per_second", or_null(evidence.overall_images_per_second)}});
}

Json result_json(const Evidence& evidence) {
  return Json::object(
      {{"metric", evidence.metric},
       {"best", evidence.best_evaluation ? evaluation_json(evidence.evaluations[*evidence.best_evaluation]) : Json()},
       {"final", evidence.evaluations.empty() ? Json() : evaluation_json(evidence.evaluations.back())},
       {"final_train_loss", or_null(evidence.final_train_loss)}});
}

}  // namespace

Json Evidence::to_json() const {
  return Json::object(
      {{"format_version", kFormatVersion},
       {"mode", mode},
       {"dry_run", dry_run},
       {"runtime_status", runtime_status},
       {"capability_level", capability_level},
       {"mock", mock},
       {"synthetic", synthetic},
       {"measurement_window", Json::object({{"warmup_steps_effective", window.warmup_steps_effective},
                                            {"measured_steps", window.measured_steps},
                                            {"warmup_excluded_from_metrics", window.warmup_steps_effective > 0}})},
       {"resolved_config", config_json(resolved_config)},
       {"config_artifacts", Json::object({{"resolved_config", artifact_json(resolved_config, "config.resolved.json")},
                                          {"plan", artifact_json(plan, "plan.json")}})},
       {"run", Json::object({{"name", run_name},
                             {"outcome", outcome},
                             {"version", version},
                             {"host", host},
                             {"attempts", rows_json(attempts, attempt_json)},
                             {"steps", steps},
                             {"samples", samples},
                             {"epochs", epochs},
                             {"seconds", or_null(wall_seconds)},
                             {"skipped_steps", skipped_steps},
                             {"signals", Json::array_of(signals)},
                             {"cut_lines", cut_lines}})},
       {"result", result_json(*this)},
       {"evaluations", rows_json(evaluations, evaluation_json)},
       {"throughput", throughput_json(*this)},
       {"step_time_ms", step_time_ms.to_json()},
       {"data_wait", Json::object({{"share", or_null(data_wait_share)}, {"ms", data_wait_ms.to_json()}})},
       {"memory", Json::object({{"peak_memory_bytes", or_null(peak_memory_bytes)}})},
       {"cpu_seconds", cpu_json(cpu_seconds)},
       {"cpu_seconds_complete", cpu_seconds_complete},
       {"checkpoints", rows_json(checkpoints, checkpoint_json)},
       {"samples", Json::object({{"replaced", replaced_samples},
                                 {"left_out", left_out_samples},
                                 {"ledger", rows_json(failed_samples, sample_json)}})},
       {"failures", rows_json(failures, failure_json)},
       {"warnings", rows_json(warnings, failure_json)}});
}

}  // namespace parascale::evidence
