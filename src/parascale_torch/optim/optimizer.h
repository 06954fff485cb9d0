#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "parascale/base/json.h"
#include "parascale/base/result.h"
#include "parascale_torch/models/parameter.h"
#include "parascale_torch/state/inventory.h"

namespace parascale::native {

/// Settings of the optimizer as the plan carries them; the learning rate comes with every step.
struct OptimizerConfig {
  enum class Type : std::uint8_t { adamw, sgd };
  Type type = Type::adamw;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;
  bool nesterov = false;

  /// Reads {type, betas, eps, weight_decay, momentum, nesterov}. Errors: plan_invalid.
  static Result<OptimizerConfig> from_json(const Json& json);
};

/// AdamW (Loshchilov and Hutter 2019, decoupled decay) or SGD with momentum and coupled decay, as torch.optim defines them,
/// through the library's fused kernels. Two groups: weight decay applies to parameters with `decay`. *thread-compatible*
class Optimizer {
 public:
  /// Makes zero moments for every parameter, so that the inventory is complete before the first step.
  Optimizer(const OptimizerConfig& config, const std::vector<Parameter>& parameters);

  /// One update with gradients multiplied by `gradient_factor`; parameters without gradient stay as they are.
  void step(double learning_rate, double gradient_factor);

  /// Adds `exp_avg.<name>`, `exp_avg_sq.<name>` and `step`, or `momentum.<name>`.
  void add_state(StateInventory& inventory) const;

 private:
  struct Group {
    double weight_decay = 0.0;
    std::vector<std::size_t> members;
  };
  void step_group(const Group& group, double learning_rate, const at::Tensor& gradient_scale);

  OptimizerConfig config_;
  std::vector<Parameter> parameters_;
  std::vector<Group> groups_;
  std::vector<at::Tensor> first_;   ///< exp_avg or momentum
  std::vector<at::Tensor> second_;  ///< exp_avg_sq
  at::Tensor step_;                 ///< updates done, f32 []: shared by all parameters
};

/// Global 2-norm of the gradients the norms of the tensors summed up in double; parameters without gradient count as zero.
double gradient_norm(const std::vector<Parameter>& parameters);
/// Drops the gradients, so that the next backward pass stores instead of adding.
void clear_gradients(const std::vector<Parameter>& parameters);
/// What gradients of norm `norm` are multiplied with so that their norm is at most `limit` (torch.nn.utils.clip_grad_norm_: limit
/// / (norm + 1e-6)).
double clip_factor(double norm, double limit);

}  // namespace parascale::native
