#include "parascale/plan/runtime_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "parascale/base/hash.h"
#include "parascale/base/version.h"

namespace parascale::plan {

namespace {

Json strings_json(const std::vector<std::string>& list) { return Json::array_of(list); }

Result<std::vector<std::string>> read_strings(const Json& json, std::string_view key) {
  std::vector<std::string> out;
  PS_ASSIGN(const Json list, json.get_or<Json>(key, Json()));
  for (const auto& item : list.items()) {
    if (item.to_string() == nullptr) {
      return Error(Code::plan_invalid, fmt::format("`{}` holds something that is not a string", key));
    }
    out.push_back(*item.to_string());
  }
  return out;
}

Json body_json(const RuntimePlan& p) {
  Json memory = Json::array();
  for (const auto& component : p.memory) {
    memory.push_back(Json::object({{"name", component.name}, {"bytes", component.bytes}}));
  }
  return Json::object({
      {"format_version", RuntimePlan::kFormatVersion},
      {"mode", p.mode},
      {"name", p.name},
      {"run_dir", p.run_dir},
      {"config", Json::object({{"path", p.config_path}, {"overrides", p.override_count}})},
      {"device", Json::object({{"kind", p.device.kind}, {"count", p.device.count}})},
      {"backend", Json::object({{"name", p.backend.name},
                                {"worker", p.backend.worker},
                                {"world_size", p.backend.world_size},
                                {"precision", p.backend.precision}})},
      {"communication", Json::object({{"backend", p.communication.backend}, {"ddp_hook", p.communication.ddp_hook}})},
      {"batch", Json::object({{"per_rank", p.batch.per_rank},
                              {"accumulation", p.batch.accumulation},
                              {"global", p.batch.global(p.backend.world_size)},
                              {"slots", p.batch.slots},
                              {"fields", p.batch.fields}})},
      {"data", Json::object({{"options", p.data.options.to_json()},
                             {"train_samples", p.data.train_samples},
                             {"validation_samples", p.data.validation_samples},
                             {"train_fingerprint", p.data.train_fingerprint},
                             {"validation_fingerprint", p.data.validation_fingerprint},
                             {"steps_per_epoch", p.data.steps_per_epoch},
                             {"drop_last", p.data.drop_last}})},
      {"workload", Json::object({{"name", p.workload.name},
                                 {"parameters", p.workload.parameters},
                                 {"init_from", p.workload.init_from},
                                 {"metrics", strings_json(p.workload.metrics)}})},
      {"model", p.workload.model},
      {"preprocessor", p.workload.preprocessor},
      {"optimizer", Json::object({{"type", p.optimizer.type},
                                  {"betas", Json::array({p.optimizer.beta1, p.optimizer.beta2})},
                                  {"eps", p.optimizer.eps},
                                  {"weight_decay", p.optimizer.weight_decay},
                                  {"momentum", p.optimizer.momentum},
                                  {"nesterov", p.optimizer.nesterov}})},
      {"schedule", Json::object({{"max_steps", p.schedule.max_steps},
                                 {"lr", Json::object({{"type", p.schedule.lr.type},
                                                      {"peak", p.schedule.lr.peak},
                                                      {"warmup_steps", p.schedule.lr.warmup_steps},
                                                      {"min_ratio", p.schedule.lr.min_ratio}})},
                                 {"evaluation", Json::object({{"interval", p.schedule.evaluation_interval},
                                                              {"metric", p.schedule.evaluation_metric},
                                                              {"batch_size", p.schedule.evaluation_batch}})},
                                 {"log_interval", p.schedule.log_interval}})},
      {"training", Json::object({{"seed", p.training.seed},
                                 {"label_smoothing", p.training.label_smoothing},
                                 {"grad_clip_norm", p.training.grad_clip_norm ? Json(*p.training.grad_clip_norm) : Json()},
                                 {"nonfinite", p.training.nonfinite}})},
      {"checkpoint", p.checkpoint.to_json()},
      {"launch",
       Json::object({{"launcher", p.launch.launcher}, {"nodes", p.launch.nodes}, {"ranks_per_node", p.launch.ranks_per_node}})},
      {"threads", Json::object({{"cores", p.threads.cores}, {"engine", p.threads.engine}, {"intra_op", p.threads.intra_op}})},
      {"supervision", Json::object({{"hang_deadline_seconds", p.supervision.hang_deadline_seconds},
                                    {"start_deadline_seconds", p.supervision.start_deadline_seconds}})},
      {"memory", std::move(memory)},
  });
}

Status read_parts(const Json& json, RuntimePlan& p) {
  PS_ASSIGN(const Json config, json.get<Json>("config"));
  PS_ASSIGN(p.config_path, config.get<std::string>("path"));
  PS_ASSIGN(p.override_count, config.get<std::uint64_t>("overrides"));
  PS_ASSIGN(const Json device, json.get<Json>("device"));
  PS_ASSIGN(p.device.kind, device.get<std::string>("kind"));
  PS_ASSIGN(p.device.count, device.get<std::uint32_t>("count"));
  PS_ASSIGN(const Json backend, json.get<Json>("backend"));
  PS_ASSIGN(p.backend.name, backend.get<std::string>("name"));
  PS_ASSIGN(p.backend.worker, backend.get<std::string>("worker"));
  PS_ASSIGN(p.backend.world_size, backend.get<std::uint32_t>("world_size"));
  PS_ASSIGN(p.backend.precision, backend.get<std::string>("precision"));
  PS_ASSIGN(const Json communication, json.get<Json>("communication"));
  PS_ASSIGN(p.communication.backend, communication.get<std::string>("backend"));
  PS_ASSIGN(p.communication.ddp_hook, communication.get<std::string>("ddp_hook"));
  PS_ASSIGN(const Json batch, json.get<Json>("batch"));
  PS_ASSIGN(p.batch.per_rank, batch.get<std::uint32_t>("per_rank"));
  PS_ASSIGN(p.batch.accumulation, batch.get<std::uint32_t>("accumulation"));
  PS_ASSIGN(p.batch.slots, batch.get<std::uint32_t>("slots"));
  PS_ASSIGN(p.batch.fields, batch.get<Json>("fields"));
  PS_ASSIGN(const auto global, batch.get<std::uint64_t>("global"));
  if (global == 0 || global != std::uint64_t{p.batch.per_rank} * p.batch.accumulation * p.backend.world_size ||
      global > UINT32_MAX) {
    return Error(Code::plan_invalid, fmt::format("`batch.global` is not per_rank x accumulation x world_size: {}", global));
  }
  PS_ASSIGN(const Json data, json.get<Json>("data"));
  PS_ASSIGN(const Json options, data.get<Json>("options"));
  PS_ASSIGN(p.data.options, data::DataOptions::from_json(options));
  PS_ASSIGN(p.data.train_samples, data.get<std::uint64_t>("train_samples"));
  PS_ASSIGN(p.data.validation_samples, data.get<std::uint64_t>("validation_samples"));
  PS_ASSIGN(p.data.train_fingerprint, data.get<std::string>("train_fingerprint"));
  PS_ASSIGN(p.data.validation_fingerprint, data.get<std::string>("validation_fingerprint"));
  PS_ASSIGN(p.data.steps_per_epoch, data.get<std::uint64_t>("steps_per_epoch"));
  PS_ASSIGN(p.data.drop_last, data.get<bool>("drop_last"));
  if (p.data.steps_per_epoch == 0) {
    return Error(Code::plan_invalid, "`data.steps_per_epoch` is 0");
  }
  return {};
}

Status read_training_parts(const Json& json, RuntimePlan& p) {
  PS_ASSIGN(const Json workload, json.get<Json>("workload"));
  PS_ASSIGN(p.workload.name, workload.get<std::string>("name"));
  PS_ASSIGN(p.workload.parameters, workload.get<std::uint64_t>("parameters"));
  PS_ASSIGN(p.workload.init_from, workload.get<std::string>("init_from"));
  PS_ASSIGN(p.workload.metrics, read_strings(workload, "metrics"));
  PS_ASSIGN(p.workload.model, json.get<Json>("model"));
  PS_ASSIGN(p.workload.preprocessor, json.get<Json>("preprocessor"));
  PS_ASSIGN(const Json optimizer, json.get<Json>("optimizer"));
  PS_ASSIGN(p.optimizer.type, optimizer.get<std::string>("type"));
  PS_ASSIGN(const Json betas, optimizer.get<Json>("betas"));
  if (betas.items().size() != 2 || !betas.items()[0].is_number() || !betas.items()[1].is_number()) {
    return Error(Code::plan_invalid, "`optimizer.betas` is not a pair of numbers");
  }
  p.optimizer.beta1 = betas.items()[0].to_double().value_or(0.0);
  p.optimizer.beta2 = betas.items()[1].to_double().value_or(0.0);
  PS_ASSIGN(p.optimizer.eps, optimizer.get<double>("eps"));
  PS_ASSIGN(p.optimizer.weight_decay, optimizer.get<double>("weight_decay"));
  PS_ASSIGN(p.optimizer.momentum, optimizer.get<double>("momentum"));
  PS_ASSIGN(p.optimizer.nesterov, optimizer.get<bool>("nesterov"));
  PS_ASSIGN(const Json schedule, json.get<Json>("schedule"));
  PS_ASSIGN(p.schedule.max_steps, schedule.get<std::uint64_t>("max_steps"));
  PS_ASSIGN(const Json lr, schedule.get<Json>("lr"));
  PS_ASSIGN(p.schedule.lr.type, lr.get<std::string>("type"));
  PS_ASSIGN(p.schedule.lr.peak, lr.get<double>("peak"));
  PS_ASSIGN(p.schedule.lr.warmup_steps, lr.get<std::uint64_t>("warmup_steps"));
  PS_ASSIGN(p.schedule.lr.min_ratio, lr.get<double>("min_ratio"));
  PS_ASSIGN(const Json evaluation, schedule.get<Json>("evaluation"));
  PS_ASSIGN(p.schedule.evaluation_interval, evaluation.get<std::uint64_t>("interval"));
  PS_ASSIGN(p.schedule.evaluation_metric, evaluation.get<std::string>("metric"));
  PS_ASSIGN(p.schedule.evaluation_batch, evaluation.get<std::uint32_t>("batch_size"));
  PS_ASSIGN(p.schedule.log_interval, schedule.get<std::uint64_t>("log_interval"));
  if (p.schedule.evaluation_batch == 0) {
    return Error(Code::plan_invalid, "`schedule.evaluation.batch_size` is 0");
  }
  PS_ASSIGN(const Json training, json.get<Json>("training"));
  PS_ASSIGN(p.training.seed, training.get<std::uint64_t>("seed"));
  PS_ASSIGN(p.training.label_smoothing, training.get<double>("label_smoothing"));
  if (const Json* clip = training.find("grad_clip_norm"); clip != nullptr && !clip->is_null()) {
    PS_ASSIGN(const double norm, training.get<double>("grad_clip_norm"));
    p.training.grad_clip_norm = norm;
  }
  PS_ASSIGN(p.training.nonfinite, training.get<std::string>("nonfinite"));
  return {};
}

Status read_machine_parts(const Json& json, RuntimePlan& p) {
  PS_ASSIGN(const Json checkpoint, json.get<Json>("checkpoint"));
  PS_ASSIGN(p.checkpoint, checkpoint::CheckpointOptions::from_json(checkpoint));
  PS_ASSIGN(const Json launch, json.get<Json>("launch"));
  PS_ASSIGN(p.launch.launcher, launch.get<std::string>("launcher"));
  PS_ASSIGN(p.launch.nodes, launch.get<std::uint32_t>("nodes"));
  PS_ASSIGN(p.launch.ranks_per_node, launch.get<std::uint32_t>("ranks_per_node"));
  PS_ASSIGN(const Json threads, json.get<Json>("threads"));
  PS_ASSIGN(p.threads.cores, threads.get<std::uint32_t>("cores"));
  PS_ASSIGN(p.threads.engine, threads.get<std::uint32_t>("engine"));
  PS_ASSIGN(p.threads.intra_op, threads.get<std::uint32_t>("intra_op"));
  PS_ASSIGN(const Json supervision, json.get<Json>("supervision"));
  PS_ASSIGN(p.supervision.hang_deadline_seconds, supervision.get<std::uint32_t>("hang_deadline_seconds"));
  PS_ASSIGN(p.supervision.start_deadline_seconds, supervision.get<std::uint32_t>("start_deadline_seconds"));
  PS_ASSIGN(const Json memory, json.get<Json>("memory"));
  for (const auto& item : memory.items()) {
    MemoryComponent component;
    PS_ASSIGN(component.name, item.get<std::string>("name"));
    PS_ASSIGN(component.bytes, item.get<std::uint64_t>("bytes"));
    p.memory.push_back(std::move(component));
  }
  PS_ASSIGN(const Json made_for, json.get<Json>("made_for"));
  PS_ASSIGN(p.made_for.host_class, made_for.get<std::string>("host_class"));
  PS_ASSIGN(p.made_for.cores, made_for.get<std::uint32_t>("cores"));
  PS_ASSIGN(p.made_for.memory_bytes, made_for.get<std::uint64_t>("memory_bytes"));
  PS_ASSIGN(p.made_for.devices, read_strings(made_for, "devices"));
  PS_ASSIGN(p.made_for.torch_version, made_for.get_or<std::string>("torch_version", ""));
  PS_ASSIGN(p.reasons, read_strings(json, "reasons"));
  PS_ASSIGN(p.warnings, read_strings(json, "warnings"));
  PS_ASSIGN(const Json changes, json.get_or<Json>("changes", Json()));
  for (const auto& item : changes.items()) {
    PlanChange change;
    PS_ASSIGN(change.path, item.get<std::string>("path"));
    PS_ASSIGN(change.asked, item.get<std::string>("asked"));
    PS_ASSIGN(change.planned, item.get<std::string>("planned"));
    PS_ASSIGN(change.reason, item.get<std::string>("reason"));
    PS_ASSIGN(change.code, item.get_or<std::string>("code", ""));
    p.changes.push_back(std::move(change));
  }
  PS_ASSIGN(const Json rejected, json.get_or<Json>("rejected", Json()));
  for (const auto& item : rejected.items()) {
    Rejected entry;
    PS_ASSIGN(entry.backend, item.get<std::string>("backend"));
    PS_ASSIGN(entry.reason, item.get<std::string>("reason"));
    p.rejected.push_back(std::move(entry));
  }
  return {};
}

}  // namespace

std::uint64_t RuntimePlan::memory_bytes_per_rank() const {
  std::uint64_t sum = 0;
  for (const auto& component : memory) {
    sum += component.bytes;
  }
  return sum;
}

std::string RuntimePlan::hash() const { return sha256_hex(body_json(*this).canonical()); }

Json RuntimePlan::to_json() const {
  Json json = body_json(*this);
  json["hash"] = hash();
  json["reasons"] = strings_json(reasons);
  json["warnings"] = strings_json(warnings);
  Json changes_json = Json::array();
  for (const auto& change : changes) {
    changes_json.push_back(Json::object({{"path", change.path},
                                         {"asked", change.asked},
                                         {"planned", change.planned},
                                         {"reason", change.reason},
                                         {"code", change.code}}));
  }
  json["changes"] = std::move(changes_json);
  Json rejected_json = Json::array();
  for (const auto& entry : rejected) {
    rejected_json.push_back(Json::object({{"backend", entry.backend}, {"reason", entry.reason}}));
  }
  json["rejected"] = std::move(rejected_json);
  json["made_for"] = Json::object({{"host_class", made_for.host_class},
                                   {"cores", made_for.cores},
                                   {"memory_bytes", made_for.memory_bytes},
                                   {"devices", strings_json(made_for.devices)},
                                   {"torch_version", made_for.torch_version}});
  json["made_by"] = kVersion;
  return json;
}

Result<RuntimePlan> RuntimePlan::from_json(const Json& json) {
  PS_ASSIGN(const auto version, json.get<std::int64_t>("format_version"));
  if (version != kFormatVersion) {
    return Error(Code::artifact_version,
                 fmt::format("the plan has format version {}; this program reads {}", version, kFormatVersion))
        .help("make the plan again with this release");
  }
  RuntimePlan plan;
  PS_ASSIGN(plan.mode, json.get<std::string>("mode"));
  PS_ASSIGN(plan.name, json.get<std::string>("name"));
  PS_ASSIGN(plan.run_dir, json.get<std::string>("run_dir"));
  for (const auto& read : {read_parts, read_training_parts, read_machine_parts}) {
    if (const Status status = read(json, plan); !status.ok()) {
      return status.error().wrap(Code::plan_invalid, "the plan file is damaged");
    }
  }
  PS_ASSIGN(const auto stored, json.get<std::string>("hash"));
  if (stored != plan.hash()) {
    return Error(Code::plan_invalid, "the plan's hash does not fit its content")
        .note("a plan is a contract; it is not edited by hand")
        .help("change the config and run `parascale plan` again");
  }
  return plan;
}

double learning_rate(const LrPlan& lr, std::uint64_t max_steps, Step step) {
  if (step.value <= lr.warmup_steps) {
    return lr.peak * static_cast<double>(step.value) / static_cast<double>(std::max<std::uint64_t>(lr.warmup_steps, 1));
  }
  if (lr.type == "constant" || max_steps <= lr.warmup_steps) {
    return lr.peak;
  }
  const double progress =
      std::min(1.0, static_cast<double>(step.value - lr.warmup_steps) / static_cast<double>(max_steps - lr.warmup_steps));
  const double shape = lr.type == "cosine" ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress)) : 1.0 - progress;
  return lr.peak * (lr.min_ratio + (1.0 - lr.min_ratio) * shape);
}

}  // namespace parascale::plan
