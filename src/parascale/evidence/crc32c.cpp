#include "parascale/evidence/crc32c.h"

#include <array>
#include <bit>

namespace parascale::evidence {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1U) ^ ((value & 1U) != 0 ? 0x82F63B78U : 0U);
    }
    table[byte] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const std::byte byte : bytes) {
    crc = (crc >> 8U) ^ kTable[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xFFU];
  }
  return ~crc;
}

std::uint32_t masked_crc32c(std::span<const std::byte> bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U; }

}  // namespace parascale::evidence
