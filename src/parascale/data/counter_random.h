#pragma once

#include <array>
#include <cstdint>

#include "parascale/base/ids.h"

namespace parascale::data {

/// Philox4x32-10: a bijection of 128-bit counters under a 64-bit key, used as a random number generator without state.
/// Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Checked against the
/// paper's test vectors.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// What a sample's random numbers are for; each purpose has its own stream. Values are part of the reproducibility contract:
/// never renumber.
enum class RandomOp : std::uint32_t { affine = 1, replacement = 2, order = 3, synthetic = 4 };

/// Random numbers of one sample in one epoch: a pure function of (seed, epoch, sample, op, index), independent of threads and of
/// each other.
///
/// Key: the seed. Counter words: sample (low, high), epoch (low 32 bits), op (high 8 bits) and index (low 24 bits). *thread-safe*
class SampleRandom {
 public:
  SampleRandom(std::uint64_t seed, std::uint64_t epoch, SampleId sample) : seed_(seed), epoch_(epoch), sample_(sample) {}

  /// Four uniform words; `index` below 2^24.
  std::array<std::uint32_t, 4> words(RandomOp op, std::uint32_t index = 0) const;
  /// Four uniform numbers in [0, 1), multiples of 2^-32.
  std::array<double, 4> uniforms(RandomOp op, std::uint32_t index = 0) const;
  /// A uniform integer in [0, bound), bound at least 1; from 64 random bits, so the bias is below bound / 2^64.
  std::uint64_t below(std::uint64_t bound, RandomOp op, std::uint32_t index = 0) const;

 private:
  std::uint64_t seed_;
  std::uint64_t epoch_;
  SampleId sample_;
};

}  // namespace parascale::data
