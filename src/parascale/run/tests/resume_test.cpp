#include "parascale/run/resume.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "parascale/checkpoint/tests/sample_checkpoint.h"
#include "tests/support/matchers.h"

namespace parascale::run {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Mode = ResumeRequest::Mode;

/// A run directory with real commits, made by the plan that `plan_` was at the time.
class ResumeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    paths_.directory = ::testing::TempDir() + "resume_test_" + std::to_string(getpid());
    std::filesystem::remove_all(paths_.directory);
    std::filesystem::create_directories(paths_.directory);
    plan_.name = "toy";
    plan_.device.kind = "cpu";
    plan_.backend = {.name = "native", .worker = "cpp", .world_size = 1, .precision = "fp32"};
    plan_.batch = {.per_rank = 4, .accumulation = 2, .slots = 4, .fields = Json::array()};
    plan_.data.train_samples = 80;
    plan_.data.validation_samples = 10;
    plan_.data.train_fingerprint = "aa";
    plan_.data.validation_fingerprint = "bb";
    plan_.data.steps_per_epoch = 10;
    plan_.workload = {.name = "toy", .model = Json::object({{"hidden_size", 8}}), .preprocessor = Json::object()};
    plan_.optimizer.type = "adamw";
    plan_.schedule = {.max_steps = 40,
                      .lr = {.type = "cosine", .peak = 1e-3},
                      .evaluation_interval = 8,
                      .evaluation_metric = "top1",
                      .evaluation_batch = 4};
    plan_.training = {.seed = 42, .nonfinite = "stop"};
    plan_.checkpoint.root = paths_.directory + "/checkpoints";
    std::filesystem::create_directories(plan_.checkpoint.root);
  }
  void TearDown() override { std::filesystem::remove_all(paths_.directory); }

  std::string commit(std::uint64_t step, bool evaluated, const std::optional<Best>& best = std::nullopt) {
    checkpoint::testing::SampleCheckpoint sample(step);
    sample.request.text_files = {
        {.path = "training/state.json", .role = "state", .content = state_text(plan_, Step{step}, evaluated, best)},
        {.path = "training/plan.json", .role = "plan", .content = plan_.to_json().dump_pretty()}};
    auto committer = checkpoint::Committer::open(real_file_system(), clock_, plan_.checkpoint).value();
    return committer->commit(sample.request).value().path;
  }
  Result<StartPoint> start(const ResumeRequest& request = {.mode = Mode::newest}) const {
    PS_TRY(check_fresh(request, paths_));
    return find_start(request, plan_);
  }

  RunPaths paths_;
  plan::RuntimePlan plan_;
  checkpoint::testing::StepClock clock_;
};

TEST_F(ResumeTest, AFreshRunStartsAtStep0AndNotOverAnother) {
  const auto fresh = start({.mode = Mode::fresh});
  ASSERT_THAT(fresh, is_ok());
  EXPECT_EQ(fresh->step, Step{0});
  EXPECT_FALSE(fresh->source.has_value());
  std::ofstream(paths_.events()) << "";
  const auto refused = start({.mode = Mode::fresh});
  ASSERT_THAT(refused, is_error(Code::run_exists));
  EXPECT_THAT(refused.error().helps(), Contains(HasSubstr("--resume auto")));
}

TEST_F(ResumeTest, AutoWithoutCheckpointsIsAFreshRun) {
  const auto fresh = start();
  ASSERT_THAT(fresh, is_ok());
  EXPECT_FALSE(fresh->source.has_value());
}

TEST_F(ResumeTest, AutoTakesTheNewestThatVerifies) {
  commit(8, true);
  const std::string newest = commit(16, true);
  auto point = start();
  ASSERT_THAT(point, is_ok());
  EXPECT_EQ(point->step, Step{16});
  EXPECT_THAT(point->skipped, IsEmpty());
  std::filesystem::resize_file(newest + "/model.safetensors", 100);
  point = start();
  ASSERT_THAT(point, is_ok());
  EXPECT_EQ(point->step, Step{8});
  ASSERT_EQ(point->skipped.size(), 1U);
  EXPECT_THAT(point->skipped[0].path, HasSubstr("step-00000016"));
}

TEST_F(ResumeTest, WhenNothingVerifiesEveryReasonIsNamed) {
  for (const std::uint64_t step : {8U, 16U}) {
    std::filesystem::resize_file(commit(step, true) + "/model.safetensors", 100);
  }
  const auto refused = start();
  ASSERT_THAT(refused, is_error(Code::checkpoint_not_found));
  EXPECT_EQ(refused.error().notes().size(), 2U);
}

TEST_F(ResumeTest, AStepOrAReferenceIsTakenAsNamed) {
  const std::string first = commit(8, true);
  commit(16, true);
  EXPECT_EQ(start({.mode = Mode::step, .step = Step{8}})->step, Step{8});
  EXPECT_EQ(start({.mode = Mode::reference, .reference = first})->step, Step{8});
  EXPECT_EQ(start({.mode = Mode::reference, .reference = plan_.checkpoint.root})->step, Step{16});
  EXPECT_FALSE(start({.mode = Mode::step, .step = Step{9}}).ok());
  EXPECT_FALSE(start({.mode = Mode::reference, .reference = "/absent"}).ok());
}

TEST_F(ResumeTest, AnEvaluationIsOwedOnlyWhereOneIsDue) {
  commit(8, false);
  EXPECT_TRUE(start()->evaluation_owed);
  commit(9, false);
  EXPECT_FALSE(start()->evaluation_owed);  // none is due after step 9
  commit(16, true);
  EXPECT_FALSE(start()->evaluation_owed);
}

