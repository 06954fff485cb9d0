#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "parascale_torch/models/parameter.h"
#include "parascale_torch/models/vit/vit_config.h"

namespace parascale::native {

/// The leaf parameters of one block. `qkv_weight` is [3 * width, width]: query, key, value.
struct BlockParameters {
  at::Tensor norm1_weight, norm1_bias;
  at::Tensor qkv_weight, qkv_bias;
  at::Tensor out_weight, out_bias;
  at::Tensor norm2_weight, norm2_bias;
  at::Tensor up_weight, up_bias;
  at::Tensor down_weight, down_bias;
};

/// Vision transformer with a linear classifier on the class token: the arithmetic of transformers' `ViTForImageClassification`
/// (pre-norm blocks, learned positions, exact GELU; Dosovitskiy et al. 2020), names of its saved files.
///
/// Query, key and value of a block are one leaf [3 * width, width] whose row ranges carry the three saved names. The class token
/// alone reaches the classifier, so the last block runs its queries and MLP, and the final norm, on that token only.
/// *thread-compatible*
class VitModel {
 public:
  /// Draws the start weights (truncated normal for matrices, positions and class token, zeros, ones) from a generator of its own.
  VitModel(const VitConfig& config, std::uint64_t seed, at::ScalarType dtype = at::kFloat);

  const VitConfig& config() const { return config_; }
  /// The leaves in a fixed order; `value` shares memory with the model.
  const std::vector<Parameter>& parameters() const { return parameters_; }

  /// pixels: [batch, num_channels, image_size, image_size], contiguous; returns logits [batch, num_labels].
  /// With `training`, dropout draws from the default generator.
  at::Tensor forward(const at::Tensor& pixels, bool training) const;

 private:
  at::Tensor add(const std::string& name, at::Tensor value, bool decay);
  enum class Tokens { all, first };
  /// One pre-norm block on tokens [batch, tokens, width]; with `first` only the class token's output, [batch, 1, width].
  at::Tensor block(const at::Tensor& tokens, const BlockParameters& p, Tokens wanted, bool training) const;

  VitConfig config_;
  std::vector<Parameter> parameters_;
  at::Tensor class_token_, positions_, patch_weight_, patch_bias_;
  std::vector<BlockParameters> blocks_;
  at::Tensor norm_weight_, norm_bias_;
  at::Tensor classifier_weight_, classifier_bias_;
};

}  // namespace parascale::native
