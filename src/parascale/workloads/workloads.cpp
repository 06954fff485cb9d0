#include "parascale/workloads/workloads.h"

namespace parascale::workloads {

std::vector<plan::WorkloadRecord> workload_records() {
  return {vit_classifier(),
          {.name = "tiny", .when = "planned"},
          {.name = "torch_tiny", .when = "planned"},
          {.name = "vision_synthetic",
           .when = "not built yet; `vit_classifier` with `data.type: synthetic` trains on generated pictures"},
          {.name = "clip_contrastive", .when = "planned"},
          {.name = "vlm_lora", .when = "planned"},
          {.name = "yolo_world", .when = "planned"},
          {.name = "ground_dino", .when = "planned"},
          {.name = "python", .when = "needs the Python worker; not built yet"}};
}

}  // namespace parascale::workloads
