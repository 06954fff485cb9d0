#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parascale/base/file_system.h"
#include "parascale/base/ids.h"
#include "parascale/base/result.h"
#include "parascale/data/options.h"

namespace parascale::data {

/// One sample: where its members lie. 40 bytes; stored like this in index files (docs/formats/index.md).
struct IndexEntry {
  std::uint64_t image_offset_bytes = 0;
  std::uint64_t caption_offset_bytes = 0;
  std::int64_t label = 0;  ///< meaningful with kHasLabel
  std::uint32_t image_bytes = 0;
  std::uint32_t caption_bytes = 0;
  std::uint32_t shard = 0;  ///< position in DatasetIndex::shards
  std::uint32_t flags = 0;

  static constexpr std::uint32_t kHasImage = 1;
  static constexpr std::uint32_t kHasLabel = 2;
  static constexpr std::uint32_t kHasCaption = 4;
  static constexpr std::uint32_t kBadLabel = 8;  ///< there is a `.cls` member, but it holds no number
  bool has(std::uint32_t flag) const { return (flags & flag) != 0; }

  friend bool operator==(const IndexEntry&, const IndexEntry&) = default;
};
static_assert(sizeof(IndexEntry) == 40);

/// One file that samples are read from: a tar shard or a loose image.
struct IndexShard {
  std::string path;  ///< as it is opened
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
  std::string damage;  ///< empty, or where and why reading ended early

  friend bool operator==(const IndexShard&, const IndexShard&) = default;
};

/// The samples of one split in their index order: SampleId is the position in `entries`. Read-only once built.
/// *thread-compatible*
struct DatasetIndex {
  std::vector<IndexShard> shards;
  std::vector<IndexEntry> entries;
  DatasetSummary summary;

  /// Number of samples of each label, ascending; unlabelled samples are not counted.
  std::map<std::int64_t, std::uint64_t> label_counts() const;
};

/// How far building an index has come.
struct IndexProgress {
  std::uint64_t shards_done = 0;
  std::uint64_t shards = 0;
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes = 0;
};
using IndexProgressCallback = std::function<void(const IndexProgress&)>;

/// Splits a member name by the WebDataset rule: key = folder and base name up to its first dot, extension = the rest in lower
/// case. Nothing for names that belong to no sample: without a dot, hidden (`.x.png`), or archive metadata (`__name__`).
struct MemberName {
  std::string_view key;
  std::string extension;
};
std::optional<MemberName> split_member_name(std::string_view name);

/// Reads the headers of all `shards` (tar archives, in this order; sizes and times filled in) and groups consecutive members of
/// one key to samples. A sample without an image or a label keeps its place, so that ids do not depend on repairs of other
/// samples; a second member of one kind starts a new sample. A damaged shard counts up to its damage. Errors: archive_damaged
/// naming the shard, io_failed.
Result<DatasetIndex> build_tar_index(FileSystem& files, std::vector<IndexShard> shards,
                                     const IndexProgressCallback& progress = {});

/// Makes the index of loose image files, one sample each, in this order. Labels are unknown. Errors: io_failed.
Result<DatasetIndex> build_files_index(FileSystem& files, std::vector<IndexShard> shards);

/// Serialises to the format of docs/formats/index.md.
std::string encode_index(const DatasetIndex& index);
/// Errors: index_failed when magic, version, self hash, a count or an offset is wrong. The shards' names are relative to what the
/// writer chose.
Result<DatasetIndex> decode_index(std::string_view bytes);

}  // namespace parascale::data
