#include "parascale/plan/tests/sample_job.h"
#include "tests/support/matchers.h"

namespace parascale::plan {
namespace {

using testing::SampleJob;

TEST(PlanTextTest, IsThisVerbatim) {
  SampleJob job;
  job.config.override_count = 1;
  RuntimePlan plan = job.plan();
  plan.changes = {
      {.path = "precision", .asked = "bf16", .planned = "fp32", .reason = "this cpu has no bf16 kernels", .code = "PS322"}};
  plan.warnings = {"the fake worker trains nothing"};
  const std::string expected = "Plan " + plan.hash().substr(0, 6) + R"( for toy (configs/toy.yaml + 1 override)

  backend      native             1 rank, cpu        worker cpp
  precision    fp32
  batch        16 global          1 rank x 8 x 2 accumulation
  model        toy                1,000 parameters
  data         100 train          30 validation      7 steps an epoch
  optimizer    adamw              cosine 0.001, warm-up 5
  steps        20                 evaluation every 10 top1
  checkpoint   every 1000         keep 3 and best    runs/toy/checkpoints
  threads      1 intra-op         1 engine           2 cores
  memory       188 MiB/rank       estimate, MiB      activations 8, libraries 180
~ precision    fp32               asked bf16         this cpu has no bf16 kernels (PS322)
! the fake worker trains nothing
)";
  EXPECT_EQ(plan_text(plan), expected);
}

TEST(PlanTextTest, WithoutFileWarmUpAndEvaluation) {
  SampleJob job;
  job.config.config_path.clear();
  job.config.training.lr_schedule = {.type = "constant"};
  job.config.training.evaluation.interval = 0;
  const std::string at_end = plan_text(job.plan());
  EXPECT_THAT(at_end, ::testing::HasSubstr(" for toy (defaults)\n"));
  EXPECT_THAT(at_end, ::testing::HasSubstr("adamw              constant 0.001\n"));
  EXPECT_THAT(at_end, ::testing::HasSubstr("evaluation at end  top1\n"));
  job.data.validation_samples = 0;
  EXPECT_THAT(plan_text(job.plan()), ::testing::HasSubstr("no evaluation"));
}

}  // namespace
}  // namespace parascale::plan
