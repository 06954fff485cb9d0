#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parascale/base/file_system.h"
#include "parascale/base/ids.h"
#include "parascale/base/json.h"
#include "parascale/base/result.h"

// Artifact of stage run: the lines of `metrics.jsonl` and `events.jsonl`. Field by field: docs/formats/records.md.
// A reader ignores unknown members; the `started` event carries `format_version` and an unknown major is refused.
namespace parascale::run {

/// Version of both record files, `major.minor`; stands in the details of every `started` event.
inline constexpr std::string_view kRecordFormatVersion = "1.0";

enum class MetricsKind : std::uint8_t { train, eval };
/// Returns `train` or `eval`.
std::string_view to_string(MetricsKind kind);

/// One term of the loss contract (or one metric of an evaluation): its value is sum / weight.
struct MetricsTerm {
  std::string name;  ///< `loss`, `top1`, `top5`, ...
  double sum = 0.0;
  double weight = 0.0;  ///< samples or tokens

  /// sum / weight; NaN for weight 0.
  double mean() const;
  friend bool operator==(const MetricsTerm&, const MetricsTerm&) = default;
};

/// Where the time of a step went. A step's wall time is step_time_seconds plus the wait for data. Absent = not measured.
struct StepTiming {
  std::optional<double> step_time_seconds;   ///< wall, slowest rank, without dataloader_wait_ms
  std::optional<double> dataloader_wait_ms;  ///< rank waited for a batch slot
  std::optional<double> h2d_ms, forward_ms, backward_ms, communication_ms, optimizer_ms;
  std::optional<double> checkpoint_blocked_ms;  ///< step delayed by a snapshot
  std::optional<double> evaluation_seconds;     ///< wall of a whole evaluation (kind eval)
  std::optional<double> elapsed_seconds;        ///< since the `started` event of this attempt

  friend bool operator==(const StepTiming&, const StepTiming&) = default;
};

/// Memory after the step. Absent = not measured.
struct StepMemory {
  std::optional<std::uint64_t> peak_memory_bytes;       ///< of the rank that needs most
  std::optional<std::uint64_t> allocated_memory_bytes;  ///< of the same rank
  std::optional<std::uint64_t> engine_resident_bytes, agent_resident_bytes;

  friend bool operator==(const StepMemory&, const StepMemory&) = default;
};

/// Throughput over all ranks. `X_per_second` is per step_time_seconds, `end_to_end_X` per step time plus wait for data.
struct StepRates {
  std::optional<double> images_per_second, end_to_end_images_per_second;
  std::optional<double> samples_per_second, end_to_end_samples_per_second;
  std::optional<double> tokens_per_second, end_to_end_tokens_per_second;
  std::optional<double> patch_tokens_per_second;
  std::optional<double> image_text_pairs_per_second, end_to_end_image_text_pairs_per_second;

  friend bool operator==(const StepRates&, const StepRates&) = default;
};

/// One line of `metrics.jsonl`: a finished optimizer step, or a finished evaluation of the weights after `step`.
///
/// Everything but `attempt`, `timing`, `memory` and `rates` is a pure function of config and data (see `comparable`). In text an
/// absent member means "does not apply"; `null` means "measured, but not finite" and reads as NaN. *thread-compatible*
struct MetricsRecord {
  MetricsKind kind = MetricsKind::train;
  Step step{};
  std::uint32_t attempt = 1;                ///< 1, plus 1 for each resume of the run directory
  double epoch = 0.0;                       ///< epochs of training data presented so far, fractional
  std::uint64_t samples = 0;                ///< training samples presented since step 0
  std::optional<double> lr;                 ///< kind train
  std::optional<double> loss;               ///< the reported scalar: mean over the step, or over the evaluation
  std::optional<double> grad_norm;          ///< global, before clipping; kind train
  bool skipped = false;                     ///< the update was left out (policy `skip`)
  std::uint64_t replaced = 0;               ///< unreadable samples replaced in this step (train)
  std::uint64_t left_out = 0;               ///< unreadable samples left out (eval)
  std::optional<std::uint64_t> batch_hash;  ///< xxh3 over sample ids and tensor bytes; written as 16 hex digits
  std::optional<std::uint64_t> batch_size;  ///< samples of this step over all ranks and micro-steps, or evaluated samples
  std::optional<std::uint64_t> gradient_accumulation_steps;  ///< kind train
  std::vector<MetricsTerm> terms;
  StepTiming timing;
  StepMemory memory;
  StepRates rates;

  /// Returns the term of this name, or nullptr.
  const MetricsTerm* term(std::string_view name) const;
  /// One JSON object without line feed. A few microseconds: called once a step.
  std::string to_line() const;
  /// Parses one line. Errors: json_invalid for text that is no record, artifact_version never (see read_events).
  static Result<MetricsRecord> parse(std::string_view line, std::string_view name = "metrics.jsonl");

