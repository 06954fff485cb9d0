#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "parascale/data/options.h"
#include "parascale/data/order.h"
#include "parascale/data/sample_reader.h"
#include "parascale/data/worker_pool.h"
#include "parascale/protocol/messages.h"
#include "parascale/protocol/slot.h"

namespace parascale::data {

/// Samples and failures since the engine opened.
struct ReadCounts {
  std::uint64_t reads = 0;     ///< samples tried, replacements too
  std::uint64_t failures = 0;  ///< of them
};

/// Most replacements tried for one row of a training slot; then the row is left out.
inline constexpr std::uint32_t kMaxReplacements = 16;
/// Reads before `max_failure_rate` is judged.
inline constexpr std::uint64_t kMinJudgedReads = 1000;

/// The sample that replaces `id` at `attempt` (from 0), any of the others: a pure function. Nothing when there is no other.
std::optional<SampleId> replacement_of(std::uint64_t seed, std::uint64_t epoch, SampleId id, std::uint32_t attempt,
                                       std::uint64_t samples);

/// Fills batch slots. Row r of a slot holds the sample at position `first + r` of the epoch's order. A sample that cannot be read
/// is replaced by keyed choice in training (also when the replacement fails, at most kMaxReplacements times) and left out
/// otherwise; valid rows come first, in order. The bytes depend on options, files and the order of `Fill`, never on threads.
/// *confined to one thread*
class SlotFiller {
 public:
  /// `region` holds the ring. Errors: protocol_violation when the layout's fields are not `pixel_values` f32 [channels, size,
  /// size] of the recipe and, optionally, `labels` i64 [].
  static Result<std::unique_ptr<SlotFiller>> make(DataOptions options, protocol::SlotLayout layout, std::span<std::byte> region);

  /// Makes a split known. The index must be that of `options`.
  void add_split(Split split, std::shared_ptr<const DatasetIndex> index, FileSystem& files);

  /// Errors: protocol_violation when slot, split, positions or count lie outside their bounds; too_many_failures.
  Result<protocol::Filled> fill(const protocol::Fill& request);

  const ReadCounts& counts() const { return counts_; }

 private:
  struct RowOutcome {
    SampleId id;
    bool valid = false;
    std::vector<protocol::SampleFailure> failures;
  };
  SlotFiller(DataOptions options, protocol::SlotLayout layout, std::span<std::byte> region);
  Result<SplitSource*> check(const protocol::Fill& request);
  void fill_row(SampleReader& reader, SplitSource& source, std::uint64_t epoch, const RowTarget& target,
                RowOutcome& outcome) const;
  void pack(protocol::SlotWriter& writer, std::uint32_t rows, protocol::Filled& filled) const;
  Status judge(const protocol::Filled& filled) const;

  const DataOptions options_;
  const protocol::SlotLayout layout_;
  std::span<std::byte> region_;
  std::size_t pixels_field_ = 0;
  std::optional<std::size_t> labels_field_;
  std::map<Split, SplitSource> sources_;
  std::vector<std::unique_ptr<SampleReader>> readers_;
  std::vector<RowOutcome> outcomes_;
  ReadCounts counts_;
  WorkerPool pool_;  ///< last: its threads use the others
};

}  // namespace parascale::data
