#include "parascale/data/worker_pool.h"

#include <ctime>

namespace parascale::data {

namespace {

std::int64_t thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

WorkerPool::WorkerPool(std::uint32_t threads, const std::function<void()>& on_start) {
  for (std::uint32_t thread = 1; thread < threads; ++thread) {
    helpers_.emplace_back([this, thread, on_start] {
      if (on_start) {
        on_start();
      }
      help(thread);
    });
  }
}

WorkerPool::~WorkerPool() {
  const std::scoped_lock lock(mutex_);
  closing_ = true;
  started_.notify_all();
}

std::int64_t WorkerPool::run(std::uint32_t rows, const Task& task) {
  next_row_.store(0, std::memory_order_relaxed);
  cpu_ns_.store(0, std::memory_order_relaxed);
  if (helpers_.empty() || rows < 2) {
    work(0, rows, task);
    return cpu_ns_.load(std::memory_order_relaxed);
  }
  {
    const std::scoped_lock lock(mutex_);
    ++generation_;
    task_ = &task;
    rows_ = rows;
    started_.notify_all();
  }
  work(0, rows, task);
  std::unique_lock lock(mutex_);
  task_ = nullptr;
  finished_.wait(lock, [this] { return active_ == 0; });
  return cpu_ns_.load(std::memory_order_relaxed);
}

void WorkerPool::help(std::uint32_t thread) {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    started_.wait(lock, [&] { return closing_ || (generation_ != seen && task_ != nullptr); });
    if (closing_) {
      return;
    }
    seen = generation_;
    const Task& task = *task_;
    const std::uint32_t rows = rows_;
    ++active_;
    lock.unlock();
    work(thread, rows, task);
    lock.lock();
    if (--active_ == 0) {
      finished_.notify_one();
    }
  }
}

void WorkerPool::work(std::uint32_t thread, std::uint32_t rows, const Task& task) {
  const std::int64_t begin = thread_cpu_ns();
  while (true) {
    const std::uint32_t row = next_row_.fetch_add(1, std::memory_order_relaxed);
    if (row >= rows) {
      break;
    }
    task(thread, row);
  }
  cpu_ns_.fetch_add(thread_cpu_ns() - begin, std::memory_order_relaxed);
}

}  // namespace parascale::data
