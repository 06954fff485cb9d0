#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "parascale/base/bounded_queue.h"
#include "parascale/base/unique_fd.h"
#include "parascale/checkpoint/checkpoint.h"
#include "parascale/protocol/messages.h"

namespace parascale::run {

/// Where every tensor of the state goes in the snapshot arena: one range per file, each a whole safetensors file whose header the
/// agent writes once and whose tensors the rank copies. *thread-compatible*
class SnapshotPlan {
 public:
  /// Parameters and buffers go to `model.safetensors`, everything else to `training/optimizer.safetensors`. Errors:
  /// state_mismatch for an inventory that names a tensor twice, safetensors_invalid.
  static Result<SnapshotPlan> make(const std::vector<protocol::StateEntry>& inventory);

  std::uint64_t arena_bytes() const { return arena_bytes_; }
  /// Writes the files' headers into the arena.
  void write_headers(std::span<std::byte> arena) const;
  /// The `snapshot` message for one rank that owns everything.
  Json message(Step step) const;
  /// The files as they lie in the arena, for the committer.
  std::vector<checkpoint::DataFile> data_files(std::span<const std::byte> arena) const;
  const std::vector<checkpoint::TensorRecord>& tensors() const { return tensors_; }

 private:
  struct FilePlan {
    std::string path;
    std::string role;
    checkpoint::SafetensorsLayout layout;
    std::uint64_t arena_offset = 0;
  };
  std::vector<FilePlan> files_;
  std::vector<checkpoint::TensorRecord> tensors_;
  std::uint64_t arena_bytes_ = 0;
};

/// Commits one checkpoint at a time on a thread of its own, so that training goes on while bytes are hashed and synced. *confined
/// to the agent's thread* but for the thread it owns.
class CommitThread {
 public:
  explicit CommitThread(std::unique_ptr<checkpoint::Committer> committer);
  ~CommitThread();
  CommitThread(const CommitThread&) = delete;
  CommitThread& operator=(const CommitThread&) = delete;

  checkpoint::Committer& committer() { return *committer_; }
  bool busy() const { return busy_; }
  /// Readable when a commit has ended.
  int event_fd() const { return event_.get(); }
  /// Starts a commit; the arena must stay unchanged until it has been taken. Only when not busy.
  void start(checkpoint::CommitRequest request);
  /// The outcome of the commit, if it has ended; not busy afterwards.
  std::optional<Result<checkpoint::Committed>> take();

 private:
  void work();

  std::unique_ptr<checkpoint::Committer> committer_;
  UniqueFd event_;
  BoundedQueue<checkpoint::CommitRequest> requests_{1};
  BoundedQueue<Result<checkpoint::Committed>> outcomes_{1};
  bool busy_ = false;
  std::jthread thread_;
};

}  // namespace parascale::run
