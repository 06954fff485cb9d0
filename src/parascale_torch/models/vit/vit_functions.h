#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace parascale::native {

/// Shape of the work of one encoder block.
struct BlockShape {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  double epsilon = 0.0;
  /// Only the first token's output is wanted (the last block of a classifier): queries, output projection and MLP run on that
  /// token alone.
  bool first_token_only = false;
};

/// The leaf parameters of one block. `qkv_weight` is [3 * width, width]: query, key, value.
struct BlockParameters {
  at::Tensor norm1_weight, norm1_bias;
  at::Tensor qkv_weight, qkv_bias;
  at::Tensor out_weight, out_bias;
  at::Tensor norm2_weight, norm2_bias;
  at::Tensor up_weight, up_bias;
  at::Tensor down_weight, down_bias;
};

/// Patch embedding, class token and positions as one differentiable step.
///
/// pixels [batch, channels, size, size]; weight [width, channels, patch, patch]; bias [width]; class_token [1, 1, width];
/// positions [1, tokens, width]. Returns [batch * tokens, width]. There is no gradient for the pixels.
at::Tensor embed_patches(const at::Tensor& pixels, const at::Tensor& weight, const at::Tensor& bias,
                         const at::Tensor& class_token, const at::Tensor& positions);

/// One pre-norm encoder block (attention, MLP with exact GELU, both residuals) as one node of the graph with its backward pass
/// written out.
///
/// tokens [batch * tokens, width]; returns the same shape, or [batch, width] with `first_token_only`. float or double, CPU,
/// contiguous. Deterministic for any number of threads as far as the matrix products are.
at::Tensor encoder_block(const at::Tensor& tokens, const BlockParameters& parameters, const BlockShape& shape);

}  // namespace parascale::native
