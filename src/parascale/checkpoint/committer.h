#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parascale/base/clock.h"
#include "parascale/base/file_system.h"
#include "parascale/base/ids.h"
#include "parascale/base/json.h"
#include "parascale/base/result.h"
#include "parascale/checkpoint/manifest.h"
#include "parascale/checkpoint/options.h"

namespace parascale::checkpoint {

/// Bytes of a data file that hold one tensor, or a slice of one.
struct Piece {
  std::string tensor;
  std::uint64_t offset_bytes = 0;  ///< in the file, so counted from the first header byte
  std::uint64_t size_bytes = 0;
  std::optional<Slice> slice;  ///< unset = the whole tensor
};

/// A file of tensors whose bytes lie ready in memory (the snapshot arena), header included. The bytes must stay unchanged until
/// `commit` returns.
struct DataFile {
  std::string path;  ///< `model.safetensors`, `training/optimizer.safetensors`
  std::string role;
  std::span<const std::byte> bytes;
  std::vector<Piece> pieces;
};

/// A small file.
struct TextFile {
  std::string path;  ///< `config.json`, `training/state.json`
  std::string role;
  std::string content;
};

/// One checkpoint to be written. Every non-alias tensor of `tensors` must be covered by pieces exactly once;
/// `TensorRecord::pieces` stays empty here.
struct CommitRequest {
  Step step{};
  std::string run_id;
  std::uint32_t attempt = 0;
  std::uint32_t world_size = 1;
  std::string backend;
  std::string config_hash;
  std::string plan_hash;
  std::vector<DataFile> data_files;
  std::vector<TextFile> text_files;
  std::vector<TensorRecord> tensors;
  Json receipts = Json::array();
  Json metrics = Json::object();
  Json progress = Json::object();
  bool best = false;  ///< point `best.json` here after the commit
};

/// What a commit did. The checkpoint is durable; `warnings` tell what failed after that (CURRENT, best.json, retention).
struct Committed {
  Step step{};
  std::uint64_t seq = 0;
  std::string path;                      ///< `<root>/step-00000024`
  std::string manifest_hash;             ///< the manifest's self hash
  std::uint64_t size_bytes = 0;          ///< of all files, manifest included
  bool already_committed = false;        ///< the same content was there, verified: nothing was written
  std::vector<std::string> removed;      ///< step directories that retention removed
  std::optional<std::string> set_aside;  ///< where a damaged directory of the same name was moved
  std::vector<Error> warnings;
  std::chrono::nanoseconds total_time{}, write_time{}, hash_time{}, sync_time{};
};

/// Writes checkpoints into one root so that a crash at any moment, of the process or the machine, leaves every acknowledged one
/// whole.
///
/// Protocol: refuse early when space is short; write everything into `.tmp-step-...`; fsync every file and directory; manifest
/// last; rename to `step-%08d` without replacing; fsync the root. Only then is the commit acknowledged and CURRENT, `best.json`
/// and retention follow. An error before that removes the temporary directory; a failed fsync is never repeated on the same file,
/// and after a failed fsync of the root every later commit is refused, because what the disk holds is unknown then.
///
/// If the directory of the step exists: identical, verified and the newest commit = accepted as already committed. Damaged =
/// moved to `step-%08d.bad-damaged[-n]`, kept for a person to look at. Whole but different or not the newest (a run that went
/// back and came here again) = replaced: parked as `.old-...` until the new one is durable, put back by `open` if a crash comes
/// between.
///
/// The caller holds the run's LOCK: one committer per root. `commit` may run on a background thread. *thread-safe* (commits run
/// one after the other)
class Committer {
 public:
  /// Makes `options.root` if needed, removes what dead writers left (`.tmp-*`, `.del-*`), puts a parked directory back, reads
  /// which checkpoints exist. Errors: io_failed.
  static Result<std::unique_ptr<Committer>> open(FileSystem& files, const Clock& clock, CheckpointOptions options);
  ~Committer();
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;

  /// Writes one checkpoint; on return it is durable, or nothing of it is left. Errors: disk_full, checkpoint_write_failed,
  /// unsafe_path, manifest_invalid (the request contradicts itself: a tensor not covered, a piece outside its file).
  Result<Committed> commit(const CommitRequest& request);

  /// Points `best.json` to a committed step, or removes it. For an evaluation that improves a step already committed, and at
  /// resume. Errors: checkpoint_not_found, io_failed.
  Status set_best(std::optional<Step> step);
  std::optional<Step> best() const;

  /// Protects a step from retention while it is in use (the resume source). Step 0 and the best are always protected.
  void pin(Step step);
  void unpin(Step step);

  /// The steps in this root whose manifest is readable, oldest commit first.
  std::vector<Step> steps() const;
  /// Names of leftovers that `open` removed or put back, for the log.
  const std::vector<std::string>& recovered() const;

 private:
  struct State;
  explicit Committer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace parascale::checkpoint
