#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parascale/base/file_system.h"
#include "parascale/base/json.h"
#include "parascale/base/result.h"
#include "parascale/checkpoint/store.h"

namespace parascale::checkpoint {

/// A path with what was expected and what is there.
struct Mismatch {
  std::string path;
  std::string expected;
  std::string actual;
  std::uint64_t begin_byte = 0;  ///< of the damaged range; 0..0 = the whole file
  std::uint64_t end_byte = 0;
  std::vector<std::string> tensors;  ///< with bytes in that range
};

/// The result of `checkpoint validate`. *thread-compatible*
struct Validation {
  std::string checkpoint;          ///< the step directory
  std::string manifest_path;       ///< its manifest
  Json manifest = Json::object();  ///< summary: path, format, version, step, seq, backend, files, tensors, bytes
  std::uint64_t checked_files = 0;
  std::uint64_t checked_directories = 0;
  std::uint64_t checked_bytes = 0;
  std::vector<std::string> missing;
  std::vector<Mismatch> checksum_mismatches;
  std::vector<Mismatch> size_mismatches;
  std::vector<std::string> errors;

  bool ok() const { return missing.empty() && checksum_mismatches.empty() && size_mismatches.empty() && errors.empty(); }
  /// The document of `checkpoint validate --json`: format_version, mode `checkpoint_validate`, runtime_status `diagnostic`,
  /// checkpoint, manifest, validation {ok, checked_files, checked_directories, missing, checksum_mismatches, size_mismatches,
  /// errors}.
  Json to_json() const;
  /// The human text, several lines.
  std::string to_text() const;
  /// Success, or the error whose code gives exit 5.
  Status status() const;
};

/// Validates every byte of a checkpoint. `path` is a root (its newest commit, whether it verifies or not), a run, `<root>/best`,
/// a step directory or a manifest.json; the original's `parascale_manifest_v1` is read too (SHA-256 per file). Damage is in the
/// result; errors: checkpoint_not_found, artifact_version, io_failed.
Result<Validation> validate(FileSystem& files, const std::string& path);

}  // namespace parascale::checkpoint
