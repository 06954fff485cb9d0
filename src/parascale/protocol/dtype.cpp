#include "parascale/protocol/dtype.h"

#include <array>
#include <cstddef>

namespace parascale {

namespace {

struct Row {
  std::string_view name;
  std::uint32_t bits;
};

// In the order of the enumerators.
constexpr std::array<Row, 22> kRows = {{{"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8},
                                        {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},
                                        {"F16", 16},    {"BF16", 16},       {"I32", 32},        {"U32", 32},    {"F32", 32},
                                        {"I64", 64},    {"U64", 64},        {"F64", 64},        {"C64", 64},    {"F4", 4},
                                        {"F6_E2M3", 6}, {"F6_E3M2", 6}}};

}  // namespace

std::string_view dtype_name(Dtype dtype) { return kRows.at(static_cast<std::size_t>(dtype)).name; }

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows.at(i).name == name) {
      return static_cast<Dtype>(i);
    }
  }
  return std::nullopt;
}

std::uint32_t dtype_bits(Dtype dtype) { return kRows.at(static_cast<std::size_t>(dtype)).bits; }

std::optional<std::uint64_t> tensor_bytes(Dtype dtype, std::span<const std::uint64_t> shape) {
  constexpr std::uint64_t kMax = 1ULL << 63;
  std::uint64_t bits = dtype_bits(dtype);
  bool empty = false;
  for (const std::uint64_t size : shape) {
    if (size == 0) {
      empty = true;
    } else if (bits > kMax / size) {
      return std::nullopt;
    } else {
      bits *= size;
    }
  }
  if (empty) {
    return 0;
  }
  return bits % 8 == 0 ? std::optional(bits / 8) : std::nullopt;
}

}  // namespace parascale
