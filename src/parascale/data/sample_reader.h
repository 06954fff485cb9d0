#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "parascale/base/file_system.h"
#include "parascale/base/ids.h"
#include "parascale/data/counter_random.h"
#include "parascale/data/dataset_index.h"
#include "parascale/data/normalise.h"
#include "parascale/data/png_decode.h"
#include "parascale/data/resize.h"

namespace parascale::data {

/// The files of an index, opened when first read and kept open, at most `max_open` at a time (least recently used ones are
/// closed). *thread-safe*
class ShardFiles {
 public:
  ShardFiles(FileSystem& files, std::shared_ptr<const DatasetIndex> index, std::size_t max_open = 64);

  /// Fills `into` from `offset` of shard `shard`. Errors: io_failed; image_unreadable (`truncated`) when the file ends before.
  Status read(std::uint32_t shard, std::uint64_t offset, std::span<std::byte> into);

 private:
  Result<std::shared_ptr<File>> file(std::uint32_t shard);

  struct Kept {
    std::shared_ptr<File> file;
    std::list<std::uint32_t>::iterator place;
  };
  FileSystem& files_;
  std::shared_ptr<const DatasetIndex> index_;
  std::size_t max_open_;
  std::mutex mutex_;
  std::list<std::uint32_t> recent_;  ///< newest first
  std::unordered_map<std::uint32_t, Kept> open_;
};

/// One opened split: its index, files and rules. *thread-safe*
class SplitSource {
 public:
  SplitSource(const DataOptions& options, Split split, std::shared_ptr<const DatasetIndex> index, FileSystem& files);

  Split split() const { return split_; }
  bool synthetic() const { return synthetic_; }
  std::uint64_t samples() const { return index_->summary.samples; }
  const DatasetIndex& index() const { return *index_; }
  ShardFiles& files() { return files_; }

  /// The label of a sample. Errors: sample_incomplete without a label, label_invalid for one outside [0, num_labels). -1 for an
  /// unlabelled sample of the infer split.
  Result<std::int64_t> label(SampleId id) const;

 private:
  Split split_;
  bool synthetic_;
  std::uint32_t num_labels_;
  std::shared_ptr<const DatasetIndex> index_;
  ShardFiles files_;
};

/// Nanoseconds spent in the stages of a sample.
struct StageTimes {
  std::int64_t read_ns = 0;
  std::int64_t decode_ns = 0;
  std::int64_t resize_ns = 0;
  std::int64_t augment_ns = 0;
  std::int64_t normalise_ns = 0;

  StageTimes& operator+=(const StageTimes& other);
};

/// The rows of a slot that belong to one sample.
struct RowTarget {
  std::span<std::byte> pixels;  ///< f32 [channels, size, size]
  std::span<std::byte> label;   ///< i64 [], or empty when the slot has no labels
};

/// Turns a sample into a row: read, decode, resize to the recipe's size, random affine (train only), normalise. Keeps scratch
/// memory; one per thread. The row is a pure function of (options, file bytes, sample, epoch). *confined to one thread at a time*
class SampleReader {
 public:
  explicit SampleReader(const DataOptions& options);

  /// Errors: sample_incomplete, image_unreadable, label_invalid, io_failed; the message is the reason that is reported.
  Status read(SplitSource& source, SampleId id, std::uint64_t epoch, const RowTarget& target);

  /// Times since the last call.
  StageTimes take_times();

 private:
  Status read_image(SplitSource& source, SampleId id);
  void write_synthetic(SampleId id, std::span<std::byte> pixels) const;

  const DataOptions& options_;
  Normaliser normaliser_;
  PngDecoder decoder_;
  Resizer resizer_;
  std::vector<std::byte> encoded_;
  Image decoded_;
  Image scaled_;
  Image moved_;
  std::vector<std::byte> pattern_;  ///< of synthetic rows
  StageTimes times_;
};

}  // namespace parascale::data
