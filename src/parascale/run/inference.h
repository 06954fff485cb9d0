#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "parascale/run/session.h"

namespace parascale::run {

/// One input's answer, in the order of the inputs.
struct Prediction {
  std::uint64_t id = 0;  ///< position in the list of inputs
  std::string error;     ///< empty, or why it could not be read
  std::vector<float> logits;
};

struct InferRequest {
  const plan::RuntimePlan& plan;  ///< mode infer
  RunPaths paths;                 ///< where the logs go
  Programs programs;
  const checkpoint::OpenedCheckpoint& checkpoint;
  std::uint64_t inputs = 0;
  std::function<void(const Prediction&)> on_prediction;
};

struct InferOutcome {
  std::uint64_t answered = 0;
  std::uint64_t failed = 0;
  std::vector<double> batch_latency_ms;  ///< from the order to fill a batch to its logits, without the first batch
  double seconds = 0.0;
};

/// Runs every input through engine and rank. Errors: as for training; unreadable inputs are counted, not errors.
Result<InferOutcome> infer(const InferRequest& request);

}  // namespace parascale::run
