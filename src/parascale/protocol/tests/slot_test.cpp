#include "parascale/protocol/slot.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "parascale/base/hash.h"
#include "parascale/protocol/region.h"
#include "tests/support/matchers.h"

namespace parascale::protocol {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;
using ::testing::Each;
using ::testing::ElementsAre;

std::vector<TensorField> picture_fields() {
  return {{.name = "pixel_values", .dtype = Dtype::f32, .sample_shape = {1, 3, 3}},
          {.name = "labels", .dtype = Dtype::i64, .sample_shape = {}}};
}

TEST(SlotLayoutTest, EverythingIsAlignedAndNothingOverlaps) {
  const auto layout = make_slot_layout(picture_fields(), 3, 5).value();
  EXPECT_EQ(layout.slot_bytes % 4096, 0U);
  EXPECT_EQ(layout.ids_offset_bytes % 8, 0U);
  EXPECT_GE(layout.ids_offset_bytes, sizeof(SlotHeader) + kMaxTensors * sizeof(TensorDescriptor));
  ASSERT_EQ(layout.field_offsets.size(), 2U);
  EXPECT_EQ(layout.field_offsets[0] % kSlotAlign, 0U);
  EXPECT_EQ(layout.field_offsets[1] % kSlotAlign, 0U);
  EXPECT_GE(layout.field_offsets[0], layout.ids_offset_bytes + 5 * 8);
  EXPECT_GE(layout.field_offsets[1], layout.field_offsets[0] + 5 * 36);
  EXPECT_GE(layout.slot_bytes, layout.field_offsets[1] + 5 * 8);
  EXPECT_EQ(layout.region_bytes(), 3 * layout.slot_bytes);
}

TEST(SlotLayoutTest, RefusesWhatNoSlotCanHold) {
  const auto refused = [](std::vector<TensorField> fields, std::uint32_t slots = 1, std::uint32_t capacity = 1) {
    return make_slot_layout(std::move(fields), slots, capacity);
  };
  const TensorField good = {.name = "x", .dtype = Dtype::f32, .sample_shape = {2}};
  EXPECT_THAT(refused({good}), is_ok());
  EXPECT_THAT(refused({}), is_error(Code::protocol_violation));
  EXPECT_THAT(refused({good}, 0), is_error(Code::protocol_violation));
  EXPECT_THAT(refused({good}, 1, 0), is_error(Code::protocol_violation));
  EXPECT_THAT(refused(std::vector<TensorField>(kMaxTensors + 1, good)), is_error(Code::protocol_violation));
  EXPECT_THAT(refused({{.name = "", .sample_shape = {2}}}), is_error(Code::protocol_violation));
  EXPECT_THAT(refused({{.name = std::string(kTensorNameBytes, 'n'), .sample_shape = {2}}}), is_error(Code::protocol_violation));
  EXPECT_THAT(refused({{.name = std::string(kTensorNameBytes - 1, 'n'), .sample_shape = {2}}}), is_ok());
  EXPECT_THAT(refused({{.name = "x", .sample_shape = std::vector<std::uint64_t>(kMaxTensorRank, 1)}}),
              is_error(Code::protocol_violation));
  EXPECT_THAT(refused({{.name = "x", .sample_shape = {0}}}), is_error(Code::protocol_violation));
  EXPECT_THAT(refused({{.name = "x", .dtype = Dtype::f4, .sample_shape = {2}}}), is_error(Code::protocol_violation));
  EXPECT_THAT(refused({{.name = "x", .sample_shape = {1ULL << 62, 4}}}), is_error(Code::protocol_violation));
  EXPECT_THAT(refused({{.name = "x", .sample_shape = {1ULL << 33}}}, 1, 16), is_error(Code::protocol_violation));
  // slots x bytes beyond 2^64 would make a tiny region look large enough.
  EXPECT_THAT(refused({{.name = "x", .dtype = Dtype::u8, .sample_shape = {1ULL << 35}}}, 1U << 30),
              is_error(Code::protocol_violation));
}

TEST(SlotLayoutTest, SurvivesJsonAndRefusesOtherOffsets) {
  const auto layout = make_slot_layout(picture_fields(), 3, 5).value();
  const auto read = SlotLayout::from_json(layout.to_json());
  ASSERT_THAT(read, is_ok());
  EXPECT_EQ(read->fields, layout.fields);
  EXPECT_EQ(read->field_offsets, layout.field_offsets);
  EXPECT_EQ(read->region_bytes(), layout.region_bytes());
  Json lie = layout.to_json();
  lie["slot_bytes"] = layout.slot_bytes + 4096;
  EXPECT_THAT(SlotLayout::from_json(lie), is_error(Code::protocol_violation));
  lie = layout.to_json();
  lie.find("tensors")->mutable_items()[0]["dtype"] = "F17";
  EXPECT_THAT(SlotLayout::from_json(lie), is_error(Code::protocol_violation));
  lie = layout.to_json();
  lie.find("tensors")->mutable_items()[0]["sample_shape"] = Json::array({-1});
  EXPECT_THAT(SlotLayout::from_json(lie), is_error(Code::protocol_violation));
  lie = layout.to_json();
  lie.erase("capacity");
  EXPECT_THAT(SlotLayout::from_json(lie), is_error(Code::json_invalid));
}

/// One ring in shared memory with slot 1 filled: 3 rows of which 2 count.
class SlotTest : public ::testing::Test {
 protected:
  void SetUp() override {
    layout_ = make_slot_layout(picture_fields(), 2, 4).value();
    region_ = Region::make("slot-test", layout_.region_bytes()).value();
    std::ranges::fill(region_.bytes(), std::byte{0xAA});  // what an earlier batch left
    SlotWriter writer(layout_, region_.bytes(), 1);
    writer.begin(2, Step{7}, 3, 3);
    for (std::uint32_t row = 0; row < 3; ++row) {
      const std::vector<float> pixels(9, static_cast<float>(row) + 0.5F);
      const std::int64_t label = row + 40;
      std::memcpy(writer.row(0, row).data(), pixels.data(), writer.row(0, row).size());
      std::memcpy(writer.row(1, row).data(), &label, sizeof label);
      writer.set_id(row, SampleId{100 + row});
    }
    hash_ = writer.finish(2);
  }
  std::span<std::byte> slot() const { return region_.bytes().subspan(layout_.slot_bytes, layout_.slot_bytes); }

