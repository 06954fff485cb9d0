#include "parascale/plan/planner.h"

#include <fstream>
#include <functional>

#include "parascale/plan/tests/sample_job.h"
#include "tests/support/matchers.h"

namespace parascale::plan {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::SampleJob;

std::vector<Code> codes_of(const PlanOutcome& outcome) {
  std::vector<Code> codes;
  for (const auto& error : outcome.errors) {
    codes.push_back(error.code());
  }
  return codes;
}

TEST(PlannerTest, TheSampleJobCanBePlanned) {
  const auto outcome = SampleJob().outcome();
  EXPECT_THAT(codes_of(outcome), IsEmpty());
  EXPECT_EQ(outcome.plan.batch.global(1), 16U);
  EXPECT_EQ(outcome.plan.workload.parameters, 1000U);
  EXPECT_EQ(outcome.plan.workload.model.dump(),
            R"({"hidden_size":8})");  // the `model.` section and nothing that only looks like it
  EXPECT_EQ(outcome.plan.checkpoint.root, "runs/toy/checkpoints");
  EXPECT_EQ(outcome.plan.schedule.evaluation_batch, 8U);  // 0 = the training batch size
}

struct Refusal {
  const char* what;
  Code code;
  std::function<void(SampleJob&)> change;
};

std::vector<Refusal> refusals() {
  return {
      {"a device that is not built", Code::device_missing, [](SampleJob& job) { job.config.runtime.device = "cuda"; }},
      {"a back end that is known", Code::backend_not_built, [](SampleJob& job) { job.config.backend.training_backend = "fsdp"; }},
      {"a back end that is unknown", Code::backend_not_built,
       [](SampleJob& job) { job.config.backend.training_backend = "horovod"; }},
      {"a precision of no built back end", Code::not_built, [](SampleJob& job) { job.config.training.precision = "bf16"; }},
      {"a worker that is not there", Code::worker_missing, [](SampleJob& job) { job.config.runtime.worker = "python"; }},
      {"a worker that nobody knows", Code::worker_missing, [](SampleJob& job) { job.config.runtime.worker = "rust"; }},
      {"the automatic worker is not there", Code::worker_missing,
       [](SampleJob& job) {
         job.config.runtime.worker = "auto";
         job.capabilities.workers[0].available = false;
       }},
      {"a workload that is known", Code::workload_not_built, [](SampleJob& job) { job.config.training.workload = "clip"; }},
      {"a workload that is unknown", Code::workload_not_built, [](SampleJob& job) { job.config.training.workload = "nothing"; }},
      {"no training sample", Code::data_empty, [](SampleJob& job) { job.data.train_samples = 0; }},
      {"fewer samples than a step drops to nothing", Code::data_empty,
       [](SampleJob& job) {
         job.data.train_samples = 15;
         job.config.loader.dataloader_drop_last = true;
       }},
      {"an evaluation without samples", Code::data_empty, [](SampleJob& job) { job.data.validation_samples = 0; }},
      {"a metric of another workload", Code::cross_field, [](SampleJob& job) { job.config.training.evaluation.metric = "bleu"; }},
      {"a step whose size wraps to 0", Code::cross_field,
       [](SampleJob& job) {
         job.config.training.batch_size = 1 << 16;
         job.config.training.gradient_accumulation_steps = 1 << 16;
         job.machine.memory_bytes = 1ULL << 50;
       }},
      {"more memory than there is", Code::memory_exceeded, [](SampleJob& job) { job.machine.memory_bytes = 64U << 20; }},
      {"more memory than may be used", Code::memory_exceeded,
       [](SampleJob& job) { job.config.training.strategy_memory_margin = 0.01; }},
  };
}

TEST(PlannerTest, EveryReasonNotToRunHasItsCodeAndARemedy) {
  for (const auto& [what, code, change] : refusals()) {
    SampleJob job;
    change(job);
    const auto outcome = job.outcome();
    EXPECT_THAT(codes_of(outcome), ElementsAre(code)) << what;
    for (const auto& error : outcome.errors) {
      EXPECT_FALSE(error.helps().empty() && error.notes().empty()) << what;
    }
  }
}

TEST(PlannerTest, AllReasonsAreCollected) {
  SampleJob job;
  job.config.runtime.device = "npu";
  job.config.backend.training_backend = "fsdp";
  job.config.runtime.worker = "python";
  job.config.training.evaluation.metric = "bleu";
  EXPECT_THAT(codes_of(job.outcome()),
              ElementsAre(Code::device_missing, Code::backend_not_built, Code::worker_missing, Code::cross_field));
  job.config.training.workload = "clip";  // what depends on the workload cannot be said then
  EXPECT_THAT(codes_of(job.outcome()), ElementsAre(Code::device_missing, Code::backend_not_built, Code::workload_not_built));
}

TEST(PlannerTest, AutomaticChoicesSayWhy) {
  SampleJob job;
  job.config.backend.training_backend = "auto";
  job.config.runtime.device = "auto";
  job.config.runtime.worker = "auto";
  const RuntimePlan plan = job.plan();
  EXPECT_EQ(plan.backend.name, "native");
  EXPECT_EQ(plan.device.kind, "cpu");
  EXPECT_EQ(plan.backend.worker, "cpp");
  EXPECT_THAT(plan.reasons,
              ::testing::IsSupersetOf({HasSubstr("device cpu"), HasSubstr("back end native"), HasSubstr("worker cpp")}));
  ASSERT_EQ(plan.rejected.size(), 1U);
  EXPECT_EQ(plan.rejected[0].backend, "fsdp");
}

TEST(PlannerTest, TheFakeWorkerIsLabelled) {
  SampleJob job;
  job.config.runtime.worker = "fake";
  EXPECT_THAT(job.plan().warnings, ElementsAre(HasSubstr("fake worker")));
}

TEST(PlannerTest, ThreadBudget) {
  struct Case {
    std::uint32_t cores, intra_op, engine;
  };
  for (const auto& [cores, intra_op, engine] : {Case{1, 1, 1}, Case{2, 1, 1}, Case{4, 3, 1}, Case{16, 15, 1}}) {
    SampleJob job;
    job.machine.cores = cores;
    const RuntimePlan plan = job.plan();
    EXPECT_EQ(plan.threads.intra_op, intra_op) << cores;
    EXPECT_EQ(plan.threads.engine, engine) << cores;
    EXPECT_EQ(plan.data.options.threads, engine) << cores;
    EXPECT_THAT(plan.warnings, IsEmpty()) << cores;
  }
}

TEST(PlannerTest, ExplicitThreadsAreKeptWithAWarning) {
  SampleJob job;
  job.machine.cores = 4;
  job.config.runtime.intra_op_threads = 2;
  EXPECT_EQ(job.plan().threads.engine, 2U);  // what is left
  job.config.loader.dataloader_num_workers = 0;
  EXPECT_EQ(job.plan().threads.engine, 1U);
  EXPECT_THAT(job.plan().warnings, IsEmpty());
  job.config.loader.dataloader_num_workers = 5;
  const RuntimePlan plan = job.plan();
  EXPECT_EQ(plan.threads.intra_op, 2U);
  EXPECT_EQ(plan.threads.engine, 5U);
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("PS321")));
}

