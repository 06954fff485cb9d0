#pragma once

#include <string>
#include <vector>

#include "parascale/config/resolved_config.h"
#include "parascale/plan/capabilities.h"
#include "parascale/plan/runtime_plan.h"

namespace parascale::plan {

/// What is known of the data before it is read: counts and fingerprints of the index.
struct DataFacts {
  std::uint64_t train_samples = 0;
  std::uint64_t validation_samples = 0;
  std::string train_fingerprint;
  std::string validation_fingerprint;
};

struct PlanRequest {
  const config::ResolvedConfig& config;
  const Capabilities& capabilities;
  const Machine& machine;
  DataFacts data;
  std::string run_dir;
};

/// Decides everything, or returns every reason why the job cannot run here. Codes: backend_not_built, worker_missing,
/// workload_not_built, device_missing, memory_exceeded, data_empty, cross_field.
struct PlanOutcome {
  RuntimePlan plan;
  std::vector<Error> errors;  ///< empty when the plan holds
};
PlanOutcome make_plan(const PlanRequest& request);

/// The data part of the configuration as options of the data module; the paths are what `data` needs before the plan exists.
data::DataOptions make_data_options(const config::ResolvedConfig& config, const WorkloadShape& shape);

/// Finds a workload and lets it say what it costs. Errors: workload_not_built, and what the workload reports.
Result<WorkloadShape> workload_shape(const config::ResolvedConfig& config, const Capabilities& capabilities);

/// Refuses a plan whose `made_for` asks for more than `machine` has. Errors: plan_misfit with the differing members.
Status check_fit(const RuntimePlan& plan, const Machine& machine);

/// Reads cores (affinity and cgroup), memory (cgroup), devices, and the torch version from `torch_version_file` (the wheel's
/// `version.py` or a copy of it; empty or absent = unknown).
Machine read_machine(const std::string& torch_version_file);

/// The plan as in STYLE.md, about 80 columns.
std::string plan_text(const RuntimePlan& plan);

}  // namespace parascale::plan
