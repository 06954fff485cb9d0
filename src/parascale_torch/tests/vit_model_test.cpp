#include "parascale_torch/models/vit/vit_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>

#include "parascale_torch/optim/optimizer.h"
#include "tests/support/matchers.h"

namespace parascale::native {
namespace {

using at::Tensor;
using parascale::testing::is_error;
using parascale::testing::is_ok;

/// Odd sizes on purpose.
VitConfig tiny() {
  VitConfig config;
  config.image_size = 6;
  config.patch_size = 3;
  config.num_channels = 2;
  config.hidden_size = 10;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 21;
  config.num_labels = 3;
  config.initializer_range = 0.4;  // large enough that every path carries gradient
  return config;
}

Tensor random(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::empty(shape, at::TensorOptions(at::kDouble)).normal_(0, 1, generator).to(dtype);
}

Tensor pixels_for(const VitConfig& config, std::int64_t batch, at::ScalarType dtype = at::kFloat) {
  return random({batch, config.num_channels, config.image_size, config.image_size}, dtype, 3);
}

void randomise(const VitModel& model) {
  const at::NoGradGuard no_grad;
  std::uint64_t seed = 100;
  for (const auto& parameter : model.parameters()) {
    parameter.value.add_(random(parameter.value.sizes(), parameter.value.scalar_type(), ++seed).mul_(0.2));
  }
}

std::vector<Tensor> gradients(const VitModel& model, const Tensor& pixels, const Tensor& weight) {
  clear_gradients(model.parameters());
  model.forward(pixels, true).backward(weight);
  std::vector<Tensor> out;
  for (const auto& parameter : model.parameters()) {
    out.push_back(parameter.value.grad().clone());
  }
  clear_gradients(model.parameters());
  return out;
}

void expect_finite_differences(const VitConfig& config) {
  const VitModel model(config, 7, at::kDouble);
  randomise(model);
  const Tensor pixels = pixels_for(config, 3, at::kDouble);
  const Tensor weight = random({3, config.num_labels}, at::kDouble, 11);
  const auto analytic = gradients(model, pixels, weight);
  const at::NoGradGuard no_grad;
  const auto value = [&] { return model.forward(pixels, false).mul(weight).sum().item<double>(); };
  constexpr double kStep = 1e-5;
  for (std::size_t p = 0; p < analytic.size(); ++p) {
    const auto& parameter = model.parameters()[p];
    auto* values = parameter.value.mutable_data_ptr<double>();
    const auto* expected = analytic[p].const_data_ptr<double>();
    // Every 13th element of the larger ones: all rows and columns are met in a fraction of the time.
    for (std::int64_t i = 0; i < parameter.value.numel(); i += parameter.value.numel() > 40 ? 13 : 1) {
      const double kept = values[i];
      values[i] = kept + kStep;
      const double above = value();
      values[i] = kept - kStep;
      const double below = value();
      values[i] = kept;
      const double numeric = (above - below) / (2 * kStep);
      ASSERT_NEAR(numeric, expected[i], 1e-6 * std::max(1.0, std::abs(numeric))) << parameter.name << "[" << i << "]";
    }
  }
}

TEST(VitModel, gradients_equal_finite_differences) { expect_finite_differences(tiny()); }

TEST(VitModel, works_without_qkv_bias_and_with_one_layer) {
  VitConfig config = tiny();
  config.qkv_bias = false;
  config.num_hidden_layers = 1;
  expect_finite_differences(config);
  const VitModel model(config, 1);
  for (const auto& parameter : model.parameters()) {
    EXPECT_THAT(parameter.name, ::testing::Not(::testing::HasSubstr("qkv.bias")));
  }
}

TEST(VitModel, start_weights_follow_the_seed_and_the_initialisation_rules) {
  VitConfig config = tiny();
  config.hidden_size = 64;
  config.initializer_range = 0.02;
  const VitModel one(config, 42);
  const VitModel same(config, 42);
  const VitModel other(config, 43);
  for (std::size_t i = 0; i < one.parameters().size(); ++i) {
    EXPECT_TRUE(one.parameters()[i].value.equal(same.parameters()[i].value));
    const auto& parameter = one.parameters()[i];
    if (parameter.name.ends_with(".bias")) {
      EXPECT_EQ(parameter.value.abs().max().item<float>(), 0.0F) << parameter.name;
    } else if (parameter.name.find("norm") != std::string::npos) {
      EXPECT_EQ(parameter.value.min().item<float>(), 1.0F) << parameter.name;
    } else {
      EXPECT_FALSE(parameter.value.equal(other.parameters()[i].value)) << parameter.name;
      if (parameter.value.numel() > 2000) {
        EXPECT_NEAR(parameter.value.std().item<double>(), 0.02, 0.001) << parameter.name;
      }
    }
  }
}

TEST(VitModel, only_matrices_decay) {
  const VitModel model(tiny(), 1);
  for (const auto& parameter : model.parameters()) {
    const bool matrix = parameter.value.dim() != 1 && parameter.name.find("cls_token") == std::string::npos &&
                        parameter.name.find("position") == std::string::npos;
    EXPECT_EQ(parameter.decay, matrix) << parameter.name;
  }
}

TEST(VitModel, dropout_draws_from_the_default_generator_in_training_only) {
  VitConfig config = tiny();
  config.hidden_dropout_prob = 0.5;
  const VitModel model(config, 1);
  randomise(model);
  const at::NoGradGuard no_grad;
  const Tensor pixels = pixels_for(config, 4);
  const auto draw = [&](std::uint64_t seed) {
    at::Generator generator = at::globalContext().defaultGenerator(at::Device(at::kCPU));
    generator.set_current_seed(seed);
    return model.forward(pixels, true);
  };
  EXPECT_TRUE(draw(1).equal(draw(1)));
  EXPECT_FALSE(draw(1).equal(draw(2)));
  EXPECT_TRUE(model.forward(pixels, false).equal(model.forward(pixels, false)));
}

TEST(VitConfig, reads_a_hugging_face_config_and_refuses_impossible_sizes) {
  auto json = parse_json(R"({"model_type": "vit", "image_size": 28, "patch_size": 7, "hidden_size": 96, "num_attention_heads": 4,
                             "num_channels": 1, "id2label": {"0": "a", "1": "b", "2": "c"}, "architectures": ["ViTForImageClassification"]})",
                         "test");
  ASSERT_THAT(json, is_ok());
  auto config = VitConfig::from_json(*json);
  ASSERT_THAT(config, is_ok());
  EXPECT_EQ(config->tokens(), 17);
  EXPECT_EQ(config->num_labels, 3);
  for (const auto& [key, value] : Json::Object{{"patch_size", 9},
                                               {"hidden_size", 0},
                                               {"num_attention_heads", 5},
                                               {"hidden_act", "relu"},
                                               {"hidden_dropout_prob", 1.0},
                                               {"image_size", -28}}) {
    Json bad = *json;
    bad[key] = value;
    EXPECT_THAT(VitConfig::from_json(bad), is_error(Code::plan_invalid)) << key;
  }
}

}  // namespace
}  // namespace parascale::native
