#include "parascale_torch/engine/trainer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <fmt/core.h>

#include <cmath>

#include "parascale_torch/engine/seed.h"

namespace parascale::native {

namespace {

Error nonfinite(std::string_view what, std::uint64_t step) {
  return Error(Code::nonfinite, fmt::format("the {} of step {} is not finite", what, step));
}

}  // namespace

Trainer::Trainer(const RankPlan& plan, std::uint64_t seed, std::uint64_t rank, PhaseChange on_phase, const Clock& clock)
    : plan_(plan), seed_(seed), rank_(rank), on_phase_(std::move(on_phase)), clock_(clock), model_(plan.model, seed) {
  for (const auto& parameter : model_.parameters()) {
    inventory_.add_parts(parameter, parameter.value, "", "param");
  }
  if (plan_.optimizer) {
    optimizer_.emplace(*plan_.optimizer, model_.parameters());
    optimizer_->add_state(inventory_);
  }
}

void Trainer::enter(protocol::Phase phase, std::uint32_t micro_step) { on_phase_(phase, order_ ? order_->step : 0, micro_step); }

Status Trainer::begin(const StepOrder& order) {
  if (order_) {
    return Error(Code::protocol_violation, fmt::format("step {} begins before step {} is finished", order.step, order_->step));
  }
  if (!optimizer_) {
    return Error(Code::protocol_violation, "a step begins, but the plan has no optimizer");
  }
  if (!(order.planned_denominator > 0.0) || !std::isfinite(order.planned_denominator) || !std::isfinite(order.learning_rate)) {
    return Error(Code::protocol_violation, fmt::format("step {} has learning rate {} and denominator {}", order.step,
                                                       order.learning_rate, order.planned_denominator));
  }
  order_ = order;
  report_ = {};
  nonfinite_ = false;
  return {};
}

Status Trainer::micro_step(std::uint32_t micro_step, const Batch& batch) {
  if (!order_) {
    return Error(Code::protocol_violation, "a micro-step comes outside a step");
  }
  ++report_.micro_steps;
  if (batch.valid == 0) {
    return {};
  }
  reseed({.seed = seed_, .step = order_->step, .micro_step = micro_step, .rank = rank_});
  enter(protocol::Phase::forward, micro_step);
  const std::int64_t begun = clock_.monotonic_ns();
  const at::Tensor logits = model_.forward(batch.pixels, true);
  at::Tensor gradient = at::empty_like(logits);
  const auto sums =
      classification_sums(logits.detach(), batch.labels, plan_.label_smoothing, &gradient, order_->planned_denominator);
  const std::int64_t forward_done = clock_.monotonic_ns();
  report_.forward_ns += forward_done - begun;
  report_.loss_sum += sums.loss;
  report_.top1 += sums.top1;
  report_.samples += batch.valid;
  if (!std::isfinite(sums.loss)) {
    nonfinite_ = true;
    if (order_->nonfinite == StepOrder::Nonfinite::stop) {
      return nonfinite("loss", order_->step);
    }
  }
  enter(protocol::Phase::backward, micro_step);
  logits.backward(gradient);
  report_.backward_ns += clock_.monotonic_ns() - forward_done;
  return {};
}

std::vector<std::string> Trainer::without_gradient() const {
  std::vector<std::string> names;
  for (const auto& parameter : model_.parameters()) {
    if (!parameter.value.grad().defined()) {
      for (const auto& part : parameter.parts) {
        names.push_back(part.name);
      }
    }
  }
  return names;
}

Result<StepReport> Trainer::finish(double denominator) {
  if (!order_) {
    return Error(Code::protocol_violation, "a step ends that did not begin");
  }
  if (!(denominator >= 0.0) || !std::isfinite(denominator)) {
    return Error(Code::protocol_violation, fmt::format("step {} ends with denominator {}", order_->step, denominator));
  }
  enter(protocol::Phase::optimizer, 0);
  const std::int64_t begun = clock_.monotonic_ns();
  if (order_->audit) {
    report_.no_grad = without_gradient();
  }
  // One common factor, applied once before clipping; exactly 1 in the usual case. No sample at all leaves nothing to scale.
  const double factor = denominator > 0.0 ? order_->planned_denominator / denominator : 1.0;
  report_.grad_norm = gradient_norm(model_.parameters()) * factor;
  nonfinite_ = nonfinite_ || !std::isfinite(report_.grad_norm);
  if (nonfinite_ && order_->nonfinite == StepOrder::Nonfinite::stop) {
    return nonfinite("gradient norm", order_->step);
  }
  report_.skipped = nonfinite_;
  if (!nonfinite_ && report_.samples > 0) {
    const double clip = plan_.grad_clip_norm ? clip_factor(report_.grad_norm, *plan_.grad_clip_norm) : 1.0;
    optimizer_->step(order_->learning_rate, factor * clip);
  }
  clear_gradients(model_.parameters());
  report_.optimizer_ns += clock_.monotonic_ns() - begun;
  order_.reset();
  return report_;
}

at::Tensor Trainer::predict(const at::Tensor& pixels) const {
  const at::NoGradGuard no_grad;
  return model_.forward(pixels, false).contiguous();
}

}  // namespace parascale::native
