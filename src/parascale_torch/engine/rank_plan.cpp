#include "parascale_torch/engine/rank_plan.h"

#include <fmt/core.h>

namespace parascale::native {

namespace {

Status read_training(const Json& training, RankPlan& plan) {
  PS_ASSIGN(plan.label_smoothing, training.get_or<double>("label_smoothing", 0.0));
  if (!(plan.label_smoothing >= 0.0 && plan.label_smoothing <= 1.0)) {
    return Error(Code::plan_invalid, fmt::format("label smoothing is {}; it must lie in 0 to 1", plan.label_smoothing));
  }
  if (const Json* limit = training.find("grad_clip_norm"); limit != nullptr && !limit->is_null()) {
    PS_ASSIGN(const double norm, training.get<double>("grad_clip_norm"));
    if (!(norm >= 0.0)) {
      return Error(Code::plan_invalid, fmt::format("the gradient norm limit is {}; it must not be negative", norm));
    }
    if (norm > 0.0) {
      plan.grad_clip_norm = norm;
    }
  }
  return {};
}

}  // namespace

Result<RankPlan> RankPlan::from_json(const Json& json) {
  RankPlan plan;
  const Json* model = json.find("model");
  if (model == nullptr) {
    return Error(Code::plan_invalid, "the plan has no `model`");
  }
  PS_ASSIGN(const auto model_type, model->get_or<std::string>("model_type", "vit"));
  if (model_type != "vit") {
    return Error(Code::plan_invalid, fmt::format("unknown model type `{}`; built: vit", model_type));
  }
  PS_ASSIGN(plan.model, VitConfig::from_json(*model));
  if (const Json* optimizer = json.find("optimizer"); optimizer != nullptr && !optimizer->is_null()) {
    PS_ASSIGN(const auto type, optimizer->get<std::string>("type"));
    if (type != "none") {  // a plan of mode infer updates nothing
      PS_ASSIGN(plan.optimizer, OptimizerConfig::from_json(*optimizer));
    }
  }
  if (const Json* training = json.find("training"); training != nullptr && training->is_object()) {
    PS_TRY(read_training(*training, plan));
  }
  if (const Json* threads = json.find("threads"); threads != nullptr && threads->is_object()) {
    PS_ASSIGN(plan.intra_op_threads, threads->get_or<std::int32_t>("intra_op", 1));
    if (plan.intra_op_threads < 1 || plan.intra_op_threads > 1024) {
      return Error(Code::plan_invalid, fmt::format("the plan gives a rank {} threads", plan.intra_op_threads));
    }
  }
  return plan;
}

}  // namespace parascale::native
