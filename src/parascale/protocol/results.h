#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "parascale/base/json.h"
#include "parascale/base/result.h"

namespace parascale::protocol {

inline constexpr std::uint32_t kResultsMagic = 0x52535350;  // "PSSR"
inline constexpr std::uint32_t kResultsVersion = 1;

/// Start of every block of the `results` region, 64-byte aligned, little-endian. Behind it: `capacity` sample ids (u64) at byte
/// 64, then `capacity` x `columns` values (f32, row-major). Only the first `rows` rows hold predictions.
struct ResultHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t slot;     ///< the batch slot that was evaluated; equals the block's index
  std::uint32_t rows;     ///< valid samples
  std::uint32_t columns;  ///< values per sample, for a classifier its logits
  std::uint32_t reserved[11];
};
static_assert(sizeof(ResultHeader) == 64);

/// Where the predictions lie: one block per batch slot, so that the credit for a slot covers its result too.
struct ResultsLayout {
  std::uint32_t slot_count = 0;
  std::uint32_t capacity = 0;  ///< samples a block can hold
  std::uint32_t columns = 0;
  std::uint64_t block_bytes = 0;  ///< multiple of 64

  std::uint64_t region_bytes() const { return block_bytes * slot_count; }
  Json to_json() const;
  /// Errors: protocol_violation when a member is missing or zero, or `block_bytes` does not follow from the counts.
  static Result<ResultsLayout> from_json(const Json& json);
};

/// Lays out one block of `capacity` x `columns` predictions per slot.
ResultsLayout make_results_layout(std::uint32_t slot_count, std::uint32_t capacity, std::uint32_t columns);

/// Writes the predictions of one slot into its block: `values` holds ids.size() rows of `columns` values. Everything must fit
/// (PS_CHECK).
void write_results(const ResultsLayout& layout, std::span<std::byte> region, std::uint32_t slot,
                   std::span<const std::uint64_t> ids, std::span<const float> values);

/// A checked view of one block as the rank wrote it.
struct ResultsView {
  ResultHeader header{};
  std::span<const std::uint64_t> ids;  ///< header.rows ids
  std::span<const float> values;       ///< header.rows x header.columns

  std::span<const float> row(std::size_t index) const { return values.subspan(index * header.columns, header.columns); }
};
/// Errors: protocol_violation when the block lies outside the region or its header outside its bounds.
Result<ResultsView> read_results(const ResultsLayout& layout, std::span<const std::byte> region, std::uint32_t slot);

}  // namespace parascale::protocol
