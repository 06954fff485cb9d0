#include "parascale/data/sample_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "parascale/base/clock.h"
#include "parascale/data/affine.h"

namespace parascale::data {

namespace {

/// Encoded images beyond this are refused before memory is asked for.
constexpr std::uint32_t kMaxEncodedBytes = 1U << 30U;

/// Adds the time of its life to `sum`.
class Timed {
 public:
  explicit Timed(std::int64_t& sum) : sum_(sum), begin_(real_clock().monotonic_ns()) {}
  ~Timed() { sum_ += real_clock().monotonic_ns() - begin_; }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  std::int64_t& sum_;
  std::int64_t begin_;
};

std::vector<std::byte> make_pattern(const DataOptions& options) {
  const Recipe& recipe = options.recipe;
  const std::size_t values = std::size_t{recipe.channels} * recipe.size * recipe.size;
  std::vector<std::byte> pattern(values * sizeof(float));
  const SampleRandom random(options.seed, 0, SampleId{0});
  for (std::size_t i = 0; i < values; ++i) {
    const auto unit = random.uniforms(RandomOp::synthetic, static_cast<std::uint32_t>(i / 4) & 0xffffffU)[i % 4];
    const auto value = static_cast<float>(2.0 * unit - 1.0);
    std::memcpy(pattern.data() + i * sizeof(float), &value, sizeof value);
  }
  return pattern;
}

}  // namespace

ShardFiles::ShardFiles(FileSystem& files, std::shared_ptr<const DatasetIndex> index, std::size_t max_open)
    : files_(files), index_(std::move(index)), max_open_(max_open) {}

Result<std::shared_ptr<File>> ShardFiles::file(std::uint32_t shard) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = open_.find(shard); found != open_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second.place);
    return found->second.file;
  }
  PS_ASSIGN(auto opened, files_.open(index_->shards[shard].path, OpenMode::read));
  if (open_.size() >= max_open_) {
    open_.erase(recent_.back());  // a reader that still holds it keeps it alive
    recent_.pop_back();
  }
  recent_.push_front(shard);
  std::shared_ptr<File> kept(std::move(opened));
  open_.emplace(shard, Kept{.file = kept, .place = recent_.begin()});
  return kept;
}

Status ShardFiles::read(std::uint32_t shard, std::uint64_t offset, std::span<std::byte> into) {
  PS_ASSIGN(const auto opened, file(shard));
  PS_ASSIGN(const std::size_t got, opened->read_at(offset, into));
  if (got < into.size()) {
    return Error(Code::image_unreadable, "truncated");
  }
  return {};
}

SplitSource::SplitSource(const DataOptions& options, Split split, std::shared_ptr<const DatasetIndex> index, FileSystem& files)
    : split_(split),
      synthetic_(options.type == DatasetType::synthetic && split != Split::infer),
      num_labels_(options.num_labels),
      index_(index),
      files_(files, std::move(index)) {}

Result<std::int64_t> SplitSource::label(SampleId id) const {
  if (synthetic_) {
    return static_cast<std::int64_t>(id.value % num_labels_);
  }
  const IndexEntry& entry = index_->entries[id.value];
  if (!entry.has(IndexEntry::kHasLabel)) {
    if (split_ == Split::infer) {
      return std::int64_t{-1};
    }
    return entry.has(IndexEntry::kBadLabel) ? Error(Code::label_invalid, "label is no number")
                                            : Error(Code::sample_incomplete, "no label");
  }
  if (split_ != Split::infer && (entry.label < 0 || std::cmp_greater_equal(entry.label, num_labels_))) {
    return Error(Code::label_invalid, "label outside its range");
  }
  return entry.label;
}

StageTimes& StageTimes::operator+=(const StageTimes& other) {
  read_ns += other.read_ns;
  decode_ns += other.decode_ns;
  resize_ns += other.resize_ns;
  augment_ns += other.augment_ns;
  normalise_ns += other.normalise_ns;
  return *this;
}

SampleReader::SampleReader(const DataOptions& options) : options_(options), normaliser_(options.recipe) {
  if (options.type == DatasetType::synthetic) {
    pattern_ = make_pattern(options);
  }
}

StageTimes SampleReader::take_times() { return std::exchange(times_, {}); }

void SampleReader::write_synthetic(SampleId id, std::span<std::byte> pixels) const {
  PS_CHECK(pixels.size() == pattern_.size(), "a synthetic row has the recipe's shape");
  std::memcpy(pixels.data(), pattern_.data(), pattern_.size());
  const auto mark = static_cast<float>(id.value % (1U << 24U));  // exact in a float
  std::memcpy(pixels.data(), &mark, sizeof mark);
}

Status SampleReader::read_image(SplitSource& source, SampleId id) {
  const IndexEntry& entry = source.index().entries[id.value];
  if (!entry.has(IndexEntry::kHasImage)) {
    return Error(Code::sample_incomplete, "no image");
  }
  {
    const Timed timed(times_.read_ns);
    if (entry.image_bytes > kMaxEncodedBytes) {
      return Error(Code::image_unreadable, "too large");
    }
    encoded_.resize(entry.image_bytes);
    PS_TRY(source.files().read(entry.shard, entry.image_offset_bytes, encoded_));
  }
  const Timed timed(times_.decode_ns);
  return decoder_.decode(encoded_, options_.recipe.channels, decoded_);
}

Status SampleReader::read(SplitSource& source, SampleId id, std::uint64_t epoch, const RowTarget& target) {
  if (!target.label.empty()) {
    PS_ASSIGN(const std::int64_t label, source.label(id));
    std::memcpy(target.label.data(), &label, sizeof label);
  }
  if (source.synthetic()) {
    const Timed timed(times_.decode_ns);
    write_synthetic(id, target.pixels);
    return {};
  }
  PS_TRY(read_image(source, id));
  const std::uint32_t size = options_.recipe.size;
  const Image* image = &decoded_;
  if (decoded_.width != size || decoded_.height != size) {
    const Timed timed(times_.resize_ns);
    resizer_.resize(decoded_, size, size, scaled_);
    image = &scaled_;
  }
  if (options_.affine && source.split() == Split::train) {
    const Timed timed(times_.augment_ns);
    const auto parameters = draw_affine(*options_.affine, SampleRandom(options_.seed, epoch, id), size, size);
    apply_affine(*image, make_affine_matrix(parameters, size, size), moved_);
    image = &moved_;
  }
  const Timed timed(times_.normalise_ns);
  normaliser_.write(*image, target.pixels);
  return {};
}

}  // namespace parascale::data
