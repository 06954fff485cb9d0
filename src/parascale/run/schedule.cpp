#include "parascale/run/schedule.h"

#include <algorithm>

#include "parascale/base/check.h"

namespace parascale::run {

namespace {

std::uint64_t samples_per_epoch(const plan::RuntimePlan& plan) {
  const std::uint64_t whole_steps = plan.data.steps_per_epoch * plan.batch.global(plan.backend.world_size);
  return plan.data.drop_last ? whole_steps : std::min(plan.data.train_samples, whole_steps);
}

}  // namespace

StepSamples samples_of(const plan::RuntimePlan& plan, Step step) {
  PS_CHECK(step.value > 0 && plan.data.steps_per_epoch > 0, "steps count from 1 and an epoch has steps");
  const std::uint64_t index = step.value - 1;
  const std::uint32_t global = plan.batch.global(plan.backend.world_size);
  StepSamples samples;
  samples.epoch = index / plan.data.steps_per_epoch;
  samples.first = index % plan.data.steps_per_epoch * global;
  samples.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(global, samples_per_epoch(plan) - samples.first));
  samples.micro_steps = (samples.count + plan.batch.per_rank - 1) / plan.batch.per_rank;
  return samples;
}

std::uint64_t samples_after(const plan::RuntimePlan& plan, Step step) {
  const std::uint64_t epochs = step.value / plan.data.steps_per_epoch;
  const std::uint64_t rest = step.value % plan.data.steps_per_epoch;
  return epochs * samples_per_epoch(plan) + rest * plan.batch.global(plan.backend.world_size);
}

double epochs_after(const plan::RuntimePlan& plan, Step step) {
  return static_cast<double>(step.value) / static_cast<double>(plan.data.steps_per_epoch);
}

bool evaluates_after(const plan::RuntimePlan& plan, Step step) {
  const std::uint64_t interval = plan.schedule.evaluation_interval;
  return plan.data.validation_samples > 0 && step.value > 0 &&
         (step.value == plan.schedule.max_steps || (interval > 0 && step.value % interval == 0));
}

bool commits_after(const plan::RuntimePlan& plan, Step step) {
  const std::uint64_t interval = plan.checkpoint.interval_steps;
  return step.value == plan.schedule.max_steps || (interval > 0 && step.value > 0 && step.value % interval == 0);
}

WorkSequence::WorkSequence(const plan::RuntimePlan& plan, Step start, bool evaluate_first)
    : plan_(plan),
      last_{plan.schedule.max_steps},
      step_{evaluate_first ? start.value : start.value + 1},
      evaluating_(evaluate_first) {}

void WorkSequence::stop_after(Step step) { last_ = std::min(last_, step); }

std::optional<WorkItem> WorkSequence::next() {
  if (step_ > last_) {
    return std::nullopt;
  }
  WorkItem item{.step = step_, .micro_step = index_};
  if (evaluating_) {
    const std::uint64_t batch = plan_.schedule.evaluation_batch;
    item.kind = WorkItem::Kind::evaluate;
    item.first = index_ * batch;
    item.count = static_cast<std::uint32_t>(std::min(batch, plan_.data.validation_samples - item.first));
    item.last = item.first + item.count >= plan_.data.validation_samples;
  } else {
    const StepSamples samples = samples_of(plan_, step_);
    const std::uint32_t offset = index_ * plan_.batch.per_rank;
    item.epoch = samples.epoch;
    item.first = samples.first + offset;
    item.count = std::min(plan_.batch.per_rank, samples.count - offset);
    item.last = index_ + 1 == samples.micro_steps;
  }
  ++index_;
  if (item.last) {
    index_ = 0;
    if (!evaluating_ && evaluates_after(plan_, step_)) {
      evaluating_ = true;
    } else {
      evaluating_ = false;
      ++step_;
    }
  }
  return item;
}

}  // namespace parascale::run
