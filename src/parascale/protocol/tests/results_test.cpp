#include "parascale/protocol/results.h"

#include <gmock/gmock.h>

#include <vector>

#include "tests/support/matchers.h"

namespace parascale::protocol {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;

TEST(Results, what_is_written_is_read) {
  const ResultsLayout layout = make_results_layout(3, 5, 2);
  std::vector<std::uint64_t> memory(layout.region_bytes() / 8);
  const auto region = std::as_writable_bytes(std::span(memory));
  const std::vector<std::uint64_t> ids = {7, 9};
  const std::vector<float> values = {1.0F, 2.0F, 3.0F, 4.0F};
  write_results(layout, region, 1, ids, values);
  auto view = read_results(layout, region, 1);
  ASSERT_THAT(view, is_ok());
  EXPECT_THAT(view->ids, ::testing::ElementsAre(7U, 9U));
  EXPECT_THAT(view->row(1), ::testing::ElementsAre(3.0F, 4.0F));
  EXPECT_THAT(read_results(layout, region, 0), is_error(Code::protocol_violation));  // never written
  EXPECT_THAT(read_results(layout, region, 3), is_error(Code::protocol_violation));
  EXPECT_THAT(read_results(layout, region.subspan(64), 1), is_error(Code::protocol_violation));
}

TEST(Results, a_peers_row_count_is_bounded) {
  const ResultsLayout layout = make_results_layout(1, 2, 1);
  std::vector<std::uint64_t> memory(layout.region_bytes() / 8);
  const auto region = std::as_writable_bytes(std::span(memory));
  write_results(layout, region, 0, {}, {});
  ASSERT_THAT(read_results(layout, region, 0), is_ok());
  region[offsetof(ResultHeader, rows)] = std::byte{3};
  EXPECT_THAT(read_results(layout, region, 0), is_error(Code::protocol_violation));
}

TEST(Results, layout_survives_json_and_refuses_other_sizes) {
  const ResultsLayout layout = make_results_layout(3, 5, 2);
  Json json = layout.to_json();
  auto read = ResultsLayout::from_json(json);
  ASSERT_THAT(read, is_ok());
  EXPECT_EQ(read->block_bytes, layout.block_bytes);
  json["block_bytes"] = 64;
  EXPECT_THAT(ResultsLayout::from_json(json), is_error(Code::protocol_violation));
  json = layout.to_json();
  json["columns"] = 0;
  EXPECT_THAT(ResultsLayout::from_json(json), is_error(Code::protocol_violation));
  json["columns"] = ~0U;
  json["capacity"] = ~0U;
  EXPECT_THAT(ResultsLayout::from_json(json), is_error(Code::protocol_violation));
}

TEST(Results, a_region_whose_size_overflows_is_refused) {
  // 2^36 bytes a block and 2^30 blocks: the product would wrap around and make a tiny region look large enough.
  const ResultsLayout layout = make_results_layout(1U << 30, 1U << 12, 1U << 20);
  EXPECT_THAT(ResultsLayout::from_json(layout.to_json()), is_error(Code::protocol_violation));
}

TEST(Results, every_member_of_a_hostile_header_is_checked) {
  const ResultsLayout layout = make_results_layout(2, 3, 2);
  std::vector<std::uint64_t> memory(layout.region_bytes() / 8);
  const auto region = std::as_writable_bytes(std::span(memory));
  const std::vector<std::uint64_t> ids = {1};
  const std::vector<float> values = {1.0F, 2.0F};
  for (const std::size_t member : {offsetof(ResultHeader, magic), offsetof(ResultHeader, version), offsetof(ResultHeader, slot),
                                   offsetof(ResultHeader, rows), offsetof(ResultHeader, columns)}) {
    write_results(layout, region, 1, ids, values);
    ASSERT_THAT(read_results(layout, region, 1), is_ok());
    region[layout.block_bytes + member + 3] = std::byte{0xFF};
    EXPECT_THAT(read_results(layout, region, 1), is_error(Code::protocol_violation)) << member;
  }
}

}  // namespace
}  // namespace parascale::protocol
