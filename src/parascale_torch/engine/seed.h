#pragma once

#include <cstdint>

namespace parascale::native {

/// What a micro-step's random numbers follow from.
struct SeedKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t micro_step = 0;
  std::uint64_t rank = 0;
};

/// First 8 bytes (little-endian) of SHA-256 over the four little-endian u64 seed, step, micro-step, rank (worker protocol 1).
std::uint64_t derive_seed(const SeedKey& key);
/// Seeds the library's default generator for one micro-step: a resumed run draws the same numbers.
void reseed(const SeedKey& key);

}  // namespace parascale::native
