#include "parascale/protocol/results.h"

#include <fmt/core.h>

#include <cstring>

namespace parascale::protocol {

namespace {

constexpr std::uint64_t kMaxBlockBytes = 1ULL << 36;
constexpr std::uint64_t kMaxRegionBytes = 1ULL << 40;

Error violation(std::string message) { return Error(Code::protocol_violation, std::move(message)); }

std::uint64_t values_offset(const ResultsLayout& layout) {
  return sizeof(ResultHeader) + std::uint64_t{layout.capacity} * sizeof(std::uint64_t);
}

}  // namespace

ResultsLayout make_results_layout(std::uint32_t slot_count, std::uint32_t capacity, std::uint32_t columns) {
  ResultsLayout layout{.slot_count = slot_count, .capacity = capacity, .columns = columns};
  const std::uint64_t bytes = values_offset(layout) + std::uint64_t{capacity} * columns * sizeof(float);
  layout.block_bytes = (bytes + 63) / 64 * 64;
  return layout;
}

Json ResultsLayout::to_json() const {
  return Json::object({{"slot_count", slot_count}, {"capacity", capacity}, {"columns", columns}, {"block_bytes", block_bytes}});
}

Result<ResultsLayout> ResultsLayout::from_json(const Json& json) {
  PS_ASSIGN(const auto slot_count, json.get<std::uint32_t>("slot_count"));
  PS_ASSIGN(const auto capacity, json.get<std::uint32_t>("capacity"));
  PS_ASSIGN(const auto columns, json.get<std::uint32_t>("columns"));
  PS_ASSIGN(const auto block_bytes, json.get<std::uint64_t>("block_bytes"));
  // The product of two 32-bit counts fits 64 bits; its size in bytes must be bounded before it is computed.
  const std::uint64_t values = std::uint64_t{capacity} * columns;
  if (slot_count == 0 || values == 0 || values > kMaxBlockBytes / sizeof(float)) {
    return violation(fmt::format("result blocks of {} x {} values cannot be laid out", capacity, columns));
  }
  const ResultsLayout layout = make_results_layout(slot_count, capacity, columns);
  if (slot_count > kMaxRegionBytes / layout.block_bytes) {
    return violation(
        fmt::format("{} result blocks of {} bytes are larger than {}", slot_count, layout.block_bytes, kMaxRegionBytes));
  }
  if (layout.block_bytes != block_bytes) {
    return violation(fmt::format("result blocks of {} bytes were announced as {}", layout.block_bytes, block_bytes));
  }
  return layout;
}

void write_results(const ResultsLayout& layout, std::span<std::byte> region, std::uint32_t slot,
                   std::span<const std::uint64_t> ids, std::span<const float> values) {
  PS_CHECK(slot < layout.slot_count && ids.size() <= layout.capacity && values.size() == ids.size() * layout.columns &&
               region.size() >= layout.region_bytes(),
           "the results fit their block");
  const std::span<std::byte> block = region.subspan(slot * layout.block_bytes, layout.block_bytes);
  ResultHeader header{};
  header.magic = kResultsMagic;
  header.version = kResultsVersion;
  header.slot = slot;
  header.rows = static_cast<std::uint32_t>(ids.size());
  header.columns = layout.columns;
  std::memcpy(block.data(), &header, sizeof header);
  if (!ids.empty()) {
    std::memcpy(block.data() + sizeof header, ids.data(), ids.size_bytes());
    std::memcpy(block.data() + values_offset(layout), values.data(), values.size_bytes());
  }
}

Result<ResultsView> read_results(const ResultsLayout& layout, std::span<const std::byte> region, std::uint32_t slot) {
  if (slot >= layout.slot_count || region.size() < layout.region_bytes()) {
    return violation("a result block lies outside its region");
  }
  const std::span<const std::byte> block = region.subspan(slot * layout.block_bytes, layout.block_bytes);
  ResultsView view;
  std::memcpy(&view.header, block.data(), sizeof view.header);
  const ResultHeader& header = view.header;
  if (header.magic != kResultsMagic || header.version != kResultsVersion || header.slot != slot ||
      header.columns != layout.columns || header.rows > layout.capacity) {
    return violation("a result block has a header outside its bounds");
  }
  const void* ids = block.data() + sizeof header;
  const void* values = block.data() + values_offset(layout);
  view.ids = {static_cast<const std::uint64_t*>(ids), header.rows};
  view.values = {static_cast<const float*>(values), std::size_t{header.rows} * header.columns};
  return view;
}

}  // namespace parascale::protocol
