#include "parascale/data/order.h"

#include <algorithm>
#include <bit>

#include "parascale/base/check.h"
#include "parascale/data/counter_random.h"

namespace parascale::data {

namespace {

/// Finaliser of splitmix64 (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014).
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t count) : count_(count) {
  PS_CHECK(count >= 1 && count <= (1ULL << 62U), "a permutation has 1 to 2^62 elements");
  const auto bits = static_cast<unsigned>(std::bit_width(count - 1));
  half_bits_ = std::max(4U, (bits + 1) / 2);
  half_mask_ = (1ULL << half_bits_) - 1;
  const SampleRandom random(seed, epoch, SampleId{0});
  for (std::size_t i = 0; i < kRounds; ++i) {
    const auto words = random.words(RandomOp::order, static_cast<std::uint32_t>(i));
    keys_[i] = std::uint64_t{words[1]} << 32U | words[0];
  }
}

std::uint64_t Permutation::round(std::size_t index, std::uint64_t half) const { return mix(half + keys_[index]) & half_mask_; }

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & half_mask_;
  for (std::size_t i = 0; i < kRounds; ++i) {
    const std::uint64_t next = left ^ round(i, right);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

std::uint64_t Permutation::decrypt(std::uint64_t value) const {
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & half_mask_;
  for (std::size_t i = kRounds; i-- > 0;) {
    const std::uint64_t previous = right ^ round(i, left);
    right = left;
    left = previous;
  }
  return left << half_bits_ | right;
}

std::uint64_t Permutation::operator()(std::uint64_t position) const {
  PS_CHECK(position < count_, "a position lies inside its epoch");
  std::uint64_t value = encrypt(position);
  while (value >= count_) {
    value = encrypt(value);
  }
  return value;
}

std::uint64_t Permutation::position_of(std::uint64_t value) const {
  PS_CHECK(value < count_, "a sample lies inside its epoch");
  std::uint64_t position = decrypt(value);
  while (position >= count_) {
    position = decrypt(position);
  }
  return position;
}

}  // namespace parascale::data
