#include "parascale/data/slot_filler.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "parascale/base/clock.h"
#include "parascale/base/hash.h"

namespace parascale::data {

namespace {

constexpr int kNice = 5;

/// Lets the ranks go first; on Linux priorities belong to threads.
void lower_priority() { (void)setpriority(PRIO_PROCESS, 0, kNice); }

Error violation(std::string message) { return Error(Code::protocol_violation, std::move(message)); }

/// Reads one sample; exceptions end here, because a thread must not let them out.
Status read_guarded(SampleReader& reader, SplitSource& source, SampleId id, std::uint64_t epoch, const RowTarget& target) {
  try {
    return reader.read(source, id, epoch, target);
  } catch (const std::bad_alloc&) {
    return Error(Code::image_unreadable, "out of memory");
  }
}

}  // namespace

std::optional<SampleId> replacement_of(std::uint64_t seed, std::uint64_t epoch, SampleId id, std::uint32_t attempt,
                                       std::uint64_t samples) {
  if (samples < 2) {
    return std::nullopt;
  }
  const std::uint64_t other = SampleRandom(seed, epoch, id).below(samples - 1, RandomOp::replacement, attempt);
  return SampleId{other >= id.value ? other + 1 : other};
}

SlotFiller::SlotFiller(DataOptions options, protocol::SlotLayout layout, std::span<std::byte> region)
    : options_(std::move(options)),
      layout_(std::move(layout)),
      region_(region),
      outcomes_(layout_.capacity),
      pool_(std::max(1U, options_.threads), lower_priority) {
  for (std::uint32_t i = 0; i < pool_.size(); ++i) {
    readers_.push_back(std::make_unique<SampleReader>(options_));
  }
}

Result<std::unique_ptr<SlotFiller>> SlotFiller::make(DataOptions options, protocol::SlotLayout layout,
                                                     std::span<std::byte> region) {
  if (region.size() < layout.region_bytes()) {
    return violation(fmt::format("a ring of {} bytes needs a region of that size, got {}", layout.region_bytes(), region.size()));
  }
  const Recipe& recipe = options.recipe;
  const std::vector<std::uint64_t> shape{recipe.channels, recipe.size, recipe.size};
  std::optional<std::size_t> pixels;
  std::optional<std::size_t> labels;
  for (std::size_t i = 0; i < layout.fields.size(); ++i) {
    const auto& field = layout.fields[i];
    if (field.name == "pixel_values" && field.dtype == Dtype::f32 && field.sample_shape == shape) {
      pixels = i;
    } else if (field.name == "labels" && field.dtype == Dtype::i64 && field.sample_shape.empty()) {
      labels = i;
    } else {
      return violation(fmt::format("the data engine cannot fill the tensor `{}` as it was announced", field.name))
          .note(fmt::format("known: pixel_values F32 [{}, {}, {}], labels I64 []", recipe.channels, recipe.size, recipe.size));
    }
  }
  if (!pixels) {
    return violation("the slots have no tensor `pixel_values`");
  }
  std::unique_ptr<SlotFiller> filler(
      new SlotFiller(std::move(options), std::move(layout), region));  // NOLINT: private constructor
  filler->pixels_field_ = *pixels;
  filler->labels_field_ = labels;
  return filler;
}

void SlotFiller::add_split(Split split, std::shared_ptr<const DatasetIndex> index, FileSystem& files) {
  sources_.erase(split);
  sources_.try_emplace(split, options_, split, std::move(index), files);
}

Result<SplitSource*> SlotFiller::check(const protocol::Fill& request) {
  const auto split = split_from_name(request.split);
  const auto source = split ? sources_.find(*split) : sources_.end();
  if (source == sources_.end()) {
    return violation(fmt::format("a fill names the split `{}`, which is not open", request.split));
  }
  if (request.slot >= layout_.slot_count || request.count > layout_.capacity) {
    return violation(fmt::format("a fill of {} rows in slot {} lies outside a ring of {} slots with {} rows", request.count,
                                 request.slot, layout_.slot_count, layout_.capacity));
  }
  const std::uint64_t samples = source->second.samples();
  if (request.first > samples || request.count > samples - request.first) {
    return violation(
        fmt::format("a fill of positions {}..{} lies outside {} samples", request.first, request.first + request.count, samples));
  }
  return &source->second;
}

void SlotFiller::fill_row(SampleReader& reader, SplitSource& source, std::uint64_t epoch, const RowTarget& target,
                          RowOutcome& outcome) const {
  outcome.failures.clear();
  outcome.valid = false;
  const SampleId wanted = outcome.id;
  for (std::uint32_t attempt = 0;; ++attempt) {
    const Status read = read_guarded(reader, source, outcome.id, epoch, target);
    if (read.ok()) {
      outcome.valid = true;
      return;
    }
    auto& failure = outcome.failures.emplace_back();
    failure.id = outcome.id;
    failure.reason = read.error().message();
    if (source.split() == Split::train && attempt < kMaxReplacements) {
      failure.replacement = replacement_of(options_.seed, epoch, wanted, attempt, source.samples());
    }
    if (!failure.replacement) {
      return;
    }
    outcome.id = *failure.replacement;
  }
}

Result<protocol::Filled> SlotFiller::fill(const protocol::Fill& request) {
  const std::int64_t begin = real_clock().monotonic_ns();
  PS_ASSIGN(SplitSource* const source, check(request));
  const Order order(source->split(), options_.seed, request.epoch, source->samples());
  protocol::SlotWriter writer(layout_, region_, request.slot);
  // A slot of no valid row still has the shape of one, so that a rank can run it like any other.
  writer.begin(request.epoch, request.step, request.micro_step, std::max(1U, request.count));
  const WorkerPool::Task task = [&](std::uint32_t thread, std::uint32_t row) {
    RowOutcome& outcome = outcomes_[row];
    outcome.id = order.at(request.first + row);
    const RowTarget target{.pixels = writer.row(pixels_field_, row),
                           .label = labels_field_ ? writer.row(*labels_field_, row) : std::span<std::byte>()};
    fill_row(*readers_[thread], *source, request.epoch, target, outcome);
  };
  protocol::Filled filled;
  filled.cpu_ns = pool_.run(request.count, task);
  filled.slot = request.slot;
  filled.split = request.split;
  filled.step = request.step;
  filled.micro_step = request.micro_step;
  pack(writer, request.count, filled);
  counts_.reads += filled.valid + filled.failures.size();  // a row that failed for good had only failures
  counts_.failures += filled.failures.size();
  PS_TRY(judge(filled));
  filled.batch_hash = hex64(writer.finish(filled.valid));
  StageTimes times;
  for (const auto& reader : readers_) {
    times += reader->take_times();
  }
  filled.times_ns = {{"read", times.read_ns},           {"decode", times.decode_ns},
                     {"resize", times.resize_ns},       {"augment", times.augment_ns},
                     {"normalise", times.normalise_ns}, {"total", real_clock().monotonic_ns() - begin}};
  return filled;
}

void SlotFiller::pack(protocol::SlotWriter& writer, std::uint32_t rows, protocol::Filled& filled) const {
  for (std::uint32_t row = 0; row < rows; ++row) {
    const RowOutcome& outcome = outcomes_[row];
    filled.failures.insert(filled.failures.end(), outcome.failures.begin(), outcome.failures.end());
    if (!outcome.valid) {
      continue;
    }
    filled.replaced += outcome.failures.empty() ? 0U : 1U;
    if (filled.valid != row) {
      for (std::size_t field = 0; field < layout_.fields.size(); ++field) {
        const auto from = writer.row(field, row);
        std::memcpy(writer.row(field, filled.valid).data(), from.data(), from.size());
      }
    }
    writer.set_id(filled.valid++, outcome.id);
  }
}

Status SlotFiller::judge(const protocol::Filled& filled) const {
  const double rate = static_cast<double>(counts_.failures) / static_cast<double>(std::max<std::uint64_t>(counts_.reads, 1));
  if (counts_.reads < kMinJudgedReads || rate <= options_.max_failure_rate) {
    return {};
  }
  Error error(Code::too_many_failures, fmt::format("{} of {} samples cannot be read", counts_.failures, counts_.reads));
  if (!filled.failures.empty()) {
    error.note(fmt::format("last: sample {} of split `{}`: {}", filled.failures.back().id.value, filled.split,
                           filled.failures.back().reason));
  }
  return std::move(error).help(
      fmt::format("check the data files, or raise `data.max_failure_rate` (now {})", options_.max_failure_rate));
}

}  // namespace parascale::data
