#include "parascale_torch/engine/trainer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "parascale_torch/engine/seed.h"
#include "tests/support/matchers.h"

namespace parascale::native {
namespace {

using at::Tensor;
using parascale::testing::is_error;
using parascale::testing::is_ok;

RankPlan small_plan() {
  RankPlan plan;
  plan.model.image_size = 8;
  plan.model.patch_size = 4;
  plan.model.num_channels = 1;
  plan.model.hidden_size = 32;
  plan.model.num_hidden_layers = 2;
  plan.model.num_attention_heads = 4;
  plan.model.intermediate_size = 48;
  plan.model.num_labels = 5;
  plan.optimizer = OptimizerConfig{.weight_decay = 0.1};
  plan.label_smoothing = 0.1;
  plan.grad_clip_norm = 0.5;
  return plan;
}

/// Owns the memory of a batch.
struct Samples {
  Tensor pixels;
  std::vector<std::int64_t> labels;
  std::vector<std::uint64_t> ids;

  Samples(const VitConfig& model, std::int64_t count) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(17);
    pixels = at::empty({count, model.num_channels, model.image_size, model.image_size}, at::TensorOptions(at::kFloat))
                 .normal_(0, 1, generator);
    for (std::int64_t i = 0; i < count; ++i) {
      labels.push_back(i % model.num_labels);
      ids.push_back(static_cast<std::uint64_t>(i));
    }
  }
  Batch slice(std::int64_t first, std::int64_t count) const {
    return {.pixels = pixels.narrow(0, first, count),
            .labels = std::span(labels).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
            .ids = std::span(ids).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
            .valid = count};
  }
};

Trainer make_trainer(const RankPlan& plan) {
  return Trainer(plan, 42, 0, [](auto, auto, auto) {});
}

void run_step(Trainer& trainer, const Samples& samples, std::uint64_t step, std::vector<std::int64_t> sizes, double planned,
              double final_denominator, StepReport* report = nullptr) {
  ASSERT_THAT(trainer.begin({.step = step, .learning_rate = 1e-2, .planned_denominator = planned}), is_ok());
  std::int64_t first = 0;
  std::uint32_t k = 0;
  for (const std::int64_t size : sizes) {
    ASSERT_THAT(trainer.micro_step(k++, samples.slice(first, size)), is_ok());
    first += size;
  }
  auto done = trainer.finish(final_denominator);
  ASSERT_THAT(done, is_ok());
  if (report != nullptr) {
    *report = *done;
  }
}

double largest_difference(const Trainer& a, const Trainer& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.inventory().tensors().size(); ++i) {
    largest =
        std::max(largest, a.inventory().tensors()[i].value.sub(b.inventory().tensors()[i].value).abs().max().item<double>());
  }
  return largest;
}

TEST(Trainer, accumulation_equals_the_larger_batch) {
  RankPlan plan = small_plan();
  plan.optimizer = OptimizerConfig{.type = OptimizerConfig::Type::sgd, .weight_decay = 0.1, .momentum = 0.9};
  const Samples samples(plan.model, 32);
  Trainer whole = make_trainer(plan);
  Trainer parts = make_trainer(plan);
  Trainer ragged = make_trainer(plan);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    StepReport one;
    StepReport four;
    run_step(whole, samples, step, {32}, 32, 32, &one);
    run_step(parts, samples, step, {8, 8, 8, 8}, 32, 32, &four);
    run_step(ragged, samples, step, {13, 19}, 32, 32);
    EXPECT_NEAR(one.grad_norm, four.grad_norm, 1e-6);
    EXPECT_NEAR(one.loss_sum, four.loss_sum, 1e-4);
    EXPECT_EQ(one.samples, four.samples);
  }
  EXPECT_LT(largest_difference(whole, parts), 1e-6);
  EXPECT_LT(largest_difference(whole, ragged), 1e-6);
}

TEST(Trainer, a_changed_denominator_is_applied_before_clipping) {
  RankPlan plan = small_plan();
  plan.optimizer = OptimizerConfig{.type = OptimizerConfig::Type::sgd,
                                   .weight_decay = 0.1};  // Adam would amplify noise where the gradient is 0
  const Samples samples(plan.model, 16);
  Trainer planned = make_trainer(plan);
  Trainer corrected = make_trainer(plan);
  StepReport a;
  StepReport b;
  run_step(planned, samples, 1, {8, 8}, 16, 16, &a);
  run_step(corrected, samples, 1, {8, 8}, 20, 16, &b);  // four samples were expected and did not come
  EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-6 * a.grad_norm);
  EXPECT_LT(largest_difference(planned, corrected), 1e-7);
}

