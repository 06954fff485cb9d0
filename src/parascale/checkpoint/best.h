#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "parascale/base/file_system.h"
#include "parascale/base/ids.h"
#include "parascale/base/result.h"

namespace parascale::checkpoint {

inline constexpr std::string_view kBestName = "best.json";
inline constexpr std::string_view kCurrentName = "CURRENT";

/// One commit of one root, told apart from a later commit of the same step.
struct CommitReference {
  Step step{};
  std::uint64_t seq = 0;
  std::string manifest_hash;

  friend bool operator==(const CommitReference&, const CommitReference&) = default;
};

/// Reads `<root>/best.json`: `{format: "parascale.best", version: 1, step, seq, manifest_xxh3_128}`; nothing when there is none.
/// Errors: manifest_invalid, artifact_version, io_failed.
Result<std::optional<CommitReference>> read_best(FileSystem& files, const std::string& root);
/// Replaces `<root>/best.json`.
Status write_best(FileSystem& files, const std::string& root, const CommitReference& best);

/// Reads `<root>/CURRENT`, one line `step-00001000 <seq> <manifest hash>`; a hint only, so anything unreadable is nothing.
std::optional<CommitReference> read_current(FileSystem& files, const std::string& root);
/// Replaces `<root>/CURRENT`: whole at any moment, but the new one is durable only with the next sync of the root. That is enough
/// for a hint.
Status write_current(FileSystem& files, const std::string& root, const CommitReference& current);

}  // namespace parascale::checkpoint
