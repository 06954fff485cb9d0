#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace parascale {

/// How long producers and consumers of a queue have waited, summed.
struct QueueWaits {
  std::chrono::nanoseconds push{};  ///< waiting for room: the consumer is the bottleneck
  std::chrono::nanoseconds pop{};   ///< waiting for an item: the producer is the bottleneck
};

/// First-in first-out queue of at most `capacity` items that can be closed and reports its wait times. *thread-safe*
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  /// Waits for room; returns false (and drops the item) when the queue is closed.
  bool push(T item) {
    std::unique_lock lock(mutex_);
    wait(lock, room_, waits_.push, [this] { return closed_ || items_.size() < capacity_; });
    if (closed_) {
      return false;
    }
    items_.push_back(std::move(item));
    item_.notify_one();
    return true;
  }

  /// Waits for an item; returns nothing when the queue is closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    wait(lock, item_, waits_.pop, [this] { return closed_ || !items_.empty(); });
    if (items_.empty()) {
      return std::nullopt;
    }
    std::optional<T> out(std::move(items_.front()));
    items_.pop_front();
    room_.notify_one();
    return out;
  }

  /// Ends the queue: pushes fail from now on, pops empty what is left.
  void close() {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    item_.notify_all();
    room_.notify_all();
  }

  QueueWaits waits() const {
    const std::scoped_lock lock(mutex_);
    return waits_;
  }

 private:
  template <typename Ready>
  static void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, std::chrono::nanoseconds& waited,
                   Ready ready) {
    if (ready()) {
      return;
    }
    const auto begin = std::chrono::steady_clock::now();
    changed.wait(lock, ready);
    waited += std::chrono::steady_clock::now() - begin;
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable item_;
  std::condition_variable room_;
  std::deque<T> items_;
  QueueWaits waits_;
  bool closed_ = false;
};

}  // namespace parascale
