#include "parascale/config/settings_table.h"

namespace parascale::config {

std::vector<Setting> workload_settings() {
  return {
      {.path = "schema_version",
       .member = PS_MEMBER(schema_version),
       .fallback = 0,
       .doc = "Version of the config format; a file without it is version 0 (read the same way, with a warning)"},
      {.path = "parascale.workload.task_type",
       .member = PS_MEMBER(workload.task_type),
       .fallback = "generic",
       .choices = {{"generic"}, {"llm"}, {"vision"}, {"multimodal"}},
       .doc = "Kind of task; guides the planner"},
      {.path = "parascale.workload.model_family",
       .member = PS_MEMBER(workload.model_family),
       .fallback = "unknown",
       .doc = "Family of the model (`vit`, `clip`, ...); guides the planner"},
      {.path = "parascale.workload.target_scale",
       .member = PS_MEMBER(workload.target_scale),
       .fallback = "local",
       .choices = {{"local"}, {"single_node"}, {"small_cluster"}, {"sub_100_gpus"}},
       .doc = "Size of the machine aimed at"},
      {.path = "parascale.workload.optimize_for",
       .member = PS_MEMBER(workload.optimize_for),
       .fallback = "balanced",
       .choices = {{"throughput"}, {"memory"}, {"latency"}, {"balanced"}},
       .doc = "What the planner prefers when it has a choice"},
  };
}

}  // namespace parascale::config