TEST(Trainer, same_steps_give_the_same_bits) {
  const RankPlan plan = small_plan();
  const Samples samples(plan.model, 16);
  Trainer one = make_trainer(plan);
  Trainer two = make_trainer(plan);
  for (std::uint64_t step = 1; step <= 4; ++step) {
    run_step(one, samples, step, {16}, 16, 16);
    run_step(two, samples, step, {16}, 16, 16);
  }
  EXPECT_EQ(largest_difference(one, two), 0.0);
}

TEST(Trainer, evaluation_leaves_no_trace) {
  RankPlan plan = small_plan();
  plan.model.hidden_dropout_prob = 0.1;
  const Samples samples(plan.model, 16);
  Trainer one = make_trainer(plan);
  Trainer two = make_trainer(plan);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    run_step(one, samples, step, {16}, 16, 16);
    run_step(two, samples, step, {16}, 16, 16);
    const Tensor logits = two.predict(samples.pixels);
    EXPECT_FALSE(logits.requires_grad());
  }
  EXPECT_EQ(largest_difference(one, two), 0.0);
}

TEST(Trainer, training_lowers_the_loss) {
  const RankPlan plan = small_plan();
  const Samples samples(plan.model, 20);
  Trainer trainer = make_trainer(plan);
  StepReport first;
  StepReport last;
  run_step(trainer, samples, 1, {20}, 20, 20, &first);
  for (std::uint64_t step = 2; step <= 40; ++step) {
    run_step(trainer, samples, step, {20}, 20, 20, &last);
  }
  EXPECT_LT(last.loss_sum, 0.5 * first.loss_sum);
  EXPECT_GT(last.top1, first.top1);
}

TEST(Trainer, values_that_are_not_finite_stop_or_skip) {
  const RankPlan plan = small_plan();
  Samples samples(plan.model, 8);
  samples.pixels.fill_(std::numeric_limits<float>::quiet_NaN());
  Trainer stops = make_trainer(plan);
  ASSERT_THAT(stops.begin({.step = 1, .learning_rate = 1e-2, .planned_denominator = 8}), is_ok());
  EXPECT_THAT(stops.micro_step(0, samples.slice(0, 8)), is_error(Code::nonfinite));

  Trainer skips = make_trainer(plan);
  const Trainer untouched = make_trainer(plan);
  ASSERT_THAT(skips.begin({.step = 1, .learning_rate = 1e-2, .planned_denominator = 8, .nonfinite = StepOrder::Nonfinite::skip}),
              is_ok());
  ASSERT_THAT(skips.micro_step(0, samples.slice(0, 8)), is_ok());
  auto report = skips.finish(8);
  ASSERT_THAT(report, is_ok());
  EXPECT_TRUE(report->skipped);
  EXPECT_EQ(largest_difference(skips, untouched), 0.0);
}

TEST(Trainer, a_step_without_valid_samples_changes_nothing) {
  const RankPlan plan = small_plan();
  Trainer trainer = make_trainer(plan);
  const Trainer untouched = make_trainer(plan);
  ASSERT_THAT(trainer.begin({.step = 1, .learning_rate = 1e-2, .planned_denominator = 8, .audit = true}), is_ok());
  ASSERT_THAT(trainer.micro_step(0, Batch{}), is_ok());
  auto report = trainer.finish(0);
  ASSERT_THAT(report, is_ok());
  EXPECT_EQ(report->samples, 0);
  EXPECT_THAT(report->no_grad, ::testing::Contains("vit.encoder.layer.1.attention.attention.key.bias"));
  EXPECT_EQ(largest_difference(trainer, untouched), 0.0);
}

TEST(Trainer, audit_finds_nothing_in_a_whole_model) {
  const RankPlan plan = small_plan();
  const Samples samples(plan.model, 4);
  Trainer trainer = make_trainer(plan);
  ASSERT_THAT(trainer.begin({.step = 1, .learning_rate = 1e-2, .planned_denominator = 4, .audit = true}), is_ok());
  ASSERT_THAT(trainer.micro_step(0, samples.slice(0, 4)), is_ok());
  auto report = trainer.finish(4);
  ASSERT_THAT(report, is_ok());
  EXPECT_THAT(report->no_grad, ::testing::IsEmpty());
}

