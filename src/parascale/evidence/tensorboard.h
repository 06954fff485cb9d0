#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parascale/base/result.h"
#include "parascale/run/run_record.h"

namespace parascale::evidence {

/// One scalar at one step.
struct TensorBoardScalar {
  std::string tag;  ///< `train/loss`
  float value = 0.0F;
};

/// Builds the content of a TensorBoard event file (`events.out.tfevents.*`) in memory.
///
/// The file is a sequence of TFRecords: u64 length, u32 masked CRC-32C of these 8 bytes, the payload, u32 masked CRC-32C of the
/// payload, all little-endian. Each payload is a protobuf message `Event`: 1 wall_time (double), 2 step (int64), 3 file_version
/// (text, first record only), 5 summary, which holds repeated 1 value {1 tag (text), 2 simple_value (float)} or, for a text, {1
/// tag, 8 tensor {1 dtype 7, 2 tensor_shape {2 dim {1 size 1}}, 8 string_val}, 9 metadata {1 plugin_data {1 plugin_name
/// `text`}}}. *thread-compatible*
class TensorBoardFile {
 public:
  /// Begins with the version record `brain.Event:2`. `wall_seconds` is since 1970-01-01 UTC.
  explicit TensorBoardFile(double wall_seconds);

  /// Appends one event with all scalars of a step.
  void add(double wall_seconds, std::uint64_t step, std::span<const TensorBoardScalar> scalars);
  /// Appends a text (Markdown) for TensorBoard's text page.
  void add_text(double wall_seconds, std::uint64_t step, std::string_view tag, std::string_view text);
  const std::string& bytes() const { return bytes_; }

 private:
  void append_record(std::string_view payload);
  std::string bytes_;
};

/// Content of an event file for a run: `train/{loss, lr, grad_norm, <term>}`, `eval/{loss, top1, ...}`, `perf/{step_time_ms,
/// data_wait_ms, images_per_second}`, `memory/peak_mib`. `labels` (`FAKE WORKER`, ...) become the text `run/labels` and the first
/// part of every tag
/// (`fake_worker/train/loss`), so that such numbers never stand beside real ones. Values that are not finite are kept
/// (TensorBoard shows them). Pure function of the records. `metrics` as from effective_metrics, so a resumed run has no step
/// twice; wall times are those of the attempt's `started` event plus elapsed_seconds.
std::string tensorboard_bytes(std::span<const run::MetricsRecord> metrics, std::span<const run::EventRecord> events,
                              std::span<const std::string> labels = {});

/// Name of the event file, the same for every call on one run: `events.out.tfevents.<wall seconds of the first start>.<host>`.
std::string tensorboard_file_name(std::span<const run::EventRecord> events);

}  // namespace parascale::evidence
