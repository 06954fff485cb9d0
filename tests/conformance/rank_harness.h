#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "parascale/protocol/protocol.h"
#include "parascale/run/process.h"
#include "parascale/run/snapshot.h"

namespace parascale::conformance {

/// The worker command under test, from `--worker=PATH`.
extern std::string worker_program;

/// Plays the agent for one worker process: starts it, shares the regions, fills slots with made-up pictures, sends and expects
/// frames. A frame that does not come within seconds fails the test. *confined to the test's thread*
class RankHarness {
 public:
  explicit RankHarness(std::string hello_version = std::string(protocol::kProtocolVersion));
  ~RankHarness();

  /// Regions and init, up to `ready`; keeps the inventory.
  void make_ready(std::uint64_t seed = 42);
  void share_arena();

  void send(const Json& message) { ASSERT_TRUE(channel.send(message).ok()); }
  /// Waits for a frame of this type; frames of other types are kept for later calls. Fails the test after `limit`.
  Json expect(const std::string& type, std::chrono::seconds limit = std::chrono::seconds(60));
  /// Waits until the worker has ended.
  run::ExitStatus expect_exit(std::chrono::seconds limit = std::chrono::seconds(10));

  /// Fills slot `slot` with `count` rows, `valid` of them meaningful, from a generator keyed by `content`.
  void fill(std::uint32_t slot, std::uint64_t content, std::uint32_t count = 4, std::uint32_t valid = 4);
  /// A whole step of two micro-steps from slots 0 and 1, filled anew.
  void send_step(std::uint64_t step);
  Json run_step(std::uint64_t step);
  /// The state after everything sent so far, by tensor name.
  std::map<std::string, std::string> snapshot(std::uint64_t step);
  std::map<std::string, std::string> read_arena() const;
  Json evaluate(std::uint32_t slot, std::uint64_t id = 0);
  std::vector<float> logits(std::uint32_t slot) const;
  /// Writes a snapshot as the committer would and lets the worker load it.
  Json load(const std::map<std::string, std::string>& state, const std::string& directory);

  run::ChildProcess process;
  protocol::Channel channel{UniqueFd()};
  protocol::SlotLayout layout;
  protocol::ResultsLayout results_layout;
  protocol::Region batches, pulse, results, arena;
  std::vector<protocol::StateEntry> inventory;
  std::optional<run::SnapshotPlan> snapshot_plan;
  std::string log_path;

 private:
  std::vector<Json> kept_;
};

/// The plan that `init` carries: a ViT of two layers on 8x8 pictures.
Json small_plan(const protocol::SlotLayout& layout);

}  // namespace parascale::conformance
