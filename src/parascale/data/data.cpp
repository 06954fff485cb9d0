#include "parascale/data/data.h"

namespace parascale::data {

Result<DatasetSummary> summarise(const DataOptions& options, Split split, FileSystem& files,
                                 const IndexProgressCallback& progress) {
  PS_ASSIGN(const auto index, open_index(options, split, files, progress));
  return index->summary;
}

Result<std::map<std::int64_t, std::uint64_t>> count_labels(const DataOptions& options, Split split, FileSystem& files) {
  if (options.type == DatasetType::synthetic && split != Split::infer) {
    std::map<std::int64_t, std::uint64_t> counts;
    for (std::uint64_t label = 0; label < options.num_labels && label < options.synthetic.samples; ++label) {
      // Labels are id % num_labels: the first (samples % num_labels) of them have one sample more.
      const std::uint64_t more = label < options.synthetic.samples % options.num_labels ? 1 : 0;
      counts.emplace(static_cast<std::int64_t>(label), options.synthetic.samples / options.num_labels + more);
    }
    return counts;
  }
  PS_ASSIGN(const auto index, open_index(options, split, files));
  return index->label_counts();
}

}  // namespace parascale::data
