#include "parascale_torch/models/vit/vit_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include <cmath>
#include <numbers>
#include <utility>

namespace parascale::native {

namespace {

using at::Tensor;

/// Draws of a normal distribution cut at -2 and 2 (absolute, as torch.nn.init.trunc_normal_ does), by the inverse of the
/// distribution function.
class Initializer {
 public:
  Initializer(std::uint64_t seed, double deviation, at::ScalarType dtype)
      : generator_(at::make_generator<at::CPUGeneratorImpl>(seed)), deviation_(deviation), options_(at::TensorOptions(dtype)) {}

  Tensor normal(at::IntArrayRef shape) {
    const auto cdf = [](double x) { return (1.0 + std::erf(x / std::numbers::sqrt2)) / 2.0; };
    const double low = cdf(-2.0 / deviation_);
    const double high = cdf(2.0 / deviation_);
    // Drawn in double, so that the float and the double model of one seed agree.
    Tensor value = at::empty(shape, at::TensorOptions(at::kDouble)).uniform_(2 * low - 1, 2 * high - 1, generator_);
    return value.erfinv_().mul_(deviation_ * std::numbers::sqrt2).clamp_(-2.0, 2.0).to(options_.dtype());
  }
  Tensor zeros(at::IntArrayRef shape) const { return at::zeros(shape, options_); }
  Tensor ones(at::IntArrayRef shape) const { return at::ones(shape, options_); }

 private:
  at::Generator generator_;
  double deviation_;
  at::TensorOptions options_;
};

}  // namespace

Tensor VitModel::add(const std::string& name, Tensor value, bool decay) {
  value.set_requires_grad(true);
  parameters_.push_back(
      {.name = name, .value = value, .decay = decay, .parts = {{.name = name, .row = 0, .rows = value.size(0)}}});
  return value;
}

VitModel::VitModel(const VitConfig& config, std::uint64_t seed, at::ScalarType dtype) : config_(config) {
  const at::NoGradGuard no_grad;
  Initializer init(seed, config.initializer_range, dtype);
  const std::int64_t width = config.hidden_size;
  class_token_ = add("vit.embeddings.cls_token", init.normal({1, 1, width}), false);
  positions_ = add("vit.embeddings.position_embeddings", init.normal({1, config.tokens(), width}), false);
  patch_weight_ = add("vit.embeddings.patch_embeddings.projection.weight",
                      init.normal({width, config.num_channels, config.patch_size, config.patch_size}), true);
  patch_bias_ = add("vit.embeddings.patch_embeddings.projection.bias", init.zeros({width}), false);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string layer = fmt::format("vit.encoder.layer.{}.", i);
    const auto split = [&](const char* kind) {
      Parameter& joint = parameters_.back();
      joint.parts.clear();
      std::int64_t row = 0;
      for (const char* part : {"query", "key", "value"}) {
        joint.parts.push_back({.name = fmt::format("{}attention.attention.{}.{}", layer, part, kind), .row = row, .rows = width});
        row += width;
      }
    };
    BlockParameters block;
    block.norm1_weight = add(layer + "layernorm_before.weight", init.ones({width}), false);
    block.norm1_bias = add(layer + "layernorm_before.bias", init.zeros({width}), false);
    block.qkv_weight = add(layer + "attention.attention.qkv.weight", init.normal({3 * width, width}), true);
    split("weight");
    if (config.qkv_bias) {
      block.qkv_bias = add(layer + "attention.attention.qkv.bias", init.zeros({3 * width}), false);
      split("bias");
    } else {
      block.qkv_bias = init.zeros({3 * width});
    }
    block.out_weight = add(layer + "attention.output.dense.weight", init.normal({width, width}), true);
    block.out_bias = add(layer + "attention.output.dense.bias", init.zeros({width}), false);
    block.norm2_weight = add(layer + "layernorm_after.weight", init.ones({width}), false);
    block.norm2_bias = add(layer + "layernorm_after.bias", init.zeros({width}), false);
    block.up_weight = add(layer + "intermediate.dense.weight", init.normal({config.intermediate_size, width}), true);
    block.up_bias = add(layer + "intermediate.dense.bias", init.zeros({config.intermediate_size}), false);
    block.down_weight = add(layer + "output.dense.weight", init.normal({width, config.intermediate_size}), true);
    block.down_bias = add(layer + "output.dense.bias", init.zeros({width}), false);
    blocks_.push_back(std::move(block));
  }
  norm_weight_ = add("vit.layernorm.weight", init.ones({width}), false);
  norm_bias_ = add("vit.layernorm.bias", init.zeros({width}), false);
  classifier_weight_ = add("classifier.weight", init.normal({config.num_labels, width}), true);
  classifier_bias_ = add("classifier.bias", init.zeros({config.num_labels}), false);
}

