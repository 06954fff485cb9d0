#include "parascale/plan/planner.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "parascale/base/file_system.h"
#include "parascale/base/text.h"

namespace parascale::plan {

namespace {

// Resident size of a C++ rank without model and batches: libtorch's code and tables, measured on the CPU wheel 2.13.
constexpr std::uint64_t kLibraryBytes = 180ULL << 20;

template <typename Record>
const Record* find_record(const std::vector<Record>& records, std::string_view name) {
  const auto found = std::ranges::find(records, name, &Record::name);
  return found != records.end() ? &*found : nullptr;
}

std::string names_of(const auto& records) {
  std::vector<std::string> names;
  names.reserve(records.size());
  for (const auto& record : records) {
    names.push_back(record.name);
  }
  return join(names, ", ");
}

bool lists(const std::vector<std::string>& list, std::string_view name) { return std::ranges::find(list, name) != list.end(); }

/// Collects `<prefix>name` fields of the resolved config into one object.
Json section_json(const config::ResolvedConfig& config, std::string_view prefix) {
  Json json = Json::object();
  for (const auto& field : config.fields) {
    if (field.path.starts_with(prefix)) {
      json[field.path.substr(prefix.size())] = field.value;
    }
  }
  return json;
}

class Planner {
 public:
  explicit Planner(const PlanRequest& request) : request_(request), config_(request.config) {}

  PlanOutcome run() {
    plan_.name = config_.run_name;
    plan_.run_dir = request_.run_dir;
    plan_.config_path = config_.config_path;
    plan_.override_count = config_.override_count;
    plan_.made_for = {.host_class = request_.machine.host_class,
                      .cores = request_.machine.cores,
                      .memory_bytes = request_.machine.memory_bytes,
                      .devices = request_.machine.devices,
                      .torch_version = request_.machine.torch_version};
    plan_device();
    plan_backend();
    plan_worker();
    if (auto shape = workload_shape(config_, request_.capabilities); shape.ok()) {
      shape_ = std::move(shape).value();
      plan_workload();
      plan_threads();
      plan_data();
      plan_schedule();
      plan_memory();
    } else {
      outcome_.errors.push_back(shape.error());
    }
    outcome_.plan = std::move(plan_);
    return std::move(outcome_);
  }

 private:
  void fail(Error error) { outcome_.errors.push_back(std::move(error)); }
  void because(std::string reason) { plan_.reasons.push_back(std::move(reason)); }

  void plan_device() {
    const std::string& asked = config_.runtime.device;
    if (asked == "cpu" || asked == "auto") {
      plan_.device.kind = "cpu";
      if (asked == "auto") {
        because("device cpu: the only device this build drives");
      }
    } else {
      fail(Error(Code::device_missing, fmt::format("device `{}` is not built yet", asked)).help("set `runtime.device: cpu`"));
    }
  }

  void plan_backend() {
    const std::string& asked = config_.backend.training_backend;
    const std::string name = asked == "auto" ? "native" : asked;
    for (const auto& record : request_.capabilities.backends) {
      if (record.name != name) {
        plan_.rejected.push_back({.backend = record.name, .reason = record.built ? "not asked for" : record.when});
      }
    }
    const BackendRecord* record = find_record(request_.capabilities.backends, name);
    if (record == nullptr || !record->built) {
      fail(Error(Code::backend_not_built, fmt::format("back end `{}` is not built yet", name))
               .note(record != nullptr ? record->when : fmt::format("registered: {}", names_of(request_.capabilities.backends)))
               .help("set `parascale.backend.training_backend: native`"));
      return;
    }
    if (asked == "auto") {
      because("back end native: one rank");
    }
    plan_.backend.name = name;
    plan_.backend.world_size = 1;
    plan_.backend.precision = config_.training.precision;
    if (!lists(record->precisions, config_.training.precision)) {
      fail(Error(Code::not_built,
                 fmt::format("precision `{}` is not built yet for back end `{}`", config_.training.precision, name))
               .note(fmt::format("built: {}", join(record->precisions, ", ")))
               .help("set `parascale.training.precision: fp32`"));
    }
    plan_.communication = {.backend = "none", .ddp_hook = "none"};
    plan_.launch = {.launcher = "local", .nodes = 1, .ranks_per_node = 1};
  }

  void plan_worker() {
    const WorkloadRecord* workload = find_record(request_.capabilities.workloads, config_.training.workload);
    if (workload == nullptr || !workload->built) {
      return;  // reported by workload_shape
    }
    std::string kind = config_.runtime.worker;
    if (kind == "auto") {
      kind = lists(workload->workers, "cpp") ? "cpp" : "python";
      because(fmt::format("worker {}: the workload has a {} model for this device", kind, kind == "cpp" ? "C++" : "Python"));
    }
    plan_.backend.worker = kind;
    const auto& workers = request_.capabilities.workers;
    const auto found = std::ranges::find(workers, kind, &WorkerRecord::kind);
    if (found == workers.end() || !found->available) {
      fail(Error(Code::worker_missing, fmt::format("worker `{}` is not available", kind))
               .note(found != workers.end() ? found->reason : "no such worker is registered")
               .help("set `runtime.worker: auto`, or run `make build`"));
    } else if (kind == "fake") {
      plan_.warnings.emplace_back("the fake worker trains nothing: its numbers say nothing about a model");
    }
  }

