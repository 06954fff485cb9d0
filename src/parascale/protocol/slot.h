#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parascale/base/ids.h"
#include "parascale/base/json.h"
#include "parascale/base/result.h"
#include "parascale/protocol/dtype.h"

namespace parascale::protocol {

/// What a slot carries: ready tensors, encoded bytes for a transform, or sample ids only.
enum class SlotKind : std::uint32_t { tensors = 0, raw = 1, ids = 2 };

inline constexpr std::uint32_t kSlotMagic = 0x31535350;  // "PSS1"
inline constexpr std::uint32_t kSlotVersion = 1;
inline constexpr std::size_t kSlotAlign = 64;
inline constexpr std::size_t kMaxTensors = 14;
inline constexpr std::size_t kMaxTensorRank = 8;
inline constexpr std::size_t kTensorNameBytes = 32;

/// One tensor of a slot: contiguous, row-major, 64-byte aligned. 128 bytes, little-endian.
struct TensorDescriptor {
  std::array<char, kTensorNameBytes> name;  ///< zero padded, at most 31 bytes
  std::uint32_t dtype;                      ///< parascale::Dtype
  std::uint32_t rank;
  std::array<std::uint64_t, kMaxTensorRank> shape;  ///< the first dimension is the sample
  std::uint64_t offset_bytes;                       ///< from the start of the slot
  std::uint64_t reserved[2];
};
static_assert(sizeof(TensorDescriptor) == 128);

/// Start of every slot, 64-byte aligned. Descriptors follow at byte 128, then `sample_count` sample ids (u64) at
/// `ids_offset_bytes`.
struct SlotHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t kind;
  std::uint32_t slot;
  std::uint64_t epoch;
  std::uint64_t step;
  std::uint32_t micro_step;
  std::uint32_t sample_count;  ///< rows of every tensor
  std::uint32_t valid_count;   ///< rows that count; the rest is padding
  std::uint32_t tensor_count;
  std::uint64_t ids_offset_bytes;
  std::uint64_t content_hash;  ///< XXH3-64 over the valid sample ids, then each tensor's valid rows
  std::uint64_t reserved[8];
};
static_assert(sizeof(SlotHeader) == 128);

/// Name, dtype and per-sample shape of one tensor of a batch; the slot's tensor gets the sample dimension in front.
struct TensorField {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::uint64_t> sample_shape;

  friend bool operator==(const TensorField&, const TensorField&) = default;
};

/// Where everything lies in the slots of one ring; computed by the agent, the same on every side.
struct SlotLayout {
  std::uint32_t slot_count = 0;
  std::uint32_t capacity = 0;    ///< samples a slot can hold
  std::uint64_t slot_bytes = 0;  ///< multiple of 4096
  std::uint64_t ids_offset_bytes = 0;
  std::vector<TensorField> fields;
  std::vector<std::uint64_t> field_offsets;  ///< of each field's tensor, from the start of the slot

  std::uint64_t region_bytes() const { return slot_bytes * slot_count; }
  Json to_json() const;
  /// Errors: protocol_violation when a member is missing or the offsets do not follow from the fields.
  static Result<SlotLayout> from_json(const Json& json);
};

/// Lays `fields` out for slots of `capacity` samples. Errors: protocol_violation when a name, rank or size exceeds its limit.
Result<SlotLayout> make_slot_layout(std::vector<TensorField> fields, std::uint32_t slot_count, std::uint32_t capacity);

/// A writable view of slot `index` of a ring. The engine fills one slot at a time. *thread-compatible*; different rows may be
/// written by different threads.
class SlotWriter {
 public:
  SlotWriter(const SlotLayout& layout, std::span<std::byte> region, std::uint32_t index);

  /// Writes header and descriptors for `sample_count` rows (at most the layout's capacity); tensor bytes stay as they are.
  void begin(std::uint64_t epoch, Step step, std::uint32_t micro_step, std::uint32_t sample_count);
  /// All bytes of row `row` of field `field`.
  std::span<std::byte> row(std::size_t field, std::uint32_t row) const;
  void set_id(std::uint32_t row, SampleId id) const;
  /// Zeroes the padding rows, stores valid count and content hash, and returns the hash.
  std::uint64_t finish(std::uint32_t valid_count) const;

 private:
  const SlotLayout& layout_;
  std::span<std::byte> slot_;
};

/// A checked, read-only view of one slot as a peer wrote it: every offset and size is verified against the slot before use.
struct SlotTensor {
  std::string_view name;
  Dtype dtype = Dtype::f32;
  std::vector<std::uint64_t> shape;  ///< [sample_count, ...]
  std::span<const std::byte> bytes;
};
struct SlotView {
  SlotHeader header{};
  std::span<const std::uint64_t> ids;  ///< sample_count ids
  std::vector<SlotTensor> tensors;

  const SlotTensor* find(std::string_view name) const;
};
/// Errors: protocol_violation naming the member that lies outside its bounds.
Result<SlotView> read_slot(std::span<const std::byte> slot);

}  // namespace parascale::protocol