  SlotLayout layout_;
  Region region_;
  std::uint64_t hash_ = 0;
};

TEST_F(SlotTest, WhatIsWrittenIsRead) {
  const auto view = read_slot(slot());
  ASSERT_THAT(view, is_ok());
  EXPECT_EQ(view->header.slot, 1U);
  EXPECT_EQ(view->header.epoch, 2U);
  EXPECT_EQ(view->header.step, 7U);
  EXPECT_EQ(view->header.micro_step, 3U);
  EXPECT_EQ(view->header.sample_count, 3U);
  EXPECT_EQ(view->header.valid_count, 2U);
  EXPECT_EQ(view->header.content_hash, hash_);
  EXPECT_THAT(view->ids, ElementsAre(100U, 101U, UINT64_MAX));
  const SlotTensor* pixels = view->find("pixel_values");
  ASSERT_NE(pixels, nullptr);
  EXPECT_THAT(pixels->shape, ElementsAre(3U, 1U, 3U, 3U));
  std::vector<float> values(27);
  ASSERT_EQ(pixels->bytes.size(), values.size() * sizeof(float));
  std::memcpy(values.data(), pixels->bytes.data(), pixels->bytes.size());
  EXPECT_THAT(std::span(values).subspan(9, 9), Each(1.5F));
  EXPECT_THAT(std::span(values).subspan(18, 9), Each(0.0F));  // padding is zero, not what an earlier batch left
  EXPECT_EQ(view->find("absent"), nullptr);
}

TEST_F(SlotTest, TheHashCoversValidIdsAndRowsOnly) {
  Xxh3Stream expected;
  const auto view = read_slot(slot()).value();
  expected.update(std::as_bytes(view.ids.first(2)));
  expected.update(view.tensors[0].bytes.first(std::size_t{2} * 9 * 4));
  expected.update(view.tensors[1].bytes.first(std::size_t{2} * 8));
  EXPECT_EQ(hash_, expected.digest_64());
  SlotWriter writer(layout_, region_.bytes(), 1);
  writer.row(1, 0)[0] = std::byte{99};
  EXPECT_NE(writer.finish(2), hash_);
}

TEST_F(SlotTest, WritingOneSlotLeavesItsNeighbourAlone) {
  EXPECT_THAT(region_.bytes().first(layout_.slot_bytes), Each(std::byte{0xAA}));
  EXPECT_THAT(read_slot(region_.bytes().first(layout_.slot_bytes)), is_error(Code::protocol_violation));
}

TEST_F(SlotTest, BugsOfTheWriterStopTheProcess) {
  EXPECT_EXIT((SlotWriter{layout_, region_.bytes(), 2}), ::testing::ExitedWithCode(70), "");
  SlotWriter writer(layout_, region_.bytes(), 0);
  EXPECT_EXIT(writer.begin(0, Step{1}, 0, 5), ::testing::ExitedWithCode(70), "");
  writer.begin(0, Step{1}, 0, 2);
  EXPECT_EXIT((void)writer.finish(3), ::testing::ExitedWithCode(70), "");
  EXPECT_EXIT((void)writer.row(2, 0), ::testing::ExitedWithCode(70), "");
}

TEST_F(SlotTest, AShortSlotIsRefusedAtEveryLength) {
  const auto needed = layout_.field_offsets[1] + 3 * sizeof(std::int64_t);
  for (std::size_t size = 0; size < needed; size += size < 2048 ? 61 : 1) {
    EXPECT_THAT(read_slot(slot().first(size)), is_error(Code::protocol_violation)) << size;
  }
  EXPECT_THAT(read_slot(slot().first(needed)), is_ok());
}

/// Every member of header and descriptor, with values that a hostile peer could write there.
struct Mutation {
  const char* what;
  std::size_t offset;
  std::uint64_t value;
  std::size_t bytes;
};

std::vector<Mutation> mutations() {
  constexpr std::size_t kTensor = sizeof(SlotHeader);
  constexpr std::size_t kShape = kTensor + offsetof(TensorDescriptor, shape);
  return {
      {"magic", offsetof(SlotHeader, magic), 0, 4},
      {"version", offsetof(SlotHeader, version), 2, 4},
      {"kind", offsetof(SlotHeader, kind), 3, 4},
      {"kind, largest", offsetof(SlotHeader, kind), UINT32_MAX, 4},
      {"more rows than the tensors say", offsetof(SlotHeader, sample_count), 4, 4},
      {"rows beyond the slot", offsetof(SlotHeader, sample_count), UINT32_MAX, 4},
      {"more valid rows than rows", offsetof(SlotHeader, valid_count), 4, 4},
      {"valid rows, largest", offsetof(SlotHeader, valid_count), UINT32_MAX, 4},
      {"a tensor that was never described", offsetof(SlotHeader, tensor_count), 3, 4},
      {"more tensors than descriptors", offsetof(SlotHeader, tensor_count), kMaxTensors + 1, 4},
      {"tensors, largest", offsetof(SlotHeader, tensor_count), UINT32_MAX, 4},
      {"ids beyond the slot", offsetof(SlotHeader, ids_offset_bytes), 1ULL << 20, 8},
      {"ids that wrap around", offsetof(SlotHeader, ids_offset_bytes), UINT64_MAX - 7, 8},
      {"ids not aligned", offsetof(SlotHeader, ids_offset_bytes), 2049, 8},
      {"empty name", kTensor, 0, 8},
      {"unknown dtype", kTensor + offsetof(TensorDescriptor, dtype), 22, 4},
      {"dtype, largest", kTensor + offsetof(TensorDescriptor, dtype), UINT32_MAX, 4},
      {"a wider dtype reaches beyond the slot", kTensor + offsetof(TensorDescriptor, offset_bytes), 4096 - 64, 8},
      {"rank 0", kTensor + offsetof(TensorDescriptor, rank), 0, 4},
      {"rank above the limit", kTensor + offsetof(TensorDescriptor, rank), kMaxTensorRank + 1, 4},
      {"rank, largest", kTensor + offsetof(TensorDescriptor, rank), UINT32_MAX, 4},
      {"first dimension is not the rows", kShape, 2, 8},
      {"dimension beyond the slot", kShape + 16, 1ULL << 20, 8},
      {"dimension that overflows", kShape + 16, UINT64_MAX, 8},
      {"dimensions whose product overflows", kShape + 8, 1ULL << 63, 8},
      {"offset beyond the slot", kTensor + offsetof(TensorDescriptor, offset_bytes), 1ULL << 20, 8},
      {"offset that wraps around", kTensor + offsetof(TensorDescriptor, offset_bytes), UINT64_MAX - 63, 8},
      {"offset not aligned", kTensor + offsetof(TensorDescriptor, offset_bytes), 2440, 8},
  };
}

TEST_F(SlotTest, HostileHeadersAreViolationsAndNeverCrashes) {
  ASSERT_THAT(read_slot(slot()), is_ok());
  const std::vector<std::byte> good(slot().begin(), slot().end());
  for (const auto& mutation : mutations()) {
    std::memcpy(slot().data() + mutation.offset, &mutation.value, mutation.bytes);
    EXPECT_THAT(read_slot(slot()), is_error(Code::protocol_violation)) << mutation.what;
    std::ranges::copy(good, slot().begin());
  }
}

TEST_F(SlotTest, ANameWithoutEndIsAViolation) {
  std::ranges::fill(slot().subspan(sizeof(SlotHeader), kTensorNameBytes), std::byte{'n'});
  EXPECT_THAT(read_slot(slot()), is_error(Code::protocol_violation));
}

TEST_F(SlotTest, EveryByteOfTheHeadMayBeAnything) {
  // Whatever a peer writes, reading ends with a view whose every byte lies inside the slot, or with a violation.
  const std::vector<std::byte> good(slot().begin(), slot().end());
  std::size_t refused = 0;
  for (std::size_t at = 0; at < sizeof(SlotHeader) + 2 * sizeof(TensorDescriptor); ++at) {
    for (const std::byte value : {std::byte{0}, std::byte{1}, std::byte{0x7F}, std::byte{0x80}, std::byte{0xFF}}) {
      slot()[at] = value;
      const auto view = read_slot(slot());
      if (!view.ok()) {
        ++refused;
        continue;
      }
      for (const auto& tensor : view->tensors) {
        EXPECT_GE(tensor.bytes.data(), slot().data());
        EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), slot().data() + slot().size());
      }
    }
    slot()[at] = good[at];
  }
  EXPECT_GT(refused, 100U);
  EXPECT_THAT(read_slot(slot()), is_ok());
}

TEST_F(SlotTest, AnEmptyBatchReads) {
  SlotWriter writer(layout_, region_.bytes(), 0);
  writer.begin(0, Step{1}, 0, 2);
  EXPECT_EQ(writer.finish(0), xxh3_64({}));
  const auto view = read_slot(region_.bytes().first(layout_.slot_bytes));
  ASSERT_THAT(view, is_ok());
  EXPECT_EQ(view->header.valid_count, 0U);
  EXPECT_THAT(view->ids, Each(UINT64_MAX));
}

}  // namespace
}  // namespace parascale::protocol