Tensor VitModel::forward(const Tensor& pixels, bool training) const {
  const std::int64_t batch = pixels.size(0);
  const std::int64_t width = config_.hidden_size;
  const std::int64_t patch = config_.patch_size;
  const std::int64_t side = config_.image_size / patch;
  // Patches do not overlap, so that their convolution is one matrix product over rearranged pixels.
  const Tensor patches = pixels.view({batch, config_.num_channels, side, patch, side, patch})
                             .permute({0, 2, 4, 1, 3, 5})
                             .reshape({batch, side * side, config_.num_channels * patch * patch});
  const Tensor embedded = at::linear(patches, patch_weight_.view({width, -1}), patch_bias_);
  Tensor tokens = at::cat({class_token_.expand({batch, 1, width}), embedded}, 1).add(positions_);
  if (training && config_.hidden_dropout_prob > 0.0) {
    tokens = at::dropout(tokens, config_.hidden_dropout_prob, true);
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    tokens = block(tokens, blocks_[i], i + 1 == blocks_.size() ? Tokens::first : Tokens::all, training);
  }
  const Tensor normed =
      at::layer_norm(tokens.select(1, 0), at::IntArrayRef(width), norm_weight_, norm_bias_, config_.layer_norm_eps);
  return at::linear(normed, classifier_weight_, classifier_bias_);
}

Tensor VitModel::block(const Tensor& tokens, const BlockParameters& p, Tokens wanted, bool training) const {
  const std::int64_t batch = tokens.size(0);
  const std::int64_t width = config_.hidden_size;
  const auto norm = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return at::layer_norm(x, at::IntArrayRef(width), weight, bias, config_.layer_norm_eps);
  };
  const auto drop = [&](const Tensor& x) {
    return training && config_.hidden_dropout_prob > 0.0 ? at::dropout(x, config_.hidden_dropout_prob, true) : x;
  };
  const Tensor qkv = at::linear(norm(tokens, p.norm1_weight, p.norm1_bias), p.qkv_weight, p.qkv_bias)
                         .view({batch, config_.tokens(), 3, config_.num_attention_heads, config_.head_width()})
                         .permute({2, 0, 3, 1, 4});
  const Tensor queries = wanted == Tokens::first ? qkv.select(0, 0).narrow(2, 0, 1) : qkv.select(0, 0);
  const Tensor attended = at::scaled_dot_product_attention(queries, qkv.select(0, 1), qkv.select(0, 2), {},
                                                           training ? config_.attention_probs_dropout_prob : 0.0)
                              .transpose(1, 2)
                              .reshape({batch, queries.size(2), width});
  const Tensor residual = wanted == Tokens::first ? tokens.narrow(1, 0, 1) : tokens;
  const Tensor middle = residual.add(drop(at::linear(attended, p.out_weight, p.out_bias)));
  const Tensor activated = at::gelu(at::linear(norm(middle, p.norm2_weight, p.norm2_bias), p.up_weight, p.up_bias));
  return middle.add(drop(at::linear(activated, p.down_weight, p.down_bias)));
}

}  // namespace parascale::native
