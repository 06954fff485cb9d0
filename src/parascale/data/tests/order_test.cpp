#include "parascale/data/order.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "parascale/data/counter_random.h"

namespace parascale::data {
namespace {

using ::testing::ElementsAre;

TEST(Philox, gives_the_published_vectors) {
  // Known-answer vectors of the Random123 distribution, "philox4x32 10".
  EXPECT_THAT(philox4x32({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U));
  EXPECT_THAT(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U));
}

TEST(SampleRandom, streams_differ_in_every_part_of_the_key) {
  const auto base = SampleRandom(1, 2, SampleId{3}).words(RandomOp::affine);
  EXPECT_EQ(base, SampleRandom(1, 2, SampleId{3}).words(RandomOp::affine));
  EXPECT_NE(base, SampleRandom(0, 2, SampleId{3}).words(RandomOp::affine));
  EXPECT_NE(base, SampleRandom(1, 3, SampleId{3}).words(RandomOp::affine));
  EXPECT_NE(base, SampleRandom(1, 2, SampleId{4}).words(RandomOp::affine));
  EXPECT_NE(base, SampleRandom(1, 2, SampleId{3}).words(RandomOp::replacement));
  EXPECT_NE(base, SampleRandom(1, 2, SampleId{3}).words(RandomOp::affine, 1));
  EXPECT_NE(base, SampleRandom(1ULL << 32U | 1U, 2, SampleId{3}).words(RandomOp::affine));
  EXPECT_NE(base, SampleRandom(1, 2, SampleId{1ULL << 32U | 3U}).words(RandomOp::affine));
}

TEST(SampleRandom, below_is_uniform_and_bounded) {
  constexpr std::uint64_t kBound = 10;
  constexpr int kDraws = 20'000;
  std::vector<int> counts(kBound);
  for (std::uint64_t id = 0; id < kDraws; ++id) {
    const auto value = SampleRandom(7, 0, SampleId{id}).below(kBound, RandomOp::replacement);
    ASSERT_LT(value, kBound);
    ++counts[value];
  }
  double chi_square = 0.0;
  for (const int count : counts) {
    chi_square += std::pow(count - kDraws / 10.0, 2) / (kDraws / 10.0);
  }
  EXPECT_LT(chi_square, 27.9);  // 9 degrees of freedom, p = 0.001
  EXPECT_EQ(SampleRandom(7, 0, SampleId{0}).below(1, RandomOp::replacement), 0U);
  for (std::uint64_t id = 0; id < 100; ++id) {
    EXPECT_LT(SampleRandom(7, 0, SampleId{id}).below((1ULL << 63U) + 5, RandomOp::replacement), (1ULL << 63U) + 5);
  }
}

TEST(Permutation, is_a_bijection_for_many_sizes) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t n = 1; n <= 300; ++n) {
    sizes.push_back(n);
  }
  for (const std::uint64_t n : {1000U, 1023U, 1024U, 1025U, 4095U, 4096U, 4097U, 65'535U, 65'536U, 65'537U, 100'003U}) {
    sizes.push_back(n);
  }
  for (const std::uint64_t count : sizes) {
    const Permutation permutation(42, 3, count);
    std::vector<bool> seen(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto value = permutation(i);
      ASSERT_LT(value, count);
      ASSERT_FALSE(seen[value]) << count;
      seen[value] = true;
      ASSERT_EQ(permutation.position_of(value), i);
    }
  }
}

TEST(Permutation, works_on_huge_sizes) {
  const Permutation permutation(1, 1, (1ULL << 62U) - 11);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(permutation.position_of(permutation(i * 4'611'686'018'427'387ULL)), i * 4'611'686'018'427'387ULL);
  }
}

TEST(Permutation, depends_on_seed_and_epoch) {
  const auto first = [](std::uint64_t seed, std::uint64_t epoch) {
    const Permutation permutation(seed, epoch, 4000);
    std::vector<std::uint64_t> out;
    for (std::uint64_t i = 0; i < 50; ++i) {
      out.push_back(permutation(i));
    }
    return out;
  };
  EXPECT_EQ(first(1, 0), first(1, 0));
  EXPECT_NE(first(1, 0), first(1, 1));
  EXPECT_NE(first(1, 0), first(2, 0));
}

TEST(Permutation, spreads_values_and_neighbours) {
  constexpr std::uint64_t kCount = 4000;
  constexpr int kBuckets = 20;
  std::vector<double> hits(kBuckets);
  double distance = 0.0;
  constexpr int kEpochs = 50;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Permutation permutation(9, epoch, kCount);
    for (std::uint64_t i = 0; i < 200; ++i) {  // the first positions of an epoch come from everywhere
      hits[permutation(i) * kBuckets / kCount] += 1;
      distance += std::abs(static_cast<double>(permutation(i)) - static_cast<double>(permutation(i + 1)));
    }
  }
  double chi_square = 0.0;
  const double expected = kEpochs * 200.0 / kBuckets;
  for (const double hit : hits) {
    chi_square += (hit - expected) * (hit - expected) / expected;
  }
  EXPECT_LT(chi_square, 43.8);                                          // 19 degrees of freedom, p = 0.001
  EXPECT_NEAR(distance / (kEpochs * 200.0) / kCount, 1.0 / 3.0, 0.01);  // mean distance of two random places
}

TEST(Permutation, small_sizes_reach_every_order) {
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t epoch = 0; epoch < 2000; ++epoch) {
    const Permutation permutation(5, epoch, 4);
    orders.insert({permutation(0), permutation(1), permutation(2), permutation(3)});
  }
  EXPECT_EQ(orders.size(), 24U);
}

TEST(Order, shuffles_training_only) {
  const Order train(Split::train, 1, 2, 100);
  const Permutation permutation(1, 2, 100);
  const Order validation(Split::validation, 1, 2, 100);
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(train.at(i).value, permutation(i));
    EXPECT_EQ(validation.at(i).value, i);
  }
}

}  // namespace
}  // namespace parascale::data
