#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parascale/base/file_system.h"
#include "parascale/base/ids.h"
#include "parascale/base/json.h"
#include "parascale/base/result.h"
#include "parascale/protocol/dtype.h"

namespace parascale::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::uint64_t kChunkBytes = 8ULL << 20;  ///< unit of hashing and writing

/// A block of a tensor: `offsets[i] .. offsets[i] + lengths[i]` in dimension i of its global shape.
struct Slice {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> lengths;

  /// The whole tensor.
  static Slice whole(std::vector<std::uint64_t> shape);
  friend bool operator==(const Slice&, const Slice&) = default;
};

/// Contiguous bytes of a file that hold one slice of one tensor.
struct PieceRecord {
  std::string file;  ///< path relative to the checkpoint directory
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  Slice slice;
  std::uint64_t xxh3_64 = 0;  ///< of exactly these bytes

  friend bool operator==(const PieceRecord&, const PieceRecord&) = default;
};

/// One tensor of the training state. Its pieces cover it exactly once; an alias has none.
struct TensorRecord {
  std::string name;  ///< unique in the checkpoint; also the key in the safetensors file
  Dtype dtype = Dtype::f32;
  std::vector<std::uint64_t> global_shape;
  std::string kind;  ///< param, buffer, moment, ema, scaler
  bool trainable = false;
  std::string group;                    ///< optimizer parameter group, or empty
  std::optional<std::string> alias_of;  ///< shares its storage with this tensor
  std::vector<PieceRecord> pieces;      ///< filled in by the committer

  friend bool operator==(const TensorRecord&, const TensorRecord&) = default;
};

/// One file of the checkpoint with its hashes.
struct FileRecord {
  std::string path;  ///< relative, `/` between parts
  std::string role;  ///< model, optimizer, ema, config, preprocessor, tokenizer, state, plan, resolved_config, index
  std::uint64_t size_bytes = 0;
  std::uint64_t chunk_bytes = kChunkBytes;
  std::vector<std::uint64_t> chunks;  ///< xxh3-64 of each chunk; the last may be short; an empty file has none
  std::string xxh3_128;               ///< of the whole file, 32 hex digits

  friend bool operator==(const FileRecord&, const FileRecord&) = default;
};

/// `manifest.json`: what a checkpoint holds and how to tell that it is whole. Version 3 of the format; docs/formats/checkpoint.md
/// describes every field. *thread-compatible*
struct Manifest {
  static constexpr std::string_view kFormat = "parascale.checkpoint";
  static constexpr std::uint32_t kVersion = 3;

  std::uint64_t seq = 0;  ///< commit number in this root, ascending: the order of checkpoints, never the clock or the step
  Step step{};
  std::string run_id;
  std::uint32_t attempt = 0;
  std::string created;  ///< wall time, a label only
  std::uint32_t world_size = 1;
  std::string backend;
  std::string config_hash;
  std::string plan_hash;
  std::vector<FileRecord> files;
  std::vector<TensorRecord> tensors;
  Json receipts = Json::array();   ///< what each rank said it had copied
  Json metrics = Json::object();   ///< metrics at this step
  Json progress = Json::object();  ///< samples, epoch, ...: where the run stands
  std::string self_hash;  ///< xxh3-128 of the text before the trailing field; filled in by the reader and by `manifest_text`

  const FileRecord* find_file(std::string_view path) const;
  const TensorRecord* find_tensor(std::string_view name) const;
};

/// The text of `manifest.json`. Its last member `self_xxh3_128` is the XXH3-128 of every byte before the comma in front of it.
std::string manifest_text(const Manifest& manifest);

/// Checks what the types cannot: paths, files named once, pieces inside their files, slices inside their tensors, each tensor
/// covered exactly once, aliases that lead to a tensor. Hashes are not looked at. Errors: manifest_invalid, unsafe_path.
Status check_consistent(const Manifest& manifest);

/// Parses and checks a manifest: self hash, every type and bound, paths, pieces inside their files, slices inside their tensors,
/// each tensor covered exactly once. `name` stands for the file in messages. Unknown members are ignored. Errors:
/// manifest_invalid (damaged or inconsistent), artifact_version (another major version or format), unsafe_path.
Result<Manifest> parse_manifest(std::string_view text, std::string_view name);

/// Reads `<directory>/manifest.json`. Errors: like parse_manifest; checkpoint_not_found when there is none.
Result<Manifest> read_manifest(FileSystem& files, const std::string& directory);

/// Accepts relative paths of plain parts; refuses absolute ones, empty parts, `.`, `..`, `\`, control bytes, more than 512 bytes.
/// Errors: unsafe_path.
Status check_relative_path(std::string_view path);

/// `step-00000024`.
std::string step_directory_name(Step step);
/// The step of exactly such a name, or nothing.
std::optional<Step> parse_step_directory_name(std::string_view name);

}  // namespace parascale::checkpoint
