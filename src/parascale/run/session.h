#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parascale/checkpoint/checkpoint.h"
#include "parascale/data/options.h"
#include "parascale/plan/runtime_plan.h"
#include "parascale/protocol/protocol.h"
#include "parascale/run/peer.h"
#include "parascale/run/run_directory.h"

namespace parascale::run {

/// The programs of this installation.
struct Programs {
  std::string engine;  ///< the control binary itself; run as `<engine> data-engine`
  std::string worker;  ///< of the plan's kind
};

struct SessionOptions {
  const plan::RuntimePlan& plan;
  const RunPaths& paths;
  const Programs& programs;
  data::DataOptions data;
  std::vector<data::Split> splits;
  std::uint32_t slot_capacity = 0;  ///< samples
};

/// A data engine and a rank that have shaken hands and share the batch ring. Destroying kills both. *confined to the agent's
/// thread*
class Session {
 public:
  /// Starts both side by side and waits until the rank's model is built and the engine's index is open.
  /// Errors: start_failed, version_mismatch, rank_stopped, engine_stopped, rank_error, and their hang codes.
  static Result<std::unique_ptr<Session>> start(const SessionOptions& options);

  Peer engine;
  Peer rank;
  protocol::SlotLayout layout;
  protocol::ResultsLayout results_layout;
  protocol::Region batches;
  protocol::Region pulse;
  protocol::Region results;
  protocol::Region arena;
  std::map<data::Split, data::DatasetSummary> summaries;
  std::vector<protocol::StateEntry> inventory;
  protocol::Hello rank_hello;

  /// Makes the snapshot arena and hands it to the rank.
  Status share_arena(std::uint64_t bytes);
  enum class LoadState : std::uint8_t {
    all,      ///< weights and moments: to resume
    weights,  ///< parameters and buffers: moments that are missing stay as they are
  };
  /// Lets the rank load tensors whose bytes have been verified. Errors: state_mismatch naming what is missing or differs.
  Status load(const checkpoint::OpenedCheckpoint& opened, LoadState what, std::chrono::seconds deadline);
  std::span<const std::byte> slot(std::uint32_t index) const {
    return std::span<const std::byte>(batches.bytes()).subspan(index * layout.slot_bytes, layout.slot_bytes);
  }
  protocol::Pulse read_pulse() const { return protocol::read_pulse(pulse.bytes()); }

 private:
  Session(Peer engine_peer, Peer rank_peer) : engine(std::move(engine_peer)), rank(std::move(rank_peer)) {}
  Status open_engine(const SessionOptions& options);
  Status open_rank(const SessionOptions& options);
  Status finish_engine(const SessionOptions& options);
  Status finish_rank(const SessionOptions& options);
};

/// The slot layout of a plan's batch contract. Errors: plan_invalid.
Result<protocol::SlotLayout> slot_layout(const plan::RuntimePlan& plan, std::uint32_t capacity);

}  // namespace parascale::run