  void plan_workload() {
    const WorkloadRecord* record = find_record(request_.capabilities.workloads, config_.training.workload);
    plan_.workload = {.name = config_.training.workload,
                      .model = shape_.model,
                      .preprocessor = shape_.preprocessor,
                      .init_from = config_.model.init_from,
                      .parameters = shape_.parameters,
                      .metrics = record->metrics};
    const auto& optimizer = config_.optimizer;
    plan_.optimizer = {.type = optimizer.type,
                       .beta1 = optimizer.betas[0],
                       .beta2 = optimizer.betas[1],
                       .eps = optimizer.eps,
                       .weight_decay = optimizer.weight_decay,
                       .momentum = optimizer.momentum,
                       .nesterov = optimizer.nesterov};
    plan_.training = {.seed = static_cast<std::uint64_t>(config_.training.seed),
                      .label_smoothing = config_.training.label_smoothing,
                      .grad_clip_norm = config_.training.grad_clip_norm,
                      .nonfinite = config_.training.nonfinite};
    plan_.batch.per_rank = static_cast<std::uint32_t>(config_.training.batch_size);
    plan_.batch.accumulation = static_cast<std::uint32_t>(config_.training.gradient_accumulation_steps);
    plan_.batch.slots = static_cast<std::uint32_t>(config_.runtime.slots);
    plan_.batch.fields = shape_.fields;
    plan_.supervision = {.hang_deadline_seconds = static_cast<std::uint32_t>(config_.runtime.hang_deadline_seconds)};
    const std::string& save_path = config_.training.checkpoint_save_path;
    plan_.checkpoint.root = save_path.empty() ? join_path(request_.run_dir, "checkpoints") : save_path;
    plan_.checkpoint.interval_steps = static_cast<std::uint64_t>(config_.training.checkpoint_save_interval);
    plan_.checkpoint.keep_last = static_cast<std::uint32_t>(config_.training.checkpoint_keep_last);
  }

  void plan_threads() {
    const std::uint32_t cores = request_.machine.cores;
    const std::uint32_t ranks = plan_.backend.world_size;
    auto& threads = plan_.threads;
    threads.cores = cores;
    threads.intra_op = std::max(1U, (cores - 1) / ranks);
    if (config_.runtime.intra_op_threads) {
      threads.intra_op = static_cast<std::uint32_t>(*config_.runtime.intra_op_threads);
    }
    const std::uint32_t used = ranks * threads.intra_op;
    threads.engine = cores > used ? cores - used : 1;
    if (config_.loader.dataloader_num_workers) {
      threads.engine = std::max(1U, static_cast<std::uint32_t>(*config_.loader.dataloader_num_workers));
    }
    if (used + threads.engine > std::max(cores, 2U)) {
      plan_.warnings.push_back(
          fmt::format("{} threads on {} cores: the steps will wait for each other (PS321)", used + threads.engine, cores));
    }
    because(fmt::format("threads: {} for the rank's arithmetic, {} to read and decode, of {} cores", threads.intra_op,
                        threads.engine, cores));
  }

  void plan_data() {
    auto& data = plan_.data;
    data.options = make_data_options(config_, shape_);
    data.options.threads = plan_.threads.engine;
    data.train_samples = request_.data.train_samples;
    data.validation_samples = request_.data.validation_samples;
    data.train_fingerprint = request_.data.train_fingerprint;
    data.validation_fingerprint = request_.data.validation_fingerprint;
    data.drop_last = config_.loader.dataloader_drop_last;
    const std::uint64_t global = plan_.batch.global(plan_.backend.world_size);
    if (const std::uint64_t asked = std::uint64_t{plan_.batch.per_rank} * plan_.batch.accumulation * plan_.backend.world_size;
        asked != global) {
      fail(Error(Code::cross_field,
                 fmt::format("a step of {} is larger than {}", format_count(asked, "sample"), format_thousands(UINT32_MAX)))
               .help("make `parascale.training.batch_size` or `gradient_accumulation_steps` smaller"));
      return;
    }
    data.steps_per_epoch = data.drop_last ? data.train_samples / global : (data.train_samples + global - 1) / global;
    if (data.steps_per_epoch == 0) {
      fail(Error(Code::data_empty, fmt::format("the training split holds {} and a step takes {}",
                                               format_count(data.train_samples, "sample"), global))
               .help("make `parascale.training.batch_size` smaller, or set `parascale.data.dataloader_drop_last: false`"));
    }
  }

