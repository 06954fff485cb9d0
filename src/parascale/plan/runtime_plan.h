#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parascale/base/ids.h"
#include "parascale/base/json.h"
#include "parascale/checkpoint/options.h"
#include "parascale/data/options.h"

// The artifact of stage plan: what will happen, decided once. Written to `plan.json`, given to ranks, hashed, never re-derived.

namespace parascale::plan {

struct DevicePlan {
  std::string kind;  ///< cpu
  std::uint32_t count = 1;
};

struct BackendPlan {
  std::string name;    ///< native
  std::string worker;  ///< cpp, python, fake
  std::uint32_t world_size = 1;
  std::string precision;  ///< fp32
};

struct CommunicationPlan {
  std::string backend;   ///< none for one rank
  std::string ddp_hook;  ///< none
};

struct BatchPlan {
  std::uint32_t per_rank = 0;  ///< samples per rank and micro-step
  std::uint32_t accumulation = 1;
  std::uint32_t slots = 0;  ///< of the batch ring
  Json fields;              ///< [{name, dtype, sample_shape}], the batch contract of the workload
  std::uint32_t global(std::uint32_t world_size) const { return per_rank * accumulation * world_size; }
};

struct DataPlan {
  data::DataOptions options;
  std::uint64_t train_samples = 0;
  std::uint64_t validation_samples = 0;
  std::string train_fingerprint;
  std::string validation_fingerprint;
  std::uint64_t steps_per_epoch = 0;  ///< the last, ragged one included unless drop_last
  bool drop_last = false;
};

struct OptimizerPlan {
  std::string type;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.0, momentum = 0.0;
  bool nesterov = false;
};

struct LrPlan {
  std::string type;  ///< constant, linear, cosine
  double peak = 0.0;
  std::uint64_t warmup_steps = 0;
  double min_ratio = 0.0;
};

struct SchedulePlan {
  std::uint64_t max_steps = 0;  ///< a total, also after a resume
  LrPlan lr;
  std::uint64_t evaluation_interval = 0;  ///< 0 = only at the end
  std::string evaluation_metric;
  std::uint32_t evaluation_batch = 0;
  std::uint64_t log_interval = 0;
};

struct TrainingPlan {
  std::uint64_t seed = 0;
  double label_smoothing = 0.0;
  std::optional<double> grad_clip_norm;
  std::string nonfinite;  ///< stop, skip
};

struct WorkloadPlan {
  std::string name;       ///< vit_classifier
  Json model;             ///< Hugging Face `config.json`
  Json preprocessor;      ///< Hugging Face `preprocessor_config.json`
  std::string init_from;  ///< empty = fresh weights
  std::uint64_t parameters = 0;
  std::vector<std::string> metrics;  ///< of an evaluation, in order
};

struct LaunchPlan {
  std::string launcher;  ///< local
  std::uint32_t nodes = 1;
  std::uint32_t ranks_per_node = 1;
};

struct ThreadPlan {
  std::uint32_t cores = 1;
  std::uint32_t engine = 1;
  std::uint32_t intra_op = 1;
};

struct SupervisionPlan {
  std::uint32_t hang_deadline_seconds = 300;
  std::uint32_t start_deadline_seconds = 120;
};

struct MemoryComponent {
  std::string name;  ///< weights, gradients, optimizer, activations, batch ring, snapshot arena, libraries
  std::uint64_t bytes = 0;
};

/// A setting that the planner changed or filled in.
struct PlanChange {
  std::string path;
  std::string asked, planned, reason;
  std::string code;  ///< `PS322`, or empty
};

struct Rejected {
  std::string backend, reason;
};

/// What the plan was made on; a machine with less refuses to run it.
struct MadeFor {
  std::string host_class;  ///< `linux-x86_64`
  std::uint32_t cores = 0;
  std::uint64_t memory_bytes = 0;
  std::vector<std::string> devices;
  std::string torch_version;  ///< empty when unknown
};

/// The contract given to ranks. *thread-compatible*
struct RuntimePlan {
  static constexpr int kFormatVersion = 1;

  std::string mode = "train";
  std::string name;
  std::string run_dir;
  std::string config_path;
  std::size_t override_count = 0;
  DevicePlan device;
  BackendPlan backend;
  CommunicationPlan communication;
  BatchPlan batch;
  DataPlan data;
  WorkloadPlan workload;
  OptimizerPlan optimizer;
  SchedulePlan schedule;
  TrainingPlan training;
  checkpoint::CheckpointOptions checkpoint;
  LaunchPlan launch;
  ThreadPlan threads;
  SupervisionPlan supervision;
  std::vector<MemoryComponent> memory;
  // Notes: not part of the hash.
  std::vector<std::string> reasons;
  std::vector<std::string> warnings;
  std::vector<PlanChange> changes;
  std::vector<Rejected> rejected;
  MadeFor made_for;

  std::uint64_t memory_bytes_per_rank() const;
  /// SHA-256 (hex) of the canonical JSON without `made_for`, notes and `hash`.
  std::string hash() const;
  /// The document of `plan.json`.
  Json to_json() const;
  /// Reads `plan.json`. Errors: artifact_version for another major, plan_invalid for a damaged document or a hash that does not
  /// fit.
  static Result<RuntimePlan> from_json(const Json& json);
};

/// Learning rate of optimizer step `step` (from 1): linear warm-up from peak / warmup_steps, then constant, linear or half-cosine
/// decay to peak x min_ratio at `max_steps`. A pure function of the step.
double learning_rate(const LrPlan& lr, std::uint64_t max_steps, Step step);

}  // namespace parascale::plan
