#include "parascale/workloads/workloads.h"

namespace parascale::workloads {

std::vector<plan::WorkloadRecord> workload_records() {
  return {vit_classifier(),
          {.name = "tiny", .when = "not built yet"},
          {.name = "torch_tiny", .when = "not built yet"},
          {.name = "vision_synthetic", .when = "not built yet; `vit_classifier` with `data.type: synthetic` trains on generated pictures"},
          {.name = "clip_contrastive", .when = "not built yet"},
          {.name = "vlm_lora", .when = "not built yet"},
          {.name = "yolo_world", .when = "not built yet"},
          {.name = "ground_dino", .when = "not built yet"},
          {.name = "python", .when = "needs the Python worker; not built yet"}};
}

}  // namespace parascale::workloads