TEST_F(ResumeTest, TheBestEvaluationIsRememberedForTheSameMetric) {
  commit(16, true, Best{.step = Step{8}, .value = 0.75});
  auto point = start();
  ASSERT_TRUE(point->best.has_value());
  EXPECT_EQ(point->best->step, Step{8});
  EXPECT_DOUBLE_EQ(point->best->value, 0.75);
  plan_.schedule.evaluation_metric = "loss";
  EXPECT_FALSE(start()->best.has_value());
}

TEST_F(ResumeTest, WhatAStepComputesMustNotDiffer) {
  const plan::RuntimePlan original = plan_;
  commit(8, true);
  const std::vector<std::pair<const char*, std::function<void(plan::RuntimePlan&)>>> changes = {
      {"model", [](auto& plan) { plan.workload.model["hidden_size"] = 16; }},
      {"preprocessor", [](auto& plan) { plan.workload.preprocessor["size"] = 16; }},
      {"workload.name", [](auto& plan) { plan.workload.name = "other"; }},
      {"batch.per_rank", [](auto& plan) { plan.batch.per_rank = 8; }},
      {"batch.accumulation", [](auto& plan) { plan.batch.accumulation = 4; }},
      {"batch.fields", [](auto& plan) { plan.batch.fields.push_back("x"); }},
      {"data.drop_last", [](auto& plan) { plan.data.drop_last = true; }},
      {"data.train_fingerprint", [](auto& plan) { plan.data.train_fingerprint = "cc"; }},
      {"data.validation_fingerprint", [](auto& plan) { plan.data.validation_fingerprint = "cc"; }},
      {"data.steps_per_epoch", [](auto& plan) { plan.data.steps_per_epoch = 9; }},
      {"data.options.recipe", [](auto& plan) { plan.data.options.recipe.size = 14; }},
      {"data.options.affine", [](auto& plan) { plan.data.options.affine = data::Affine{.degrees = 5}; }},
      {"data.options.seed", [](auto& plan) { plan.data.options.seed = 1; }},
      {"optimizer.type", [](auto& plan) { plan.optimizer.type = "sgd"; }},
      {"training.seed", [](auto& plan) { plan.training.seed = 43; }},
      {"backend.world_size", [](auto& plan) { plan.backend.world_size = 2; }},
      {"backend.precision", [](auto& plan) { plan.backend.precision = "bf16"; }},
  };
  for (const auto& [path, change] : changes) {
    plan_ = original;
    change(plan_);
    const auto refused = start();
    ASSERT_THAT(refused, is_error(Code::resume_refused)) << path;
    EXPECT_THAT(refused.error().notes(), Contains(HasSubstr(std::string(path) + ": checkpoint "))) << path;
  }
  plan_ = original;
  plan_.training.seed = 43;
  plan_.optimizer.type = "sgd";
  EXPECT_EQ(start().error().notes().size(), 2U);  // all at once
}

TEST_F(ResumeTest, WhatLaterStepsDoMayDifferAndIsTold) {
  const plan::RuntimePlan original = plan_;
  commit(8, true);
  EXPECT_THAT(start()->changes, IsEmpty());
  const std::vector<std::pair<const char*, std::function<void(plan::RuntimePlan&)>>> changes = {
      {"schedule", [](auto& plan) { plan.schedule.max_steps = 80; }},
      {"optimizer", [](auto& plan) { plan.optimizer.weight_decay = 0.5; }},
      {"training", [](auto& plan) { plan.training.label_smoothing = 0.1; }},
      {"backend.worker", [](auto& plan) { plan.backend.worker = "fake"; }},
      {"threads.intra_op", [](auto& plan) { plan.threads.intra_op = 7; }},
  };
  for (const auto& [path, change] : changes) {
    plan_ = original;
    change(plan_);
    const auto point = start();
    ASSERT_THAT(point, is_ok()) << path;
    EXPECT_THAT(point->changes, Contains(HasSubstr(std::string(path) + ": checkpoint "))) << path;
  }
  plan_ = original;
  plan_.checkpoint.keep_last = 9;  // changes nothing that is computed
  plan_.run_dir = "elsewhere";
  plan_.data.options.threads = 5;
  EXPECT_THAT(start()->changes, IsEmpty());
}

TEST_F(ResumeTest, WeightsWithoutTrainingStateCannotBeResumed) {
  checkpoint::testing::SampleCheckpoint sample(8);
  sample.request.text_files = {{.path = "config.json", .role = "config", .content = "{}"}};
  auto committer = checkpoint::Committer::open(real_file_system(), clock_, plan_.checkpoint).value();
  ASSERT_THAT(committer->commit(sample.request), is_ok());
  const auto refused = start();
  ASSERT_THAT(refused, is_error(Code::resume_refused));
  EXPECT_THAT(refused.error().helps(), Contains(HasSubstr("model.init_from")));
}

TEST(ImprovesTest, LossFallsAndOthersRise) {
  EXPECT_TRUE(improves("loss", 1.0, 2.0));
  EXPECT_FALSE(improves("loss", 2.0, 2.0));
  EXPECT_TRUE(improves("top1", 0.9, 0.8));
  EXPECT_FALSE(improves("top1", 0.8, 0.8));
}

}  // namespace
}  // namespace parascale::run
