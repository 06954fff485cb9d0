#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "parascale/base/clock.h"
#include "parascale/base/file_system.h"
#include "parascale/base/result.h"
#include "parascale/checkpoint/manifest.h"

namespace parascale::checkpoint {

/// Time spent, summed over files.
struct WriteTimes {
  std::chrono::nanoseconds write{};
  std::chrono::nanoseconds hash{};
  std::chrono::nanoseconds sync{};
};

/// Adds the time from its construction to its destruction to a sum. *confined to one thread*
class Stopwatch {
 public:
  Stopwatch(const Clock& clock, std::chrono::nanoseconds& sum) : clock_(clock), sum_(sum), begin_ns_(clock.monotonic_ns()) {}
  ~Stopwatch() { sum_ += std::chrono::nanoseconds(clock_.monotonic_ns() - begin_ns_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  const Clock& clock_;
  std::chrono::nanoseconds& sum_;
  std::int64_t begin_ns_;
};

/// Writes new files and hashes what it writes: xxh3-64 per chunk of kChunkBytes, xxh3-128 over the whole file. *confined to one
/// thread*
class FileWriter {
 public:
  FileWriter(FileSystem& files, const Clock& clock) : files_(files), clock_(clock) {}

  /// Writes `bytes` as the new file `<directory>/<record.path>`, syncs and closes it, and fills in size and hashes of `record`.
  /// The name is durable only after the directory is synced. Errors: io_failed; the file must then be thrown away, never synced
  /// again.
  Status write(const std::string& directory, std::span<const std::byte> bytes, FileRecord& record);

  const WriteTimes& times() const { return times_; }
  WriteTimes& times() { return times_; }

 private:
  FileSystem& files_;
  const Clock& clock_;
  WriteTimes times_;
};

/// Fills in size and hashes of `record` without writing anything.
void hash_bytes(std::span<const std::byte> bytes, FileRecord& record);

}  // namespace parascale::checkpoint
