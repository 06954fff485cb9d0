#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parascale/base/clock.h"
#include "parascale/base/result.h"
#include "parascale/protocol/pulse.h"
#include "parascale_torch/engine/batch.h"
#include "parascale_torch/engine/classification.h"
#include "parascale_torch/engine/rank_plan.h"
#include "parascale_torch/models/vit/vit_model.h"
#include "parascale_torch/optim/optimizer.h"
#include "parascale_torch/state/inventory.h"

namespace parascale::native {

/// What `step` announces.
struct StepOrder {
  std::uint64_t step = 0;
  double learning_rate = 0.0;
  double planned_denominator = 1.0;  ///< of the term `loss`
  enum class Nonfinite : std::uint8_t { stop, skip };
  Nonfinite nonfinite = Nonfinite::stop;
  bool audit = false;
};

/// What a finished step reports.
struct StepReport {
  double loss_sum = 0.0;
  std::int64_t top1 = 0;
  std::int64_t samples = 0;
  double grad_norm = 0.0;
  bool skipped = false;
  std::int64_t forward_ns = 0;
  std::int64_t backward_ns = 0;
  std::int64_t optimizer_ns = 0;
  std::uint32_t micro_steps = 0;
  std::vector<std::string> no_grad;  ///< audit: trainable tensors without gradient, by saved name
};

/// Model, optimizer and the step in progress of one rank, on CPU.
///
/// Gradients accumulate with the planned denominator: k micro-steps of n samples give the gradient of one of k * n.
/// Errors: nonfinite when the policy says stop. *confined to one thread*
class Trainer {
 public:
  using PhaseChange = std::function<void(protocol::Phase phase, std::uint64_t step, std::uint32_t micro_step)>;

  Trainer(const RankPlan& plan, std::uint64_t seed, std::uint64_t rank, PhaseChange on_phase, const Clock& clock = real_clock());

  const RankPlan& plan() const { return plan_; }
  const VitModel& model() const { return model_; }
  const StateInventory& inventory() const { return inventory_; }
  /// The step in progress, if there is one.
  const std::optional<StepOrder>& order() const { return order_; }

  /// Errors: protocol_violation when a step is in progress, the plan has no optimizer, or the denominator is not positive.
  Status begin(const StepOrder& order);
  /// Forward and backward of one micro-step; drops nothing of the batch. Errors: nonfinite.
  Status micro_step(std::uint32_t micro_step, const Batch& batch);
  /// Clips and updates. `denominator` is the final one: gradients are scaled once when it differs from the planned. Errors:
  /// nonfinite.
  Result<StepReport> finish(double denominator);

  /// Logits of a batch: no gradients, no random numbers, no trace in the training state.
  at::Tensor predict(const at::Tensor& pixels) const;

 private:
  std::vector<std::string> without_gradient() const;
  void enter(protocol::Phase phase, std::uint32_t micro_step);

  RankPlan plan_;
  std::uint64_t seed_;
  std::uint64_t rank_;
  PhaseChange on_phase_;
  const Clock& clock_;
  VitModel model_;
  std::optional<Optimizer> optimizer_;
  StateInventory inventory_;
  std::optional<StepOrder> order_;
  StepReport report_;
  bool nonfinite_ = false;
};

}  // namespace parascale::native