  void plan_schedule() {
    auto& schedule = plan_.schedule;
    const auto& training = config_.training;
    if (training.max_steps) {
      schedule.max_steps = static_cast<std::uint64_t>(*training.max_steps);
    } else if (training.epochs) {
      // A product like 2.2 x 25 lies a rounding error above its whole number of steps.
      const double steps = *training.epochs * static_cast<double>(plan_.data.steps_per_epoch);
      schedule.max_steps = static_cast<std::uint64_t>(std::ceil(steps * (1.0 - 1e-12)));
      because(fmt::format("{}: {} epochs of {}", format_count(schedule.max_steps, "step"), *training.epochs,
                          format_count(plan_.data.steps_per_epoch, "step")));
    }
    schedule.lr = {.type = training.lr_schedule.type,
                   .peak = training.learning_rate,
                   .warmup_steps = static_cast<std::uint64_t>(training.lr_schedule.warmup_steps),
                   .min_ratio = training.lr_schedule.min_ratio};
    schedule.evaluation_interval = static_cast<std::uint64_t>(training.evaluation.interval);
    schedule.evaluation_metric = training.evaluation.metric;
    schedule.evaluation_batch =
        training.evaluation.batch_size > 0 ? static_cast<std::uint32_t>(training.evaluation.batch_size) : plan_.batch.per_rank;
    schedule.log_interval = static_cast<std::uint64_t>(training.log_interval);
    if (plan_.data.validation_samples == 0 && schedule.evaluation_interval > 0) {
      fail(Error(Code::data_empty, "evaluation is asked for and the validation split holds no sample")
               .help("set `data.validation`, or `training.evaluation.interval: 0`"));
    }
    if (plan_.data.validation_samples == 0) {
      plan_.warnings.emplace_back("no validation split: the run ends without an evaluation and without a best checkpoint");
    }
    const auto* metric_record = find_record(request_.capabilities.workloads, training.workload);
    if (!lists(metric_record->metrics, schedule.evaluation_metric)) {
      fail(
          Error(Code::cross_field, fmt::format("workload `{}` has no metric `{}`", training.workload, schedule.evaluation_metric))
              .note(fmt::format("metrics: {}", join(metric_record->metrics, ", "))));
    }
  }

  void plan_memory() {
    const std::uint64_t weights = shape_.parameters * 4;
    const std::uint64_t moments = plan_.optimizer.type == "adamw" ? 2 * weights : plan_.optimizer.momentum > 0 ? weights : 0;
    std::uint64_t row_bytes = 8;
    for (const auto& field : shape_.fields.items()) {
      std::uint64_t elements = 1;
      if (const Json* shape = field.find("sample_shape")) {
        for (const auto& size : shape->items()) {
          elements *= size.to_uint64().value_or(1);
        }
      }
      row_bytes += elements * 8;  // the widest dtype of a batch
    }
    const std::uint64_t capacity = std::max(plan_.batch.per_rank, plan_.schedule.evaluation_batch);
    plan_.memory = {{.name = "weights", .bytes = weights},
                    {.name = "gradients", .bytes = weights},
                    {.name = "optimizer", .bytes = moments},
                    {.name = "activations", .bytes = shape_.activation_bytes_per_sample * plan_.batch.per_rank},
                    {.name = "batch ring", .bytes = plan_.batch.slots * capacity * row_bytes},
                    {.name = "snapshot arena", .bytes = weights + moments},
                    {.name = "libraries", .bytes = plan_.backend.worker == "fake" ? 8ULL << 20 : kLibraryBytes}};
    const double budget = static_cast<double>(request_.machine.memory_bytes) * config_.training.strategy_memory_margin;
    if (static_cast<double>(plan_.memory_bytes_per_rank()) > budget) {
      fail(Error(Code::memory_exceeded,
                 fmt::format("the job needs about {} and {} may be used", format_bytes(plan_.memory_bytes_per_rank()),
                             format_bytes(static_cast<std::uint64_t>(budget))))
               .note(fmt::format("activations take {} at {} a step", format_bytes(plan_.memory[3].bytes),
                                 format_count(plan_.batch.per_rank, "sample")))
               .help("make `parascale.training.batch_size` smaller and `gradient_accumulation_steps` larger"));
    }
  }

  const PlanRequest& request_;
  const config::ResolvedConfig& config_;
  WorkloadShape shape_;
  RuntimePlan plan_;
  PlanOutcome outcome_;
};

}  // namespace

Result<WorkloadShape> workload_shape(const config::ResolvedConfig& config, const Capabilities& capabilities) {
  const std::string& name = config.training.workload;
  const WorkloadRecord* record = find_record(capabilities.workloads, name);
  if (record == nullptr || !record->built) {
    return Error(Code::workload_not_built, fmt::format("workload `{}` is not built yet", name))
        .note(record != nullptr ? record->when : fmt::format("registered: {}", names_of(capabilities.workloads)))
        .help("set `training.workload: vit_classifier`");
  }
  return record->shape({.model = section_json(config, "model."), .recipe = section_json(config, "data.recipe.")});
}

PlanOutcome make_plan(const PlanRequest& request) { return Planner(request).run(); }

}  // namespace parascale::plan