TEST(Trainer, refuses_work_out_of_order) {
  RankPlan plan = small_plan();
  Trainer trainer = make_trainer(plan);
  EXPECT_THAT(trainer.micro_step(0, Batch{}), is_error(Code::protocol_violation));
  EXPECT_THAT(trainer.finish(1), is_error(Code::protocol_violation));
  EXPECT_THAT(trainer.begin({.step = 1, .learning_rate = 1e-2, .planned_denominator = 0}), is_error(Code::protocol_violation));
  ASSERT_THAT(trainer.begin({.step = 1, .learning_rate = 1e-2}), is_ok());
  EXPECT_THAT(trainer.begin({.step = 2, .learning_rate = 1e-2}), is_error(Code::protocol_violation));
  plan.optimizer.reset();
  Trainer serving = make_trainer(plan);
  EXPECT_THAT(serving.begin({.step = 1, .learning_rate = 1e-2}), is_error(Code::protocol_violation));
}

TEST(Seed, is_the_start_of_sha256_over_four_words) {
  // python: int.from_bytes(hashlib.sha256(struct.pack("<4Q", seed, t, k, rank)).digest()[:8], "little")
  EXPECT_EQ(derive_seed({.seed = 42, .step = 7, .micro_step = 3, .rank = 1}), 4736432494152392077U);
  EXPECT_EQ(derive_seed({}), 8628161281313630310U);
}

TEST(ClassificationSums, loss_gradient_and_ranks) {
  Tensor logits = at::empty({2, 3}, at::TensorOptions(at::kDouble));
  const std::vector<double> values = {1.0, 2.0, 2.0, 0.5, -1.0, 3.0};
  std::copy(values.begin(), values.end(), logits.mutable_data_ptr<double>());
  const std::vector<std::int64_t> labels = {2, 0};
  Tensor gradient = at::empty({2, 3}, at::TensorOptions(at::kDouble));
  const auto sums = classification_sums(logits, labels, 0.1, &gradient, 4.0);
  EXPECT_EQ(sums.top1, 0);  // of two equal logits the first class wins
  EXPECT_EQ(sums.top5, 2);
  const auto loss_at = [&](std::int64_t i, double shift) {
    auto* data = logits.mutable_data_ptr<double>();
    data[i] += shift;
    const double loss = classification_sums(logits, labels, 0.1).loss;
    data[i] -= shift;
    return loss;
  };
  for (std::int64_t i = 0; i < 6; ++i) {
    const double numeric = (loss_at(i, 1e-6) - loss_at(i, -1e-6)) / 2e-6 / 4.0;
    EXPECT_NEAR(gradient.const_data_ptr<double>()[i], numeric, 1e-8);
  }
  EXPECT_NEAR(sums.loss, 3.4576691334726335,
              1e-12);  // torch.nn.functional.cross_entropy(..., label_smoothing=0.1, reduction="sum")
}

TEST(ClassificationSums, a_row_that_is_not_a_number_is_wrong) {
  Tensor logits = at::empty({1, 2}, at::TensorOptions(at::kFloat)).fill_(std::numeric_limits<float>::quiet_NaN());
  const std::vector<std::int64_t> labels = {0};
  const auto sums = classification_sums(logits, labels, 0.0);
  EXPECT_TRUE(std::isnan(sums.loss));
  EXPECT_EQ(sums.top1, 0);
}

TEST(Optimizer, clip_factor_limits_the_norm) {
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_NEAR(clip_factor(4.0, 1.0), 0.25, 1e-6);
}

TEST(OptimizerConfig, refuses_what_it_does_not_know) {
  EXPECT_THAT(OptimizerConfig::from_json(Json::object({{"type", "adam"}})), is_error(Code::plan_invalid));
  EXPECT_THAT(OptimizerConfig::from_json(Json::object({{"type", "adamw"}, {"betas", Json::array({0.9})}})),
              is_error(Code::plan_invalid));
  EXPECT_THAT(OptimizerConfig::from_json(Json::object({{"type", "sgd"}, {"nesterov", true}})), is_error(Code::plan_invalid));
  EXPECT_THAT(OptimizerConfig::from_json(Json::object({{"type", "sgd"}, {"momentum", 0.9}, {"nesterov", true}})), is_ok());
}

}  // namespace
}  // namespace parascale::native
