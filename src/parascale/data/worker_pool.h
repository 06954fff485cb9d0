#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace parascale::data {

/// Threads that work on the rows of one slot together, so that a slot is ready as soon as possible. The caller is thread 0 and
/// does its share; a helper that wakes up late finds nothing to do and is not waited for. *confined to the thread that made it*
class WorkerPool {
 public:
  /// Called with the thread number (below `size()`) and the row; must not throw.
  using Task = std::function<void(std::uint32_t thread, std::uint32_t row)>;

  /// `threads` counts the caller; `on_start` runs once in each helper.
  WorkerPool(std::uint32_t threads, const std::function<void()>& on_start);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  std::uint32_t size() const { return static_cast<std::uint32_t>(helpers_.size()) + 1; }

  /// Runs `task` for every row below `rows`, each exactly once, in no fixed order; returns when all are done.
  /// Returns the CPU time that all threads together spent on them, in nanoseconds.
  std::int64_t run(std::uint32_t rows, const Task& task);

 private:
  void help(std::uint32_t thread);
  void work(std::uint32_t thread, std::uint32_t rows, const Task& task);

  std::mutex mutex_;
  std::condition_variable started_;
  std::condition_variable finished_;
  std::uint64_t generation_ = 0;
  const Task* task_ = nullptr;  ///< null: nothing to do
  std::uint32_t rows_ = 0;
  std::uint32_t active_ = 0;
  bool closing_ = false;
  std::atomic<std::uint32_t> next_row_{0};
  std::atomic<std::int64_t> cpu_ns_{0};
  std::vector<std::jthread> helpers_;
};

}  // namespace parascale::data
