#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace parascale {

/// A number that cannot be mixed up with another kind of number. Compares and hashes like its value.
template <typename Tag, typename Value>
struct Id {
  Value value{};

  friend auto operator<=>(const Id&, const Id&) = default;
  Id& operator++() {
    ++value;
    return *this;
  }
};

/// Optimizer step; 0 is the fresh start weights, the first update makes 1.
using Step = Id<struct StepTag, std::uint64_t>;
/// Data-parallel rank, from 0.
using Rank = Id<struct RankTag, std::uint32_t>;
/// Position of a sample in a split's index, from 0: stable as long as the index's fingerprint is.
using SampleId = Id<struct SampleIdTag, std::uint64_t>;

}  // namespace parascale

template <typename Tag, typename Value>
struct std::hash<parascale::Id<Tag, Value>> {
  std::size_t operator()(const parascale::Id<Tag, Value>& id) const noexcept { return std::hash<Value>{}(id.value); }
};
