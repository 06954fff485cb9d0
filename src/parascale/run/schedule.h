#pragma once

#include <cstdint>
#include <optional>

#include "parascale/plan/runtime_plan.h"

namespace parascale::run {

/// Where a step stands in the data: a pure function of the plan, never of what has been read.
struct StepSamples {
  std::uint64_t epoch = 0;  ///< from 0
  std::uint64_t first = 0;  ///< position of the step's first sample in the epoch's order
  std::uint32_t count = 0;  ///< samples of the step over all ranks; below the global batch only at the end of an epoch
  std::uint32_t micro_steps = 0;
};
StepSamples samples_of(const plan::RuntimePlan& plan, Step step);

/// Training samples presented after `step` steps.
std::uint64_t samples_after(const plan::RuntimePlan& plan, Step step);
/// Epochs presented after `step` steps, fractional.
double epochs_after(const plan::RuntimePlan& plan, Step step);
/// True when an evaluation follows `step`: at the interval and at the end, if there is a validation split.
bool evaluates_after(const plan::RuntimePlan& plan, Step step);
/// True when `step` is committed whatever the evaluation says: at the interval and at the end.
bool commits_after(const plan::RuntimePlan& plan, Step step);

/// One batch slot's worth of work, in the order in which slots are filled and handed to the rank.
struct WorkItem {
  enum class Kind : std::uint8_t { train, evaluate };
  Kind kind = Kind::train;
  Step step{};
  std::uint32_t micro_step = 0;  ///< in an evaluation: the batch number
  std::uint64_t epoch = 0;
  std::uint64_t first = 0;
  std::uint32_t count = 0;
  bool last = false;  ///< of its step or of its evaluation
};

/// The whole run after `start` as a sequence of work items: the micro-steps of a step, then its evaluation, then the next step.
/// *thread-compatible*
class WorkSequence {
 public:
  /// `evaluate_first`: an evaluation of the start step is still owed.
  WorkSequence(const plan::RuntimePlan& plan, Step start, bool evaluate_first);
  /// The next item; nothing at the end.
  std::optional<WorkItem> next();
  /// Ends the sequence after `step` and its evaluation. Items already taken of later steps are the caller's to drop.
  void stop_after(Step step);
  Step last_step() const { return last_; }

 private:
  const plan::RuntimePlan& plan_;
  Step last_;
  Step step_;  // of the next item
  bool evaluating_;
  std::uint32_t index_ = 0;  // micro-step or batch number of the next item
};

}  // namespace parascale::run
