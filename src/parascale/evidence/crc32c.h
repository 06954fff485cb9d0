#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace parascale::evidence {

/// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78, RFC 3720 appendix B.4) of `bytes`.
std::uint32_t crc32c(std::span<const std::byte> bytes);

/// The masked form that TFRecord files store, so that a CRC over data that contains CRCs stays strong: rotate right by 15, add
/// 0xA282EAD8.
std::uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace parascale::evidence
