#include "parascale_torch/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace parascale::native {

namespace {

using at::Tensor;

Status check_range(std::string_view name, double value, double low, double high) {
  if (!(value >= low && value <= high)) {
    return Error(Code::plan_invalid, fmt::format("optimizer member `{}` is {}; it must lie in {} to {}", name, value, low, high));
  }
  return {};
}

}  // namespace

Result<OptimizerConfig> OptimizerConfig::from_json(const Json& json) {
  OptimizerConfig config;
  PS_ASSIGN(const auto type, json.get<std::string>("type"));
  if (type == "adamw") {
    config.type = Type::adamw;
  } else if (type == "sgd") {
    config.type = Type::sgd;
  } else {
    return Error(Code::plan_invalid, fmt::format("unknown optimizer `{}`; built: adamw, sgd", type));
  }
  if (const Json* betas = json.find("betas"); betas != nullptr && !betas->is_null()) {
    const auto& items = betas->items();
    if (items.size() != 2 || !items[0].to_double() || !items[1].to_double()) {
      return Error(Code::plan_invalid, "optimizer member `betas` is not a pair of numbers");
    }
    config.beta1 = *items[0].to_double();
    config.beta2 = *items[1].to_double();
  }
  PS_ASSIGN(config.eps, json.get_or<double>("eps", config.eps));
  PS_ASSIGN(config.weight_decay, json.get_or<double>("weight_decay", config.weight_decay));
  PS_ASSIGN(config.momentum, json.get_or<double>("momentum", config.momentum));
  PS_ASSIGN(config.nesterov, json.get_or<bool>("nesterov", config.nesterov));
  PS_TRY(check_range("betas", config.beta1, 0.0, 1.0));
  PS_TRY(check_range("betas", config.beta2, 0.0, 1.0));
  PS_TRY(check_range("eps", config.eps, 0.0, 1.0));
  PS_TRY(check_range("weight_decay", config.weight_decay, 0.0, 1e3));
  PS_TRY(check_range("momentum", config.momentum, 0.0, 1.0));
  if (config.nesterov && config.momentum == 0.0) {
    return Error(Code::plan_invalid, "optimizer member `nesterov` needs a `momentum`");
  }
  return config;
}

Optimizer::Optimizer(const OptimizerConfig& config, const std::vector<Parameter>& parameters)
    : config_(config), parameters_(parameters) {
  const at::NoGradGuard no_grad;
  groups_ = {{.weight_decay = config.weight_decay, .members = {}}, {.weight_decay = 0.0, .members = {}}};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    groups_[parameters_[i].decay ? 0 : 1].members.push_back(i);
    if (config_.type == OptimizerConfig::Type::adamw) {
      first_.push_back(at::zeros_like(parameters_[i].value).detach());
      second_.push_back(at::zeros_like(parameters_[i].value).detach());
    } else if (config_.momentum > 0.0) {
      first_.push_back(at::zeros_like(parameters_[i].value).detach());
    }
  }
  step_ = at::zeros({}, at::TensorOptions(at::kFloat));
}

void Optimizer::step(double learning_rate, double gradient_factor) {
  const at::NoGradGuard no_grad;
  step_.add_(1);
  // The fused kernels divide by the scale while they read the gradient: clipping costs no pass of its own.
  const Tensor scale = gradient_factor == 1.0 ? Tensor() : at::full({}, 1.0 / gradient_factor, at::TensorOptions(at::kFloat));
  for (const auto& group : groups_) {
    step_group(group, learning_rate, scale);
  }
}

void Optimizer::step_group(const Group& group, double learning_rate, const Tensor& gradient_scale) {
  std::vector<Tensor> values;
  std::vector<Tensor> gradients;
  std::vector<Tensor> first;
  std::vector<Tensor> second;
  for (const std::size_t i : group.members) {
    const Tensor& value = parameters_[i].value;
    if (!value.grad().defined()) {
      continue;
    }
    values.push_back(value);
    gradients.push_back(value.grad());
    if (!first_.empty()) {
      first.push_back(first_[i]);
    }
    if (!second_.empty()) {
      second.push_back(second_[i]);
    }
  }
  if (values.empty()) {
    return;
  }
  const std::optional<Tensor> scale = gradient_scale.defined() ? std::optional(gradient_scale) : std::nullopt;
  if (config_.type == OptimizerConfig::Type::adamw) {
    const std::vector<Tensor> steps(values.size(), step_);
    at::_fused_adamw_(values, gradients, first, second, {}, steps, learning_rate, config_.beta1, config_.beta2,
                      group.weight_decay, config_.eps, false, false, scale);
  } else {
    // Zero buffers and no dampening: the first step needs no case of its own.
    at::_fused_sgd_(values, gradients, first, group.weight_decay, config_.momentum, learning_rate, 0.0, config_.nesterov, false,
                    false, scale);
  }
}

void Optimizer::add_state(StateInventory& inventory) const {
  const bool adamw = config_.type == OptimizerConfig::Type::adamw;
  for (std::size_t i = 0; i < first_.size(); ++i) {
    inventory.add_parts(parameters_[i], first_[i], adamw ? "exp_avg." : "momentum.", "moment");
  }
  for (std::size_t i = 0; i < second_.size(); ++i) {
    inventory.add_parts(parameters_[i], second_[i], "exp_avg_sq.", "moment");
  }
  if (adamw) {
    inventory.add({.name = "step", .kind = "moment", .value = step_, .trainable = false, .group = {}});
  }
}

double gradient_norm(const std::vector<Parameter>& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<Tensor> gradients;
  for (const auto& parameter : parameters) {
    if (parameter.value.grad().defined()) {
      gradients.push_back(parameter.value.grad());
    }
  }
  double sum = 0.0;
  for (const Tensor& norm : gradients.empty() ? std::vector<Tensor>() : at::_foreach_norm(gradients, 2)) {
    const double value = norm.item<double>();
    sum += value * value;
  }
  return std::sqrt(sum);
}

void clear_gradients(const std::vector<Parameter>& parameters) {
  for (const auto& parameter : parameters) {
    parameter.value.mutable_grad() = Tensor();
  }
}

double clip_factor(double norm, double limit) { return std::min(1.0, limit / (norm + 1e-6)); }

}  // namespace parascale::native
