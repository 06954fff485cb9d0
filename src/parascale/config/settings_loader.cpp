#include "parascale/config/settings_table.h"

namespace parascale::config {

namespace {

constexpr const char* kBatching = "batches are built by sample count; budgets come with the workloads for text and image pairs";
constexpr const char* kRing = "the engine decodes into shared memory; `runtime.slots` says how far it reads ahead";
constexpr const char* kDeviceCopy = "copies to a device come with the back ends for accelerators";
constexpr const char* kCaches = "caches of processed samples come with the workloads for text and image pairs";
constexpr const char* kTuner = "the tuner is not built yet";

Setting later(std::string name, Shape shape, Json fallback, std::string doc, const char* why) {
  return {.path = "parascale.data." + name,
          .shape = shape,
          .fallback = std::move(fallback),
          .doc = std::move(doc),
          .status = Status::not_built,
          .why = why};
}

Setting later_number(std::string name, Shape shape, Json fallback, Bounds bounds, std::string doc, const char* why) {
  Setting setting = later(std::move(name), shape, std::move(fallback), std::move(doc), why);
  setting.bounds = bounds;
  return setting;
}

/// The original's two spellings of one switch.
Setting with_alias(Setting setting, std::vector<std::string> aliases) {
  setting.aliases = std::move(aliases);
  return setting;
}

}  // namespace

std::vector<Setting> loader_settings() {
  return {
      {.path = "parascale.data.dataloader_num_workers",
       .member = PS_MEMBER(loader.dataloader_num_workers),
       .bounds = between(0, 1024),
       .doc = "Decode threads of the data engine; unset = the planner decides, 0 = 1",
       .aliases = {"data.num_workers"}},
      {.path = "parascale.data.dataloader_drop_last",
       .member = PS_MEMBER(loader.dataloader_drop_last),
       .fallback = false,
       .doc = "Leave out the last, smaller batch of an epoch"},
      {.path = "parascale.data.batching_strategy",
       .shape = Shape::choice,
       .fallback = "sample",
       .choices = {{"sample"}, {"length_bucket"}, {"token_budget"}},
       .doc = "How samples are put into batches",
       .status = Status::not_built,
       .why = kBatching},
      later_number("max_tokens_per_batch", Shape::integer, Json(), at_least(1), "Token budget of a batch", kBatching),
      later_number("max_patch_tokens_per_batch", Shape::integer, Json(), at_least(1), "Patch budget of a batch", kBatching),
      {.path = "parascale.data.resolution_buckets",
       .shape = Shape::any,
       .fallback = Json::array(),
       .doc = "Picture sizes [height, width] that are batched together",
       .status = Status::dead,
       .why = "nothing ever read it; pictures are resized to `data.recipe.size`"},
      later("dataloader_pin_memory", Shape::boolean, true, "Page-lock batches for faster copies", kDeviceCopy),
      with_alias(
          later_number("dataloader_prefetch_factor", Shape::integer, 2, at_least(1), "Batches read ahead per worker", kRing),
          {"data.prefetch_factor"}),
      with_alias(later("dataloader_persistent_workers", Shape::boolean, true, "Keep decode workers between epochs", kRing),
                 {"data.persistent_workers"}),
      later("dataset_local_cache_dir", Shape::text, Json(), "Local copies of remote shards", kCaches),
      later("tensor_cache", Shape::boolean, false, "Keep decoded pictures on disk", kCaches),
      later("tensor_cache_dir", Shape::text, Json(), "Where decoded pictures are kept", kCaches),
      with_alias(later("device_prefetch", Shape::boolean, false, "Copy the next batch while a step runs", kDeviceCopy),
                 {"parascale.data.cuda_prefetch", "parascale.cuda_prefetch"}),
      with_alias(later("prefetch_device", Shape::text, Json(), "Device the next batch is copied to", kDeviceCopy),
                 {"parascale.data.cuda_prefetch_device", "parascale.cuda_prefetch_device"}),
      later_number("tuner_dataloader_wait_threshold_ms", Shape::number, 20.0, at_least(0),
                   "Wait for data that the tuner tolerates", kTuner),
      later("preprocess_in_workers", Shape::boolean, false, "Run the processor in decode workers", kCaches),
      later("pipeline_cache", Shape::boolean, false, "Keep processed samples", kCaches),
      later("pipeline_cache_dir", Shape::text, Json(), "Where processed samples are kept", kCaches),
      later_number("pipeline_cache_max_entries", Shape::integer, 4096, at_least(1), "Most entries of the cache", kCaches),
      later_number("pipeline_cache_max_bytes", Shape::integer, 20'000'000'000, at_least(1), "Most bytes of the cache", kCaches),
      later_number("pipeline_cache_ttl_seconds", Shape::number, 0.0, at_least(0), "Age at which entries expire; 0 = never",
                   kCaches),
      later("prompt_template_cache", Shape::boolean, false, "Keep rendered prompts", kCaches),
      later("prompt_template_cache_dir", Shape::text, Json(), "Where rendered prompts are kept", kCaches),
  };
}

}  // namespace parascale::config
