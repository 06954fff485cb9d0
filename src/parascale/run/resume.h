#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parascale/checkpoint/checkpoint.h"
#include "parascale/plan/runtime_plan.h"
#include "parascale/run/run_directory.h"

namespace parascale::run {

/// What the user asked: nothing, `--resume auto`, `--resume DIR`, `--resume-step N`.
struct ResumeRequest {
  enum class Mode : std::uint8_t { fresh, newest, reference, step };
  Mode mode = Mode::fresh;
  std::string reference;
  Step step{};
};

/// The best evaluation so far.
struct Best {
  Step step{};
  double value = 0.0;
};

/// Where a run starts.
struct StartPoint {
  Step step{};
  bool evaluation_owed = false;  ///< the evaluation after `step` is due and has not been recorded
  std::optional<Best> best;
  std::optional<checkpoint::OpenedCheckpoint> source;  ///< unset: fresh weights
  std::vector<checkpoint::Skipped> skipped;
  std::vector<std::string> changes;  ///< settings that differ from the checkpoint's plan and may
};

/// Refuses a fresh start in a directory that holds a run. Errors: run_exists with the two remedies.
Status check_fresh(const ResumeRequest& request, const RunPaths& paths);

/// Finds and verifies the checkpoint to start from and compares its plan with this one. The committer has been opened before: it
/// puts back what a crash left parked. Errors: checkpoint_not_found, resume_refused with every setting that must not differ, and
/// what the checkpoint module reports.
Result<StartPoint> find_start(const ResumeRequest& request, const plan::RuntimePlan& plan);

/// `training/state.json` of a checkpoint.
std::string state_text(const plan::RuntimePlan& plan, Step step, bool evaluated, const std::optional<Best>& best);

/// True when `value` is better than `best` for this metric (loss: lower; others: higher).
bool improves(const std::string& metric, double value, double best);

}  // namespace parascale::run
