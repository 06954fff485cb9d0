#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace parascale {

/// Element type of a tensor, spelled as in safetensors files.
enum class Dtype : std::uint32_t {
  boolean = 0,
  u8 = 1,
  i8 = 2,
  f8_e5m2 = 3,
  f8_e4m3 = 4,
  f8_e8m0 = 5,
  f8_e4m3fnuz = 6,
  f8_e5m2fnuz = 7,
  i16 = 8,
  u16 = 9,
  f16 = 10,
  bf16 = 11,
  i32 = 12,
  u32 = 13,
  f32 = 14,
  i64 = 15,
  u64 = 16,
  f64 = 17,
  c64 = 18,
  f4 = 19,
  f6_e2m3 = 20,
  f6_e3m2 = 21,
};

/// Returns the safetensors name: `F32`, `BF16`, `BOOL`, ...
std::string_view dtype_name(Dtype dtype);
std::optional<Dtype> dtype_from_name(std::string_view name);
/// Bits of one element; below 8 for packed types.
std::uint32_t dtype_bits(Dtype dtype);

/// Bytes of a tensor, or nothing when the product overflows 2^63 or is not a whole number of bytes.
std::optional<std::uint64_t> tensor_bytes(Dtype dtype, std::span<const std::uint64_t> shape);

}  // namespace parascale
