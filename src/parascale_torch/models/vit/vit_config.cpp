#include "parascale_torch/models/vit/vit_config.h"

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace parascale::native {

namespace {

constexpr std::int64_t kLargestSize = 1 << 20;

Status read_size(const Json& json, std::string_view key, std::int64_t& target) {
  PS_ASSIGN(target, json.get_or<std::int64_t>(key, target));
  if (target < 1 || target > kLargestSize) {
    return Error(Code::plan_invalid, fmt::format("model member `{}` is {}; it must lie in 1 to {}", key, target, kLargestSize));
  }
  return {};
}

Status read_probability(const Json& json, std::string_view key, double& target) {
  PS_ASSIGN(target, json.get_or<double>(key, target));
  if (!(target >= 0.0 && target < 1.0)) {
    return Error(Code::plan_invalid, fmt::format("model member `{}` is {}; it must lie in [0, 1)", key, target));
  }
  return {};
}

Status check_divisible(std::string_view whole_name, std::int64_t whole, std::string_view part_name, std::int64_t part) {
  if (whole % part != 0) {
    return Error(Code::plan_invalid,
                 fmt::format("model member `{}` = {} is not a multiple of `{}` = {}", whole_name, whole, part_name, part));
  }
  return {};
}

}  // namespace

Result<VitConfig> VitConfig::from_json(const Json& json) {
  if (!json.is_object()) {
    return Error(Code::plan_invalid, fmt::format("the model is {}, not an object", json.type_name()));
  }
  VitConfig config;
  if (const Json* labels = json.find("id2label"); labels != nullptr && labels->is_object()) {
    config.num_labels = static_cast<std::int64_t>(labels->members().size());
  }
  PS_TRY(read_size(json, "image_size", config.image_size));
  PS_TRY(read_size(json, "patch_size", config.patch_size));
  PS_TRY(read_size(json, "num_channels", config.num_channels));
  PS_TRY(read_size(json, "hidden_size", config.hidden_size));
  PS_TRY(read_size(json, "num_hidden_layers", config.num_hidden_layers));
  PS_TRY(read_size(json, "num_attention_heads", config.num_attention_heads));
  PS_TRY(read_size(json, "intermediate_size", config.intermediate_size));
  PS_TRY(read_size(json, "num_labels", config.num_labels));
  PS_TRY(read_probability(json, "hidden_dropout_prob", config.hidden_dropout_prob));
  PS_TRY(read_probability(json, "attention_probs_dropout_prob", config.attention_probs_dropout_prob));
  PS_ASSIGN(config.layer_norm_eps, json.get_or<double>("layer_norm_eps", config.layer_norm_eps));
  PS_ASSIGN(config.initializer_range, json.get_or<double>("initializer_range", config.initializer_range));
  PS_ASSIGN(config.qkv_bias, json.get_or<bool>("qkv_bias", config.qkv_bias));
  PS_ASSIGN(const auto activation, json.get_or<std::string>("hidden_act", "gelu"));
  if (activation != "gelu") {
    return Error(Code::plan_invalid, fmt::format("model member `hidden_act` is `{}`; built: `gelu`", activation));
  }
  PS_TRY(check_divisible("image_size", config.image_size, "patch_size", config.patch_size));
  PS_TRY(check_divisible("hidden_size", config.hidden_size, "num_attention_heads", config.num_attention_heads));
  return config;
}

}  // namespace parascale::native
