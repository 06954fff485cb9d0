#pragma once

#include <cstdint>
#include <optional>

#include "parascale/base/json.h"
#include "parascale/base/result.h"
#include "parascale_torch/models/vit/vit_config.h"
#include "parascale_torch/optim/optimizer.h"

namespace parascale::native {

/// The members of the plan that a rank needs.
struct RankPlan {
  VitConfig model;
  std::optional<OptimizerConfig> optimizer;  ///< absent: no moments, `step` is refused
  double label_smoothing = 0.0;
  std::optional<double> grad_clip_norm;
  int intra_op_threads = 1;

  /// Reads `model`, `optimizer`, `training.{label_smoothing, grad_clip_norm}` and `threads.intra_op`. Errors: plan_invalid.
  static Result<RankPlan> from_json(const Json& plan);
};

}  // namespace parascale::native
