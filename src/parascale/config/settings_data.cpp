#include "parascale/config/settings_table.h"

namespace parascale::config {

namespace {

constexpr const char* kOtherWorkloads = "it belongs to a workload that is not built yet";
constexpr const char* kBilinearOnly = "only `bilinear` is built";

Setting later(std::string name, std::string doc) {
  return {
      .path = "data." + name, .shape = Shape::any, .doc = std::move(doc), .status = Status::not_built, .why = kOtherWorkloads};
}

}  // namespace

std::vector<Setting> data_settings() {
  return {
      {.path = "data.type",
       .member = PS_MEMBER(data.type),
       .fallback = "wds",
       .choices = {{"wds", {"webdataset", "datacomp_wds"}},
                   {"synthetic"},
                   {"tensor_random"},
                   {"clip_synthetic"},
                   {"datacomp_metadata", {"metadata_parquet"}},
                   {"objects365_yolo_cache"},
                   {"coco"},
                   {"phrase_grounding", {"grounding_phrase", "ground_dino_json"}}},
       .doc = "`wds`: WebDataset tar shards; `synthetic`: pictures made up from the seed",
       .noun = "data type"},
      {.path = "data.train",
       .member = PS_MEMBER(data.train),
       .fallback = Json::array(),
       .doc = "Shards to train on: one path or pattern, or a list; relative to the working directory"},
      {.path = "data.validation",
       .member = PS_MEMBER(data.validation),
       .fallback = Json::array(),
       .doc = "Shards to evaluate on: one path or pattern, or a list"},
      {.path = "data.recipe.resize",
       .member = PS_MEMBER(data.recipe.resize),
       .fallback = "bilinear",
       .choices = {{"bilinear"}, {"bicubic", {}, kBilinearOnly}, {"nearest", {}, kBilinearOnly}, {"lanczos", {}, kBilinearOnly}},
       .doc = "Filter that brings a picture to the model's size"},
      {.path = "data.recipe.size",
       .member = PS_MEMBER(data.recipe.size),
       .fallback = 0,
       .bounds = between(0, 1 << 14),
       .doc = "Height and width after the resize; 0 = `model.image_size`"},
      {.path = "data.recipe.mean",
       .member = PS_MEMBER(data.recipe.mean),
       .fallback = Json::array({0.5}),
       .doc = "Subtracted from pixels in 0..1: one value, or one per channel"},
      {.path = "data.recipe.std",
       .member = PS_MEMBER(data.recipe.std),
       .fallback = Json::array({0.5}),
       .bounds = above(0),
       .doc = "Pixels are divided by it after the mean: one value, or one per channel"},
      {.path = "data.augment.affine.degrees",
       .member = PS_MEMBER(data.affine.degrees),
       .fallback = 0.0,
       .bounds = between(0, 180),
       .doc = "Training pictures are rotated by up to this angle either way"},
      {.path = "data.augment.affine.scale",
       .member = PS_MEMBER(data.affine.scale),
       .fallback = Json::array({1.0, 1.0}),
       .bounds = above(0),
       .doc = "Range of random zoom"},
      {.path = "data.augment.affine.translate",
       .member = PS_MEMBER(data.affine.translate),
       .fallback = 0.0,
       .bounds = between(0, 1),
       .doc = "Largest random shift, as a share of the size"},
      {.path = "data.max_failure_rate",
       .member = PS_MEMBER(data.max_failure_rate),
       .fallback = 0.05,
       .bounds = between(0, 1),
       .doc = "Share of unreadable samples that ends the run"},
      {.path = "data.num_samples",
       .member = PS_MEMBER(data.synthetic_samples),
       .fallback = 4096,
       .bounds = at_least(1),
       .doc = "Number of samples of type `synthetic`"},
      later("data_dir", "Directory of shards"),
      later("wds_dir", "Directory of shards"),
      later("path", "Directory of a detection data set"),
      later("metadata_path", "Parquet file with captions"),
      later("streaming", "Read shards as a stream"),
      later("wds_image_mode", "`tensor` or `bytes`"),
      later("dataset_local_cache_dir", "Local copies of remote shards"),
      later("input_dim", "Width of random input"),
      later("output_dim", "Width of random output"),
      later("text_length", "Tokens per text"),
      {.path = "data.sequence_length",
       .shape = Shape::any,
       .doc = "Was never read",
       .status = Status::dead,
       .why = "nothing ever read it"},
  };
}

}  // namespace parascale::config
