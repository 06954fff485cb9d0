#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parascale/data/dataset_index.h"

namespace parascale::data {

/// Where index files may be kept besides the data folder.
struct IndexPlaces {
  std::string cache_directory;  ///< used when the data folder is read-only; empty: the index is then kept in memory only
};
/// `$XDG_CACHE_HOME/parascale/index`, else `$HOME/.cache/parascale/index`, else empty.
IndexPlaces default_index_places();

/// Expands the patterns of a split to existing files, in the order given and sorted within a pattern; a directory stands for its
/// image files. Errors: data_not_found naming the pattern that matches nothing.
Result<std::vector<std::string>> expand_paths(FileSystem& files, const std::vector<std::string>& patterns);

/// Returns the index of one split: of its tar shards from `<data folder>/.parascale-index/` or the cache directory when sizes and
/// times of all shards still agree and the file is intact, else built (with `progress`) and stored by atomic replacement; of
/// loose images built anew. Synthetic datasets have a summary and no entries. Errors: data_not_found, data_empty,
/// archive_damaged, io_failed; a place that cannot be written is no error.
Result<std::shared_ptr<const DatasetIndex>> open_index(const DataOptions& options, Split split, FileSystem& files,
                                                       const IndexProgressCallback& progress = {},
                                                       const IndexPlaces& places = default_index_places());

}  // namespace parascale::data
