#include "parascale/base/bounded_queue.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/matchers.h"

namespace parascale {
namespace {

TEST(BoundedQueueTest, KeepsOrder) {
  BoundedQueue<int> queue(3);
  EXPECT_TRUE(queue.push(1));
  EXPECT_TRUE(queue.push(2));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_TRUE(queue.push(3));
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), 3);
}

TEST(BoundedQueueTest, WithoutWaitingNoTimeIsCounted) {
  BoundedQueue<int> queue(1);
  EXPECT_TRUE(queue.push(1));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.waits().push.count(), 0);
  EXPECT_EQ(queue.waits().pop.count(), 0);
}

TEST(BoundedQueueTest, AConsumerThatWaitsIsCountedAsPopWait) {
  BoundedQueue<int> queue(1);
  // Whether the consumer waits before the push is the scheduler's choice, so it gets many chances.
  for (int round = 0; round < 10'000 && queue.waits().pop.count() == 0; ++round) {
    std::jthread consumer([&queue] { EXPECT_EQ(queue.pop(), 7); });
    std::this_thread::yield();
    EXPECT_TRUE(queue.push(7));
  }
  EXPECT_GT(queue.waits().pop.count(), 0);
  EXPECT_EQ(queue.waits().push.count(), 0);
}

TEST(BoundedQueueTest, AProducerWaitsForRoom) {
  BoundedQueue<int> queue(1);
  std::atomic<int> pushed = 0;
  std::jthread producer([&] {
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(queue.push(i));
      ++pushed;
    }
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(queue.pop(), i);
    // One item may lie in the queue and one be in the hand of the producer, that is all.
    EXPECT_LE(pushed.load(), i + 2);
  }
  producer.join();
  EXPECT_GT(queue.waits().push.count() + queue.waits().pop.count(), 0);
}

TEST(BoundedQueueTest, CloseRefusesPushesAndEmptiesWhatIsLeft) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.push(1));
  queue.close();
  EXPECT_FALSE(queue.push(2));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), std::nullopt);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueueTest, CloseWakesWaitingProducersAndConsumers) {
  BoundedQueue<int> full(1);
  BoundedQueue<int> empty(1);
  ASSERT_TRUE(full.push(0));
  std::vector<std::jthread> threads;
  std::atomic<int> refused = 0;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] { refused += full.push(1) ? 0 : 1; });
    threads.emplace_back([&] { refused += empty.pop() ? 0 : 1; });
  }
  full.close();
  empty.close();
  threads.clear();
  EXPECT_EQ(refused.load(), 6);
  EXPECT_EQ(full.pop(), 0);
}

TEST(BoundedQueueTest, ManyProducersAndConsumersLoseAndDoubleNothing) {
  BoundedQueue<int> queue(4);
  constexpr int kEach = 500;
  constexpr int kProducers = 3;
  std::vector<std::vector<int>> taken(3);
  {
    std::vector<std::jthread> consumers;
    for (auto& mine : taken) {
      consumers.emplace_back([&queue, &mine] {
        while (auto item = queue.pop()) {
          mine.push_back(*item);
        }
      });
    }
    {
      std::vector<std::jthread> producers;
      for (int p = 0; p < kProducers; ++p) {
        producers.emplace_back([&queue, p] {
          for (int i = 0; i < kEach; ++i) {
            EXPECT_TRUE(queue.push(p * kEach + i));
          }
        });
      }
    }
    queue.close();
  }
  std::vector<int> seen(kEach * kProducers);
  for (const auto& mine : taken) {
    for (const int item : mine) {
      ++seen.at(static_cast<std::size_t>(item));
    }
  }
  EXPECT_THAT(seen, ::testing::Each(1));
}

TEST(BoundedQueueTest, HoldsItemsThatOnlyMove) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  EXPECT_TRUE(queue.push(std::make_unique<int>(5)));
  auto item = queue.pop();
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(**item, 5);
}

}  // namespace
}  // namespace parascale
