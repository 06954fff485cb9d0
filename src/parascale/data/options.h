#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parascale/base/json.h"
#include "parascale/base/result.h"

namespace parascale::data {

/// Where samples come from: WebDataset tar shards, a counter generator (no files, no decode), or loose image files.
enum class DatasetType : std::uint8_t { wds, synthetic, files };
std::string_view dataset_type_name(DatasetType type);
std::optional<DatasetType> dataset_type_from_name(std::string_view name);

/// The part of a dataset that a batch is taken from.
enum class Split : std::uint8_t { train, validation, infer };
std::string_view split_name(Split split);
std::optional<Split> split_from_name(std::string_view name);

/// Filter of the resize step; the only one of this version is Pillow's antialiased BILINEAR.
enum class ResizeFilter : std::uint8_t { bilinear };

/// How a decoded image becomes a row of `pixel_values`: f32 [channels, size, size], `(v / 255 - mean[c]) / std[c]`.
struct Recipe {
  ResizeFilter resize = ResizeFilter::bilinear;
  std::uint32_t size = 28;        ///< pixels of both sides, 1..4096; the aspect ratio is not kept
  std::uint32_t channels = 1;     ///< 1 (grey) or 3 (red, green, blue)
  std::vector<double> mean{0.5};  ///< one per channel, or one for all
  std::vector<double> std{0.5};   ///< like mean, above 0

  friend bool operator==(const Recipe&, const Recipe&) = default;
};

/// Random rotation, scale and shift of training images, uniform in each range.
struct Affine {
  double degrees = 0.0;                   ///< angle in [-degrees, degrees], 0..180
  std::array<double, 2> scale{1.0, 1.0};  ///< lower and upper factor, 0 < lower <= upper
  double translate = 0.0;                 ///< shift of each axis in [-translate, translate] image sides, 0..1

  friend bool operator==(const Affine&, const Affine&) = default;
};

/// The dataset of type `synthetic`: labelled as `id % num_labels` of the options.
struct Synthetic {
  std::uint64_t samples = 1024;

  friend bool operator==(const Synthetic&, const Synthetic&) = default;
};

/// Everything the data engine needs to know; filled by the planner, handed to the engine as JSON. A plain value.
/// *thread-compatible*
struct DataOptions {
  static constexpr std::uint32_t kFormatVersion = 1;

  DatasetType type = DatasetType::wds;
  std::vector<std::string> train;  ///< paths or glob patterns, relative to the working directory
  std::vector<std::string> validation;
  std::vector<std::string> infer;  ///< image files, directories or patterns; tar shards are read as such
  Recipe recipe;
  std::optional<Affine> affine;  ///< training only
  Synthetic synthetic;
  std::uint64_t seed = 0;
  std::uint32_t threads = 1;             ///< decode threads; 0 counts as 1
  std::uint64_t memory_limit_bytes = 0;  ///< of the engine's address space; 0 = none
  double max_failure_rate = 0.1;         ///< of the samples read so far, once 1,000 are read; 1 = never give up
  std::uint32_t num_labels = 10;         ///< labels lie in [0, num_labels)

  const std::vector<std::string>& paths(Split split) const;
  Json to_json() const;
  /// Ignores unknown members. Errors: artifact_version for another major version, wrong_type or out_of_bounds naming the member.
  static Result<DataOptions> from_json(const Json& json);

  friend bool operator==(const DataOptions&, const DataOptions&) = default;
};

/// What `plan` and a run's record say about one split.
struct DatasetSummary {
  std::uint64_t samples = 0;         ///< entries with an id, incomplete ones too
  std::uint64_t incomplete = 0;      ///< of them: without an image
  std::uint64_t unlabelled = 0;      ///< of them: without a label that is a number
  std::uint64_t bytes = 0;           ///< of all shard or image files
  std::string fingerprint;           ///< 32 hex digits: equal fingerprints number the same samples in the same way
  std::uint64_t shards = 0;          ///< tar files; 0 for loose images and synthetic data
  std::uint64_t damaged_shards = 0;  ///< read only up to their damage
  std::vector<std::string> damage;   ///< one line for each damaged shard
  std::uint32_t min_width = 0;       ///< pixels, by the images' headers; 0 when unknown
  std::uint32_t max_width = 0;
  std::uint32_t min_height = 0;
  std::uint32_t max_height = 0;

  Json to_json() const;
  static Result<DatasetSummary> from_json(const Json& json);

  friend bool operator==(const DatasetSummary&, const DatasetSummary&) = default;
};

}  // namespace parascale::data
