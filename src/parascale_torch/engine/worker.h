#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "parascale/base/json.h"
#include "parascale/base/result.h"
#include "parascale/protocol/frame.h"
#include "parascale/protocol/pulse.h"
#include "parascale/protocol/region.h"
#include "parascale/protocol/results.h"
#include "parascale/protocol/slot.h"
#include "parascale_torch/engine/trainer.h"

namespace parascale::native {

/// What this worker can do: the member `capabilities` of its hello and the output of `--capabilities`.
Json capabilities();
/// Version of the torch library in use: `2.13.0`.
std::string torch_version();

/// One rank: answers the agent's messages one after the other until `stop`, an error, or the end of the socket (worker protocol
/// 1). *confined to one thread*
class Worker {
 public:
  /// Exit codes of `run`.
  static constexpr int kDone = 0;
  static constexpr int kVersionMismatch = 3;
  static constexpr int kFailed = 4;

  /// `rank` is used until the agent's hello names one.
  Worker(protocol::Channel channel, std::uint64_t rank);

  /// Says hello and works; returns the exit code.
  int run();

 private:
  Status serve();
  Status handle(protocol::Frame& frame);
  Status handle_training(const std::string& type, const Json& message);
  Status on_hello(const Json& message);
  Status on_region(protocol::Frame& frame);
  Status on_init(const Json& message);
  Status on_load(const Json& message);
  Status on_step(const Json& message);
  Status on_micro(const Json& message);
  Status on_finish(const Json& message);
  Status on_eval(const Json& message);
  Status on_infer(const Json& message);
  Status on_snapshot(const Json& message);
  Status on_stop();

  Result<Batch> batch_of(std::uint32_t slot, Labels labels) const;
  Result<at::Tensor> predict_slot(std::uint32_t slot, const Batch& batch);
  Status report_step(const StepReport& report, std::uint64_t step);
  Status release(std::uint32_t slot);
  /// Sends `reply`, with the `id` of `request` when it has one.
  Status answer(const Json& request, Json reply);
  Status require_ready() const;
  void enter(protocol::Phase phase, std::uint64_t step, std::uint32_t micro_step);
  int report_failure(const Error& error);

  protocol::Channel channel_;
  std::uint64_t rank_;
  bool stopped_ = false;
  protocol::Region batches_, pulse_, results_, snapshot_;
  std::optional<protocol::SlotLayout> layout_;
  std::optional<protocol::ResultsLayout> results_layout_;
  std::optional<protocol::PulseWriter> pulse_writer_;
  std::unique_ptr<Trainer> trainer_;
  std::uint64_t steps_done_ = 0;
  std::uint64_t samples_done_ = 0;
  std::uint64_t evaluated_ = 0;
  std::int64_t wait_ns_ = 0;  ///< since the last step was reported
  std::int64_t cpu_ns_at_step_ = 0;
};

}  // namespace parascale::native
