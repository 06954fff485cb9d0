#include "parascale/data/counter_random.h"

#include "parascale/base/check.h"

namespace parascale::data {

namespace {

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32U); }

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1], low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

std::array<std::uint32_t, 4> SampleRandom::words(RandomOp op, std::uint32_t index) const {
  PS_CHECK(index < (1U << 24U), "the index of a random number fits 24 bits");
  const std::uint32_t stream = static_cast<std::uint32_t>(op) << 24U | index;
  return philox4x32({low(sample_.value), high(sample_.value), low(epoch_), stream}, {low(seed_), high(seed_)});
}

std::array<double, 4> SampleRandom::uniforms(RandomOp op, std::uint32_t index) const {
  const auto drawn = words(op, index);
  std::array<double, 4> out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = drawn[i] * 0x1p-32;
  }
  return out;
}

std::uint64_t SampleRandom::below(std::uint64_t bound, RandomOp op, std::uint32_t index) const {
  PS_CHECK(bound > 0, "a bound is at least 1");
  const auto drawn = words(op, index);
  const std::uint64_t bits = std::uint64_t{drawn[1]} << 32U | drawn[0];
  // High half of a 64 x 64 bit product (D. Lemire, "Fast random integer generation in an interval", 2019), in 32-bit pieces.
  const std::uint64_t low_low = (bits & 0xffffffffU) * (bound & 0xffffffffU);
  const std::uint64_t low_high = (bits & 0xffffffffU) * (bound >> 32U);
  const std::uint64_t high_low = (bits >> 32U) * (bound & 0xffffffffU);
  const std::uint64_t high_high = (bits >> 32U) * (bound >> 32U);
  const std::uint64_t middle = (low_low >> 32U) + (low_high & 0xffffffffU) + (high_low & 0xffffffffU);
  return high_high + (low_high >> 32U) + (high_low >> 32U) + (middle >> 32U);
}

}  // namespace parascale::data
