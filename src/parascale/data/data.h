#pragma once

// Front door of the data module: what the commands and the agent include.
#include <cstdint>
#include <map>

#include "parascale/data/dataset_index.h"
#include "parascale/data/engine.h"
#include "parascale/data/index_store.h"
#include "parascale/data/options.h"

namespace parascale::data {

/// What `plan` needs to know about a split: builds the index when there is none that fits. Errors: those of `open_index`.
Result<DatasetSummary> summarise(const DataOptions& options, Split split, FileSystem& files,
                                 const IndexProgressCallback& progress = {});

/// Number of samples of each label of a split, ascending by label. Errors: those of `open_index`.
Result<std::map<std::int64_t, std::uint64_t>> count_labels(const DataOptions& options, Split split, FileSystem& files);

}  // namespace parascale::data
