#include "parascale/config/settings_table.h"

namespace parascale::config {

namespace {

constexpr const char* kFsdp = "it comes with the back end `fsdp`";
constexpr const char* kDdp = "it comes with the back end `native_ddp`";
constexpr const char* kZero = "it comes with the back end `deepspeed`";

/// A setting that belongs to one back end: refused by the config unless that back end is asked for; then the planner has the
/// word.
Setting of_backend(std::string name, Shape shape, Json fallback, std::string doc, const char* why) {
  const std::string backend = why == kFsdp ? "fsdp" : why == kDdp ? "native_ddp" : "deepspeed";
  return {.path = "parascale.backend." + name,
          .shape = shape,
          .fallback = std::move(fallback),
          .doc = std::move(doc),
          .status = Status::not_built,
          .why = why,
          .fine_with_backends = {backend}};
}

Setting with_choices(Setting setting, std::vector<Choice> choices) {
  setting.choices = std::move(choices);
  return setting;
}

Setting with_bounds(Setting setting, Bounds bounds) {
  setting.bounds = bounds;
  return setting;
}

}  // namespace

std::vector<Setting> backend_settings() {
  return {
      {.path = "parascale.backend.training_backend",
       .member = PS_MEMBER(backend.training_backend),
       .fallback = "native",
       .choices = {{"native"}, {"native_ddp"}, {"fsdp"}, {"deepspeed"}, {"ascend_native"}, {"auto"}},
       .doc = "Back end that trains; `auto` leaves it to the planner",
       .noun = "backend"},
      of_backend("zero_optimization", Shape::boolean, false, "Shard optimizer state", kZero),
      with_bounds(of_backend("zero_stage", Shape::integer, 0, "ZeRO stage", kZero), between(0, 3)),
      of_backend("zero_offload", Shape::boolean, false, "Keep optimizer state in host memory", kZero),
      with_choices(of_backend("fsdp_sharding_strategy", Shape::choice, "full_shard", "What FSDP shards", kFsdp),
                   {{"full_shard"}, {"shard_grad_op"}, {"no_shard"}, {"hybrid_shard"}}),
      of_backend("fsdp_cpu_offload", Shape::boolean, false, "Keep parameters in host memory", kFsdp),
      of_backend("fsdp_auto_wrap", Shape::boolean, false, "Wrap modules by size", kFsdp),
      with_bounds(of_backend("fsdp_min_num_params", Shape::integer, 100'000'000, "Smallest module that is wrapped", kFsdp),
                  at_least(1)),
      with_choices(of_backend("fsdp_state_dict_type", Shape::choice, "full", "Form of saved state", kFsdp),
                   {{"full"}, {"sharded"}, {"local"}}),
      of_backend("fsdp_use_orig_params", Shape::boolean, true, "Keep the original parameters visible", kFsdp),
      with_choices(
          of_backend("fsdp_activation_checkpointing_policy", Shape::choice, "transformer_auto", "Which modules recompute", kFsdp),
          {{"none"}, {"transformer_auto"}, {"size_based"}}),
      of_backend("fsdp_checkpoint_module_classes", Shape::texts, Json::array(), "Classes that recompute", kFsdp),
      of_backend("ddp_find_unused_parameters", Shape::boolean, false, "Allow parameters without gradient", kDdp),
      of_backend("ddp_gradient_as_bucket_view", Shape::boolean, true, "Gradients live in the buckets", kDdp),
      of_backend("ddp_static_graph", Shape::boolean, false, "The graph is the same in every step", kDdp),
      with_choices(of_backend("ddp_comm_hook", Shape::choice, "auto", "Compression of gradients on the wire", kDdp),
                   {{"auto"}, {"none"}, {"fp16_compress"}, {"bf16_compress"}}),
      with_bounds(of_backend("ddp_bucket_cap_mb", Shape::integer, Json(), "Size of a gradient bucket", kDdp), at_least(1)),
      {.path = "parascale.backend.deepspeed_config",
       .shape = Shape::mapping,
       .doc = "DeepSpeed's own configuration, passed on as it is",
       .aliases = {"deepspeed_config"},
       .status = Status::dead,
       .why = "only the back end `deepspeed` reads it",
       .fine_with_backends = {"deepspeed"}},
  };
}

}  // namespace parascale::config