TEST(PlannerTest, StepsPerEpoch) {
  struct Case {
    std::uint64_t samples, ragged, whole;
  };
  for (const auto& [samples, ragged, whole] : {Case{16, 1, 1}, Case{17, 2, 1}, Case{31, 2, 1}, Case{32, 2, 2}, Case{100, 7, 6}}) {
    SampleJob job;
    job.data.train_samples = samples;
    EXPECT_EQ(job.plan().data.steps_per_epoch, ragged) << samples;
    job.config.loader.dataloader_drop_last = true;
    EXPECT_EQ(job.plan().data.steps_per_epoch, whole) << samples;
  }
  SampleJob job;
  job.data.train_samples = 15;
  EXPECT_EQ(job.plan().data.steps_per_epoch, 1U);
}

TEST(PlannerTest, EpochsBecomeWholeSteps) {
  SampleJob job;
  job.config.training.max_steps.reset();
  const auto steps = [&](double epochs, std::uint64_t samples) {
    job.config.training.epochs = epochs;
    job.data.train_samples = samples;
    return job.plan().schedule.max_steps;
  };
  EXPECT_EQ(steps(1.0, 100), 7U);
  EXPECT_EQ(steps(3.0, 100), 21U);
  EXPECT_EQ(steps(0.5, 100), 4U);  // begun steps count
  EXPECT_EQ(steps(0.001, 100), 1U);
  // 2.2 x 25 and 16.6 x 15 lie a rounding error above a whole number.
  EXPECT_EQ(steps(2.2, std::uint64_t{25} * 16), 55U);
  EXPECT_EQ(steps(16.6, std::uint64_t{15} * 16), 249U);
}