  friend bool operator==(const MetricsRecord&, const MetricsRecord&) = default;
};

/// Fills the image and sample rates from `batch_size` and `timing`; does nothing where one is absent or zero.
void derive_rates(MetricsRecord& record);

/// The names of events; other names are allowed and ignored by readers.
/// Details, all optional unless marked `!`; steps are integers, codes as `PS402`, times in the unit of their name:
namespace event {
/// format_version!, version, run, host, pid, mode (`train`, ...), dry_run, synthetic (data), mock (fake worker), resumed_from
/// {step, path}, skipped_checkpoints [{path, reason}]
inline constexpr std::string_view started = "started";
/// hash!, backend, worker, device, world_size, global_batch, path
inline constexpr std::string_view plan = "plan";
/// worker, pid, torch, parameters (count), state_bytes, startup_seconds; rank set
inline constexpr std::string_view worker_ready = "worker_ready";
/// samples, fingerprint, steps_per_epoch, threads
inline constexpr std::string_view engine_ready = "engine_ready";
/// path!, bytes, seconds (snapshot to durable), blocked_ms, reason (start, interval, best, signal, final), best (bool), pinned;
/// step set
inline constexpr std::string_view checkpoint_committed = "checkpoint_committed";
/// path!, reason; step set
inline constexpr std::string_view checkpoint_removed = "checkpoint_removed";
/// metric, value, improved (bool), samples, left_out, seconds, cpu_seconds; step set
inline constexpr std::string_view eval = "eval";
/// split! (train, validation), id! (sample), reason!, replacement (sample id, training), source (archive member or file); step
/// set in training
inline constexpr std::string_view sample_failed = "sample_failed";
/// signal! (`SIGTERM`), action (`stop after this step`, `stop now`)
inline constexpr std::string_view signal = "signal";
/// code!, message!, notes [], log (path), last_checkpoint {step, path}, consequence_of (rank); rank and step where they apply
inline constexpr std::string_view failure = "failure";
/// code!, message!: something to know that stopped nothing; step set
inline constexpr std::string_view warning = "warning";
/// no_grad []: trainable parameters that got no gradient in the first step; rank and step set
inline constexpr std::string_view audit = "audit";
/// what (`engine`, `rank`), reason, count
inline constexpr std::string_view restarted = "restarted";
/// outcome! (completed, stopped, failed), exit_code, seconds (wall of this attempt), cpu_seconds {agent, engine, workers,
/// evaluation} (of this attempt; evaluation is also contained in the others), peak_resident_bytes {agent, engine, workers}; step
/// set
inline constexpr std::string_view finished = "finished";
}  // namespace event

/// One line of `events.jsonl`. *thread-compatible*
struct EventRecord {
  std::string name;               ///< one of run::event, or another
  std::int64_t monotonic_ns = 0;  ///< CLOCK_MONOTONIC of the agent: differences within one attempt
  std::int64_t wall_ns = 0;       ///< since 1970-01-01 UTC: a label
  std::uint32_t attempt = 1;
  std::optional<Rank> rank;
  std::optional<Step> step;
  Json details = Json::object();

  /// One JSON object without line feed: {event, attempt, wall, wall_ns, monotonic_ns, step, rank, details}.
  std::string to_line() const;
  /// Parses one line. Errors: json_invalid for text that is no event.
  static Result<EventRecord> parse(std::string_view line, std::string_view name = "events.jsonl");

  friend bool operator==(const EventRecord&, const EventRecord&) = default;
};

/// The content of a record file.
template <typename Record>
struct RecordFile {
  std::vector<Record> records;  ///< in the order of the file
  std::size_t cut_lines = 0;    ///< lines cut by a crash, dropped
};

/// Reads `metrics.jsonl`. A line cut by a crash is dropped and counted: one that begins like a record, is not valid JSON, and is
/// the last line or is followed by a line of a later attempt. Errors: io_failed; json_invalid with the line number for any other
/// line that is no record.
Result<RecordFile<MetricsRecord>> read_metrics(FileSystem& files, const std::string& path);
/// Reads `events.jsonl` by the same rule. Errors: also artifact_version when a `started` event carries an unknown major version.
Result<RecordFile<EventRecord>> read_events(FileSystem& files, const std::string& path);

/// What a writer that appends must write first so that a cut last line stays a line of its own: `\n`, or nothing. A missing file
/// counts as empty.
Result<std::string> append_separator(FileSystem& files, const std::string& path);

/// Keeps the last record of each (kind, step), ordered by step, train before eval: what the run amounts to after resumes.
std::vector<MetricsRecord> effective_metrics(std::span<const MetricsRecord> records);

/// Returns the part of a metrics line that is a pure function of config and data: without `attempt`, `timing`, `memory`, `rates`.
/// Equal texts mean equal steps. Errors: json_invalid.
Result<std::string> comparable(std::string_view line);

/// Order statistics of a sample. Percentiles are exact: the smallest value that at least q of all values do not exceed (nearest
/// rank).
struct Percentiles {
  std::size_t count = 0;
  double min = 0.0, p50 = 0.0, p90 = 0.0, p99 = 0.0, max = 0.0, mean = 0.0;

  Json to_json() const;
};
/// Sorts a copy of the finite values; all zero for none.
Percentiles percentiles_of(std::span<const double> values);

}  // namespace parascale::run
