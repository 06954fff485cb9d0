#pragma once

#include <string>
#include <vector>

#include "parascale/run/resume.h"
#include "parascale/run/session.h"
#include "parascale/run/trainer.h"

namespace parascale::run {

struct TrainRequest {
  const plan::RuntimePlan& plan;
  RunPaths paths;
  std::string config_document;  ///< `config.resolved.json`; empty when the run was started from a plan alone
  Programs programs;
  ResumeRequest resume;
  std::vector<EventSink*> sinks;  ///< see every record, in order
};

/// Runs a plan to its end or to the first signal: takes the run's lock, finds the start, writes config and plan, starts engine
/// and rank, trains. The first SIGTERM or SIGINT finishes the step, commits and returns; a second one ends the process with
/// code 4. Errors: run_locked, run_exists, what resuming refuses, and the cause of a failed run, already recorded in
/// `events.jsonl`.
Result<TrainOutcome> train(const TrainRequest& request);

}  // namespace parascale::run
