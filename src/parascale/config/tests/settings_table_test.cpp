#include "parascale/config/settings_table.h"

#include <algorithm>

#include "parascale/base/text.h"
#include "parascale/config/load_config.h"
#include "parascale/config/read_value.h"
#include "tests/support/matchers.h"

namespace parascale::config {
namespace {

using testing::is_error;
using testing::is_ok;

TEST(SettingsTableTest, EveryDefaultIsAValidValueOfItsSetting) {
  for (const Setting& setting : settings_table().settings()) {
    const SourceText source("default", setting.fallback.dump());
    const auto parsed = parse_marked(source);
    ASSERT_TRUE(parsed.root) << setting.path;
    const auto read = read_value(setting, *parsed.root, source, {.line = 1, .column = 1});
    ASSERT_TRUE(read.value) << setting.path << (read.errors.empty() ? "" : render(read.errors[0]));
    EXPECT_EQ(*read.value, setting.fallback) << setting.path;
  }
}

TEST(SettingsTableTest, EveryRowIsComplete) {
  for (const Setting& setting : settings_table().settings()) {
    EXPECT_FALSE(setting.doc.empty()) << setting.path;
    EXPECT_FALSE(setting.doc.ends_with('.')) << setting.path;
    EXPECT_EQ(setting.status == Status::used, setting.member.read != nullptr) << setting.path;
    EXPECT_EQ(setting.status == Status::used, setting.why.empty()) << setting.path;
    EXPECT_EQ(setting.shape == Shape::choice, !setting.choices.empty()) << setting.path;
    for (const std::string& alias : setting.aliases) {
      EXPECT_EQ(settings_table().find(alias), settings_table().find(setting.path)) << alias;
    }
  }
}

TEST(SettingsTableTest, EveryMemberBelongsToOneSetting) {
  // Writing one setting changes what exactly that setting reads.
  const auto& settings = settings_table().settings();
  for (const Setting& written : settings) {
    if (written.member.write == nullptr) {
      continue;
    }
    ResolvedConfig config;
    ResolvedConfig before = config;
    Json other = written.shape == Shape::boolean   ? Json(!written.member.read(config).to_bool().value_or(false))
                 : written.shape == Shape::integer ? Json(777'777)
                 : written.shape == Shape::number  ? Json(0.765)
                 : written.shape == Shape::numbers || written.shape == Shape::number_pair ? Json::array({0.25, 0.75})
                 : written.shape == Shape::texts                                          ? Json::array({"x"})
                                                                                          : Json("some text");
    written.member.write(config, other);
    for (const Setting& read : settings) {
      if (read.member.read != nullptr) {
        EXPECT_EQ(read.member.read(config), read.path == written.path ? other : read.member.read(before))
            << written.path << " / " << read.path;
      }
    }
  }
}

TEST(SettingsTableTest, KnowsEveryFieldOfTheOriginal) {
  const char* flat[] = {"task_type",
                        "model_family",
                        "target_scale",
                        "optimize_for",
                        "data_parallel_size",
                        "model_parallel_size",
                        "tensor_parallel_size",
                        "tensor_parallel_mode",
                        "pipeline_parallel_size",
                        "pipeline_parallel_chunks",
                        "max_tensor_parallel_size",
                        "max_pipeline_parallel_size",
                        "training_backend",
                        "zero_optimization",
                        "zero_stage",
                        "zero_offload",
                        "fsdp_sharding_strategy",
                        "fsdp_cpu_offload",
                        "fsdp_auto_wrap",
                        "fsdp_min_num_params",
                        "fsdp_state_dict_type",
                        "fsdp_use_orig_params",
                        "fsdp_activation_checkpointing_policy",
                        "fsdp_checkpoint_module_classes",
                        "ddp_find_unused_parameters",
                        "ddp_gradient_as_bucket_view",
                        "ddp_static_graph",
                        "ddp_comm_hook",
                        "ddp_bucket_cap_mb",
                        "deepspeed_config",
                        "batching_strategy",
                        "max_tokens_per_batch",
                        "max_patch_tokens_per_batch",
                        "resolution_buckets",
                        "dataloader_num_workers",
                        "dataloader_pin_memory",
                        "dataloader_prefetch_factor",
                        "dataloader_persistent_workers",
                        "dataloader_drop_last",
                        "dataset_local_cache_dir",
                        "tensor_cache",
                        "tensor_cache_dir",
                        "device_prefetch",
                        "prefetch_device",
                        "cuda_prefetch",
                        "cuda_prefetch_device",
                        "tuner_dataloader_wait_threshold_ms",
                        "preprocess_in_workers",
                        "pipeline_cache",
                        "pipeline_cache_dir",
                        "pipeline_cache_max_entries",
                        "pipeline_cache_max_bytes",
                        "pipeline_cache_ttl_seconds",
                        "prompt_template_cache",
                        "prompt_template_cache_dir",
                        "strategy_memory_margin",
                        "enable_activation_checkpointing",
                        "batch_size",
                        "gradient_accumulation_steps",
                        "learning_rate",
                        "precision",
                        "grad_clip_norm",
                        "log_interval",
                        "label_keys",
                        "seed",
                        "checkpoint_save_path",
                        "checkpoint_save_interval",
                        "adapter_only_checkpoint",
                        "allow_world_size_change_on_resume"};
  for (const char* field : flat) {
    EXPECT_TRUE(settings_table().find(std::string("parascale.") + field)) << field;
  }
  const char* top[] = {"schema_version",
                       "task",
                       "lora",
                       "model_profile",
                       "hardware_profile",
                       "cluster",
                       "launch",
                       "serving",
                       "inference",
                       "runtime_profile",
                       "benchmark_profile",
                       "benchmark_result_path",
                       "benchmark_profile_path",
                       "deepspeed_config",
                       "_resolution",
                       "distributed.nnodes",
                       "distributed.nproc_per_node",
                       "distributed.master_addr",
                       "distributed.master_port",
                       "runtime.local_rank",
                       "runtime.communication_backend",
                       "optimizer.lr",
                       "optimizer.group_size",
                       "optimizer.compensate_quant_error",
                       "optimizer.error_compensation_dtype",
                       "parascale.quantization.bits"};
  for (const char* path : top) {
    EXPECT_TRUE(settings_table().find(path)) << path;
  }
}

TEST(SettingsTableTest, DescribesEverySetting) {
  const Json rows = describe_settings();
  ASSERT_EQ(rows.items().size(), settings_table().settings().size());
  const auto row =
      std::ranges::find_if(rows.items(), [](const Json& r) { return *r.find("path") == Json("parascale.training.batch_size"); });
  ASSERT_NE(row, rows.items().end());
  EXPECT_EQ(
      row->dump(),
      R"({"path":"parascale.training.batch_size","type":"an integer","default":32,"nullable":false,"bounds":"at least 1 and at most 1048576",)"
      R"("choices":[],"doc":"Samples per rank and micro-step; the global batch is batch_size x accumulation x ranks",)"
      R"("aliases":["data.batch_size","training.batch_size","parascale.batch_size"],"status":"used","why":""})");
}

TEST(ResolvedConfigTest, SaysWhatTheMembersHold) {
  const auto outcome = load_config({.path = "configs/quickstart/digits_vit.yaml",
                                    .overrides = {"model.label_names=[a,b,c,d,e,f,g,h,i,'7']", "runtime.intra_op_threads=2"}});
  ASSERT_TRUE(outcome.config);
  const ResolvedConfig& config = *outcome.config;
  ASSERT_EQ(config.fields.size(), settings_table().settings().size());
  for (const Setting& setting : settings_table().settings()) {
    const ResolvedField* field = config.find(setting.path);
    ASSERT_NE(field, nullptr) << setting.path;
    ASSERT_FALSE(field->history.empty()) << setting.path;
    EXPECT_EQ(field->value, field->history.back().value) << setting.path;
    EXPECT_EQ(field->source, field->history.back().source) << setting.path;
    if (setting.member.read != nullptr) {
      EXPECT_EQ(setting.member.read(config), field->value) << setting.path;
    }
  }
}

TEST(ResolvedConfigTest, ReadsBackWhatItWrote) {
  const auto outcome = load_config({.path = "configs/quickstart/digits_vit.yaml", .overrides = {"training.lr=0.25"}});
  ASSERT_TRUE(outcome.config);
  const std::string text = outcome.config->to_json().dump_pretty();
  auto document = parse_json(text, "config.resolved.json");
  ASSERT_THAT(document, is_ok());
  auto again = resolved_config_from_json(*document);
  ASSERT_THAT(again, is_ok());
  EXPECT_EQ(again->to_json().dump_pretty(), text);
  for (const Setting& setting : settings_table().settings()) {
    if (setting.member.read != nullptr) {
      EXPECT_EQ(setting.member.read(*again), setting.member.read(*outcome.config)) << setting.path;
    }
  }
  (*document)["format_version"] = 2;
  EXPECT_THAT(resolved_config_from_json(*document), is_error(Code::artifact_version));
  EXPECT_THAT(resolved_config_from_json(Json::object()), is_error(Code::json_invalid));
}

}  // namespace
}  // namespace parascale::config
