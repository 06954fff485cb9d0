#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parascale/base/file_system.h"
#include "parascale/base/result.h"
#include "parascale/checkpoint/manifest.h"

namespace parascale::checkpoint {

/// One `step-%08d` directory of a root.
struct CheckpointEntry {
  std::string path;
  Step step{};
  std::optional<Manifest> manifest;  ///< unset when it cannot be read
  std::optional<Error> error;        ///< why not
};

/// Returns the checkpoints of `root`, newest commit (seq) first; those with an unreadable manifest come first of all, by step,
/// newest first. Names starting with a dot and `step-*.bad-*` are not checkpoints. A missing root is an empty list. Errors:
/// io_failed.
Result<std::vector<CheckpointEntry>> list_checkpoints(FileSystem& files, const std::string& root);

/// Which part of a checkpoint to open: only that part is read and verified.
enum class LoadPart : std::uint8_t {
  all,    ///< everything, to resume
  model,  ///< files outside `training/`, to evaluate, infer, serve
};

enum class VerifyLevel : std::uint8_t {
  sizes,   ///< manifest, presence and size of every file
  hashes,  ///< and every byte
};

/// One fault of a checkpoint, as narrow as it can be told.
struct Damage {
  enum class Kind : std::uint8_t { missing, size, hash, unreadable, structure };
  Kind kind = Kind::hash;
  std::string file;              ///< relative path
  std::uint64_t begin_byte = 0;  ///< first and one past the last byte of the damaged chunk, for `hash`
  std::uint64_t end_byte = 0;
  std::vector<std::string> tensors;  ///< tensors with bytes in that range
  std::string expected;
  std::string actual;

  /// One line: `model.safetensors: bytes 0..8388608 differ from their hash (tensors a, b)`.
  std::string text() const;
};

/// What verification found. *thread-compatible*
struct VerifyReport {
  std::uint64_t checked_files = 0;
  std::uint64_t checked_bytes = 0;
  std::vector<Damage> damages;

  bool ok() const { return damages.empty(); }
  /// Success, or an error with every damage as a note. Errors: file_mismatch (missing, size), hash_mismatch, safetensors_invalid
  /// (structure).
  Status status(std::string_view directory) const;
};

/// Verifies a checkpoint against its manifest. The manifest itself being unreadable is an error, not a report. Errors:
/// manifest_invalid, artifact_version, unsafe_path, checkpoint_not_found, io_failed.
Result<VerifyReport> verify(FileSystem& files, const std::string& directory, VerifyLevel level);
/// Same, with a manifest already read, of the files that belong to `part`. Damage is in the report, never an error.
VerifyReport verify_files(FileSystem& files, const std::string& directory, const Manifest& manifest, VerifyLevel level,
                          LoadPart part = LoadPart::all);
/// Whether a file of the manifest belongs to `part`.
bool belongs_to(const FileRecord& file, LoadPart part);

/// A checkpoint that was passed over.
struct Skipped {
  std::string path;
  Error reason;
};

struct NewestVerified {
  std::optional<CheckpointEntry> found;  ///< with a manifest
  std::vector<Skipped> skipped;          ///< newer ones (and unreadable ones) that did not verify, newest first
};

/// Finds the newest checkpoint (by seq) that verifies. Finding none is not an error here. Errors: io_failed.
Result<NewestVerified> find_newest_verified(FileSystem& files, const std::string& root, VerifyLevel level = VerifyLevel::hashes);

/// What a `--checkpoint` or `--resume` argument means.
struct ResolvedReference {
  enum class Kind : std::uint8_t {
    step,          ///< a step directory was named (or its manifest.json)
    newest,        ///< a root or run was named: its newest verified checkpoint
    best,          ///< `<run or root>/best`
    hugging_face,  ///< a plain model directory without manifest: nothing can be verified
  };
  Kind kind = Kind::step;
  std::string directory;
  std::string root;  ///< directory around it; empty for hugging_face
  std::optional<Manifest> manifest;
  std::vector<Skipped> skipped;
  std::string description;  ///< for output: `newest checkpoint of runs/a (step 250)`, `model directory without manifest`
};

/// Resolves a step directory, a `manifest.json`, a checkpoint root, a run directory (its `checkpoints/`), `<root or run>/best`,
/// or a plain Hugging Face model directory. Only `newest` verifies bytes here (at `level`); `open_for_load` verifies what it
/// opens. Errors: checkpoint_not_found (with what was skipped), manifest_invalid, artifact_version, hash_mismatch, io_failed.
Result<ResolvedReference> resolve_reference(FileSystem& files, const std::string& path, VerifyLevel level = VerifyLevel::hashes);

/// Where to read one piece of a tensor.
struct TensorSource {
  std::string name;
  std::string kind;  ///< param, buffer, moment, ema, scaler; `param` for a plain model directory
  Dtype dtype = Dtype::f32;
  std::vector<std::uint64_t> global_shape;
  Slice slice;
  std::string file;                ///< absolute or relative to the working directory, ready to open
  std::uint64_t offset_bytes = 0;  ///< in the file
  std::uint64_t size_bytes = 0;
  std::optional<std::uint64_t> xxh3_64;  ///< unset without manifest
  std::optional<std::string> alias_of;   ///< set: file and offset are those of that tensor
};

/// A checkpoint ready to be loaded. *thread-compatible*
struct OpenedCheckpoint {
  std::string directory;
  std::optional<Manifest> manifest;  ///< unset for a plain model directory
  std::vector<TensorSource> tensors;
  std::map<std::string, std::string>
      texts;  ///< relative path -> content: `config.json`, `preprocessor_config.json`, `training/state.json`, ...
};

/// Opens a step directory or plain model directory: hashes of every file that belongs to `part` are verified, safetensors headers
/// are parsed and compared with the manifest, texts are returned. Errors: like verify and VerifyReport::status;
/// safetensors_invalid; checkpoint_not_found.
Result<OpenedCheckpoint> open_for_load(FileSystem& files, const std::string& directory, LoadPart part = LoadPart::all);

}  // namespace parascale::checkpoint
