#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "parascale/base/json.h"

// What the planner is told about back ends, workers and workloads. The records are filled by `backends/` and `workloads/` and
// handed to the planner by the command, so that `plan` never includes them.

namespace parascale::plan {

struct BackendRecord {
  std::string name;
  bool built = false;
  std::string when;  ///< why it is not built yet, or what it is for
  std::vector<std::string> devices;
  std::vector<std::string> workers;
  std::vector<std::string> precisions;
  std::uint32_t max_world_size = 1;
};

/// A worker program as found on this machine.
struct WorkerRecord {
  std::string kind;  ///< cpp, python, fake
  bool available = false;
  std::string program;  ///< path
  std::string reason;   ///< why it is not available
};

/// What a workload needs to know to say what it costs and looks like; members of the model section by name.
struct WorkloadRequest {
  Json model;   ///< the `model` section
  Json recipe;  ///< {resize, size, mean, std}
};

struct WorkloadShape {
  Json model;         ///< Hugging Face `config.json`
  Json preprocessor;  ///< Hugging Face `preprocessor_config.json`
  Json fields;        ///< batch contract: [{name, dtype, sample_shape}]
  std::uint32_t channels = 0;
  std::uint32_t image_size = 0;
  std::uint32_t num_labels = 0;
  std::uint64_t parameters = 0;
  std::uint64_t activation_bytes_per_sample = 0;  ///< kept for backward, fp32
};

struct WorkloadRecord {
  std::string name;
  bool built = false;
  std::string when;
  std::vector<std::string> workers;
  std::vector<std::string> metrics;  ///< of an evaluation; the first is the default
  std::string capability_level;      ///< of the evidence
  std::function<Result<WorkloadShape>(const WorkloadRequest&)> shape;
};

struct Capabilities {
  std::vector<BackendRecord> backends;
  std::vector<WorkerRecord> workers;
  std::vector<WorkloadRecord> workloads;
};

/// What this machine has, as far as planning goes; cgroup limits included.
struct Machine {
  std::string host_class;
  std::uint32_t cores = 1;
  std::uint64_t memory_bytes = 0;
  std::vector<std::string> devices;  ///< always holds cpu
  std::string torch_version;         ///< read from the wheel's version file, without loading it; empty when absent
};

}  // namespace parascale::plan