TEST(PlannerTest, TheMemoryEstimateNamesItsParts) {
  SampleJob job;
  const auto bytes = [](const RuntimePlan& plan, std::string_view name) {
    const auto found = std::ranges::find(plan.memory, name, &MemoryComponent::name);
    return found != plan.memory.end() ? found->bytes : UINT64_MAX;
  };
  const RuntimePlan adamw = job.plan();
  EXPECT_EQ(bytes(adamw, "weights"), 4000U);
  EXPECT_EQ(bytes(adamw, "gradients"), 4000U);
  EXPECT_EQ(bytes(adamw, "optimizer"), 8000U);
  EXPECT_EQ(bytes(adamw, "snapshot arena"), 12000U);
  EXPECT_EQ(bytes(adamw, "activations"), 8ULL << 20);
  std::uint64_t sum = 0;
  for (const auto& component : adamw.memory) {
    sum += component.bytes;
  }
  EXPECT_EQ(adamw.memory_bytes_per_rank(), sum);
  job.config.optimizer.type = "sgd";
  EXPECT_EQ(bytes(job.plan(), "optimizer"), 0U);
  job.config.optimizer.momentum = 0.9;
  EXPECT_EQ(bytes(job.plan(), "optimizer"), 4000U);
}

TEST(PlannerTest, WithoutValidationARunEndsWithoutEvaluation) {
  SampleJob job;
  job.data.validation_samples = 0;
  job.config.training.evaluation.interval = 0;
  EXPECT_THAT(job.plan().warnings, ElementsAre(HasSubstr("no validation split")));
}

TEST(CheckFitTest, NamesEveryDifferenceThatMatters) {
  const SampleJob job;
  const RuntimePlan plan = job.plan();
  EXPECT_THAT(check_fit(plan, job.machine), is_ok());
  Machine larger = job.machine;
  larger.cores = 64;
  larger.memory_bytes *= 4;
  larger.devices.emplace_back("cuda:0");
  EXPECT_THAT(check_fit(plan, larger), is_ok());
  Machine almost = job.machine;
  almost.memory_bytes = almost.memory_bytes / 100 * 96;
  EXPECT_THAT(check_fit(plan, almost), is_ok());
  Machine unknown_torch = job.machine;
  unknown_torch.torch_version.clear();
  EXPECT_THAT(check_fit(plan, unknown_torch), is_ok());

  const Machine other{
      .host_class = "linux-aarch64", .cores = 1, .memory_bytes = 1U << 30, .devices = {}, .torch_version = "2.12.0"};
  const Status misfit = check_fit(plan, other);
  ASSERT_THAT(misfit, is_error(Code::plan_misfit));
  EXPECT_THAT(misfit.error().notes(), ElementsAre(HasSubstr("host class"), HasSubstr("cores: plan 2, here 1"),
                                                  HasSubstr("memory: plan 8.0 GiB, here 1.0 GiB"), HasSubstr("`cpu`"),
                                                  HasSubstr("torch: plan 2.13.0+cpu, here 2.12.0")));
}

TEST(MachineTest, ThisMachineHasCoresMemoryAndACpu) {
  const std::string version = ::testing::TempDir() + "planner_test_version.py";
  std::ofstream(version) << "from typing import Optional\n__all__ = ['__version__']\n__version__ = '2.13.0+cpu'\ndebug = False\n";
  const Machine machine = read_machine(version);
  EXPECT_GE(machine.cores, 1U);
  EXPECT_GT(machine.memory_bytes, 64U << 20);
  EXPECT_THAT(machine.devices, ::testing::Contains("cpu"));
  EXPECT_TRUE(machine.host_class.starts_with("linux-")) << machine.host_class;
  EXPECT_EQ(machine.torch_version, "2.13.0+cpu");
  EXPECT_EQ(read_machine("/absent/version.py").torch_version, "");
}

}  // namespace
}  // namespace parascale::plan
