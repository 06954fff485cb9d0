#pragma once

#include <cstdint>

#include "parascale/base/json.h"
#include "parascale/base/result.h"

namespace parascale::native {

/// Sizes of a ViT image classifier, with the names and defaults of a Hugging Face `config.json` of model type `vit`.
struct VitConfig {
  std::int64_t image_size = 224;
  std::int64_t patch_size = 16;
  std::int64_t num_channels = 3;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::int64_t num_labels = 2;
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;
  double hidden_dropout_prob = 0.0;
  double attention_probs_dropout_prob = 0.0;
  bool qkv_bias = true;

  std::int64_t grid() const { return image_size / patch_size; }
  std::int64_t tokens() const { return grid() * grid() + 1; }
  std::int64_t head_width() const { return hidden_size / num_attention_heads; }

  /// Reads the members it knows and ignores the rest; `num_labels` falls back to the size of `id2label`.
  /// Errors: plan_invalid for a size outside its bounds, sizes that do not divide, or an activation other than `gelu`.
  static Result<VitConfig> from_json(const Json& json);
};

}  // namespace parascale::native
