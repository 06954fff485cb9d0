#pragma once

#include <array>
#include <cstdint>

#include "parascale/base/ids.h"
#include "parascale/data/options.h"

namespace parascale::data {

/// A keyed permutation of [0, count) in O(1) memory and time: the order of an epoch.
///
/// A balanced Feistel network (M. Luby, C. Rackoff, 1988) of 8 rounds permutes [0, 4^h), the smallest such domain that holds
/// count (at least 4^4); values outside [0, count) are fed in again until one lies inside ("cycle walking": J. Black, P. Rogaway,
/// 2002), less than 4 times on average for count above 64. The round function mixes the right half with a round key (finaliser of
/// splitmix64); round keys are Philox words of (seed, epoch). *thread-safe*
class Permutation {
 public:
  /// `count` 1..2^62.
  Permutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t count);

  std::uint64_t size() const { return count_; }
  /// Position -> value; `position` below size().
  std::uint64_t operator()(std::uint64_t position) const;
  /// Value -> position: the inverse.
  std::uint64_t position_of(std::uint64_t value) const;

 private:
  static constexpr std::size_t kRounds = 8;
  std::uint64_t round(std::size_t index, std::uint64_t half) const;
  std::uint64_t encrypt(std::uint64_t value) const;
  std::uint64_t decrypt(std::uint64_t value) const;

  std::uint64_t count_;
  unsigned half_bits_;
  std::uint64_t half_mask_;
  std::array<std::uint64_t, kRounds> keys_{};
};

/// Which sample stands at a position of an epoch: the permutation of (seed, epoch) for training, the index order otherwise. A
/// pure function, so a run can go on anywhere. *thread-safe*
class Order {
 public:
  Order(Split split, std::uint64_t seed, std::uint64_t epoch, std::uint64_t count)
      : shuffled_(split == Split::train), permutation_(seed, epoch, count) {}

  SampleId at(std::uint64_t position) const { return SampleId{shuffled_ ? permutation_(position) : position}; }

 private:
  bool shuffled_;
  Permutation permutation_;
};

}  // namespace parascale::data
