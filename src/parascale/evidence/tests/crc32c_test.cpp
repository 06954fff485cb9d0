#include "parascale/evidence/crc32c.h"

#include <array>

#include <gtest/gtest.h>

#include "parascale/base/hash.h"

namespace parascale::evidence {
namespace {

// Vectors of RFC 3720 appendix B.4 and the usual check value.
TEST(Crc32cTest, KnownVectors) {
  std::array<std::byte, 32> bytes{};
  EXPECT_EQ(crc32c(bytes), 0x8A9136AAU);
  bytes.fill(std::byte{0xFF});
  EXPECT_EQ(crc32c(bytes), 0x62A8AB43U);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i);
  }
  EXPECT_EQ(crc32c(bytes), 0x46DD794EU);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(31 - i);
  }
  EXPECT_EQ(crc32c(bytes), 0x113FDB5CU);
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(Crc32cTest, MaskRotatesAndAdds) {
  EXPECT_EQ(masked_crc32c({}), 0xA282EAD8U);
  const std::uint32_t plain = 0xE3069283U;
  EXPECT_EQ(masked_crc32c(as_bytes("123456789")), ((plain >> 15U) | (plain << 17U)) + 0xA282EAD8U);
}

}  // namespace
}  // namespace parascale::evidence
