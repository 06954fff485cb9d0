#include "parascale/evidence/tensorboard.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include <fmt/core.h>

#include "parascale/base/hash.h"
#include "parascale/base/text.h"
#include "parascale/evidence/crc32c.h"

namespace parascale::evidence {
namespace {

// Protobuf wire types.
constexpr std::uint64_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

template <typename Unsigned>
void append_little_endian(std::string& out, Unsigned value) {
  for (std::size_t byte = 0; byte < sizeof(Unsigned); ++byte) {
    out += static_cast<char>((value >> (8 * byte)) & 0xFFU);
  }
}

void append_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80U) {
    out += static_cast<char>((value & 0x7FU) | 0x80U);
    value >>= 7U;
  }
  out += static_cast<char>(value);
}

void append_tag(std::string& out, std::uint64_t field, std::uint64_t wire_type) { append_varint(out, (field << 3U) | wire_type); }

void append_bytes(std::string& out, std::uint64_t field, std::string_view bytes) {
  append_tag(out, field, kBytes);
  append_varint(out, bytes.size());
  out += bytes;
}

std::string event_start(double wall_seconds, std::uint64_t step) {
  std::string event;
  append_tag(event, 1, kFixed64);
  append_little_endian(event, std::bit_cast<std::uint64_t>(wall_seconds));
  if (step != 0) {  // proto3 leaves defaults out
    append_tag(event, 2, kVarint);
    append_varint(event, step);
  }
  return event;
}

double wall_seconds_of(const run::EventRecord& event) { return static_cast<double>(event.wall_ns) * 1e-9; }

const run::EventRecord* first_start(std::span<const run::EventRecord> events) {
  const auto found = std::ranges::find(events, run::event::started, &run::EventRecord::name);
  return found == events.end() ? nullptr : &*found;
}

void add_optional(std::vector<TensorBoardScalar>& scalars, std::string tag, const std::optional<double>& value,
                  double factor = 1.0) {
  if (value) {
    scalars.push_back({std::move(tag), static_cast<float>(*value * factor)});
  }
}

std::vector<TensorBoardScalar> scalars_of(const run::MetricsRecord& record) {
  std::vector<TensorBoardScalar> scalars;
  const std::string group(run::to_string(record.kind));
  add_optional(scalars, group + "/loss", record.loss);
  add_optional(scalars, group + "/lr", record.lr);
  add_optional(scalars, group + "/grad_norm", record.grad_norm);
  for (const run::MetricsTerm& term : record.terms) {
    if (term.name != "loss" || !record.loss) {
      scalars.push_back({fmt::format("{}/{}", group, term.name), static_cast<float>(term.mean())});
    }
  }
  if (record.kind == run::MetricsKind::train) {
    add_optional(scalars, "perf/step_time_ms", record.timing.step_time_seconds, 1e3);
    add_optional(scalars, "perf/data_wait_ms", record.timing.dataloader_wait_ms);
    add_optional(scalars, "perf/images_per_second", record.rates.end_to_end_images_per_second);
    if (record.memory.peak_memory_bytes) {
      add_optional(scalars, "memory/peak_mib", static_cast<double>(*record.memory.peak_memory_bytes), 1.0 / (1U << 20U));
    }
  }
  return scalars;
}

// `FAKE WORKER`, `SYNTHETIC DATA` -> `fake_worker_synthetic_data/`
std::string tag_prefix(std::span<const std::string> labels) {
  if (labels.empty()) {
    return {};
  }
  std::string prefix = join(labels, "_") + "/";
  std::ranges::transform(prefix, prefix.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == ' ' ? '_' : c;
  });
  return prefix;
}

}  // namespace

TensorBoardFile::TensorBoardFile(double wall_seconds) {
  std::string event = event_start(wall_seconds, 0);
  append_bytes(event, 3, "brain.Event:2");
  append_record(event);
}

void TensorBoardFile::add(double wall_seconds, std::uint64_t step, std::span<const TensorBoardScalar> scalars) {
  std::string summary;
  for (const TensorBoardScalar& scalar : scalars) {
    std::string value;
    append_bytes(value, 1, scalar.tag);
    append_tag(value, 2, kFixed32);
    append_little_endian(value, std::bit_cast<std::uint32_t>(scalar.value));
    append_bytes(summary, 1, value);
  }
  std::string event = event_start(wall_seconds, step);
  append_bytes(event, 5, summary);
  append_record(event);
}

void TensorBoardFile::add_text(double wall_seconds, std::uint64_t step, std::string_view tag, std::string_view text) {
  constexpr std::uint64_t kDtString = 7;
  std::string dimension, shape, tensor, plugin, metadata, value, summary;
  append_tag(dimension, 1, kVarint);
  append_varint(dimension, 1);
  append_bytes(shape, 2, dimension);
  append_tag(tensor, 1, kVarint);
  append_varint(tensor, kDtString);
  append_bytes(tensor, 2, shape);
  append_bytes(tensor, 8, text);
  append_bytes(plugin, 1, "text");
  append_bytes(metadata, 1, plugin);
  append_bytes(value, 1, tag);
  append_bytes(value, 8, tensor);
  append_bytes(value, 9, metadata);
  append_bytes(summary, 1, value);
  std::string event = event_start(wall_seconds, step);
  append_bytes(event, 5, summary);
  append_record(event);
}

void TensorBoardFile::append_record(std::string_view payload) {
  std::string length;
  append_little_endian(length, std::uint64_t{payload.size()});
  bytes_ += length;
  append_little_endian(bytes_, masked_crc32c(as_bytes(length)));
  bytes_ += payload;
  append_little_endian(bytes_, masked_crc32c(as_bytes(payload)));
}

std::string tensorboard_bytes(std::span<const run::MetricsRecord> metrics, std::span<const run::EventRecord> events,
                              std::span<const std::string> labels) {
  std::map<std::uint32_t, double> start_of_attempt;
  for (const run::EventRecord& event : events) {
    if (event.name == run::event::started) {
      start_of_attempt[event.attempt] = wall_seconds_of(event);
    }
  }
  const run::EventRecord* first = first_start(events);
  const double start = first == nullptr ? 0.0 : wall_seconds_of(*first);
  TensorBoardFile file(start);
  const std::string prefix = tag_prefix(labels);
  if (!labels.empty()) {
    file.add_text(start, 0, prefix + "run/labels", join(labels, ", "));
  }
  for (const run::MetricsRecord& record : metrics) {
    std::vector<TensorBoardScalar> scalars = scalars_of(record);
    for (TensorBoardScalar& scalar : scalars) {
      scalar.tag.insert(0, prefix);
    }
    file.add(start_of_attempt[record.attempt] + record.timing.elapsed_seconds.value_or(0.0), record.step.value, scalars);
  }
  return file.bytes();
}

std::string tensorboard_file_name(std::span<const run::EventRecord> events) {
  const run::EventRecord* first = first_start(events);
  std::string host = first == nullptr ? "" : first->details.get_or<std::string>("host", "").value_or("");
  std::ranges::replace_if(
      host,
      [](char c) {
        return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_');
      },
      '_');
  return fmt::format("events.out.tfevents.{:010}.{}", first == nullptr ? 0 : first->wall_ns / 1'000'000'000,
                     host.empty() ? "localhost" : host);
}

}  // namespace parascale::evidence
