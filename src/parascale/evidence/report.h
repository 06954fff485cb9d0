#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parascale/base/file_system.h"
#include "parascale/base/ids.h"
#include "parascale/base/json.h"
#include "parascale/base/result.h"
#include "parascale/run/run_record.h"

// The artifact of stage evidence: what happened, computed once from the records of a run. Written to `evidence.json`; report,
// summary and TensorBoard files are rendered from it. Field by field: docs/formats/records.md.
namespace parascale::evidence {

/// CPU seconds (user + system) by process. `evaluation` is the part of the others that evaluations took.
struct CpuSeconds {
  double agent = 0.0, engine = 0.0, workers = 0.0, evaluation = 0.0;
  /// Everything but evaluations.
  double training() const { return agent + engine + workers - evaluation; }
};

/// One start of the run directory: the first, or a resume.
struct Attempt {
  std::uint32_t number = 1;
  std::int64_t wall_ns = 0;                   ///< of its `started` event
  std::optional<Step> resumed_from;           ///< step of the checkpoint it went on from
  std::optional<Step> first_step, last_step;  ///< of its training steps, later overwritten ones included
  std::string outcome;                        ///< completed, stopped, failed, or `interrupted` when it has no `finished` event
  std::optional<double> seconds;              ///< wall
  std::optional<CpuSeconds> cpu_seconds;
};

/// One evaluation, as it counts after resumes.
struct EvaluationRow {
  Step step{};
  double epoch = 0.0;
  std::uint32_t attempt = 1;
  std::optional<double> loss;
  std::vector<std::pair<std::string, double>> metrics;  ///< all terms but loss, as means
  std::uint64_t evaluated = 0, left_out = 0;
  std::optional<double> seconds;
  bool best = false;
};

struct CheckpointRow {
  Step step{};
  std::uint32_t attempt = 1;
  std::string path, reason;
  std::optional<std::uint64_t> bytes;
  std::optional<double> seconds, blocked_ms;
  bool best = false;     ///< the newest one that was committed as best
  bool removed = false;  ///< retention took it away
};

/// A sample that could not be read; once per (split, id).
struct FailedSample {
  std::string split, reason, source;
  std::uint64_t id = 0;
  std::optional<std::uint64_t> replacement;
  std::optional<Step> first_step;
  std::uint64_t occurrences = 1;  ///< distinct steps (training) or evaluations
};

struct FailureRow {
  std::string code, message, log;
  std::vector<std::string> notes;
  std::uint32_t attempt = 1;
  std::optional<Step> step;
  std::optional<Rank> rank;
  bool consequence = false;  ///< of an earlier failure
};

/// The steps that time and throughput figures are taken from.
struct MeasurementWindow {
  std::uint64_t warmup_steps_effective = 0;  ///< left out: the first steps of each attempt
  std::uint64_t measured_steps = 0;
};

/// What happened in a run. *thread-compatible*
struct Evidence {
  static constexpr std::string_view kFormatVersion = "1.0";

  std::string mode = "train";
  bool dry_run = false;
  bool mock = false;             ///< a fake worker: no model was trained
  bool synthetic = false;        ///< made-up data
  std::string runtime_status;    ///< plan_only, mock, synthetic, real_local
  std::string capability_level;  ///< dry_run, interface_ready, smoke_verified, single_node_verified

  std::string run_name, version, host;
  std::string outcome;  ///< of the last attempt
  std::uint64_t steps = 0, samples = 0;
  double epochs = 0.0;
  std::optional<double> wall_seconds;  ///< sum over the attempts that finished
  std::vector<Attempt> attempts;

  std::string metric;                          ///< by which `best` was chosen; empty without evaluation
  std::optional<std::size_t> best_evaluation;  ///< position in `evaluations`
  std::vector<EvaluationRow> evaluations;
  std::optional<double> final_train_loss;  ///< mean of the last (up to) 50 steps

  MeasurementWindow window;
  run::Percentiles step_time_ms;  ///< without wait for data
  run::Percentiles data_wait_ms;
  run::Percentiles images_per_second, end_to_end_images_per_second;
  std::optional<double> data_wait_share;            ///< of step time plus wait
  std::optional<double> overall_images_per_second;  ///< images of the window / its step time plus wait
  std::optional<std::uint64_t> peak_memory_bytes;   ///< highest of any rank
  std::optional<CpuSeconds> cpu_seconds;            ///< sum over attempts
  bool cpu_seconds_complete = false;                ///< false when an attempt ended without reporting
  std::uint64_t skipped_steps = 0;
  std::uint64_t replaced_samples = 0, left_out_samples = 0;  ///< presentations, after resumes

  std::vector<CheckpointRow> checkpoints;
  std::vector<FailedSample> failed_samples;
  std::vector<FailureRow> failures;
  std::vector<FailureRow> warnings;  ///< what was to know and stopped nothing
  std::vector<std::string> signals;  ///< `SIGTERM in attempt 1`
  std::uint64_t cut_lines = 0;       ///< record lines lost to crashes

  std::optional<Json> plan;             ///< plan.json, for display
  std::optional<Json> resolved_config;  ///< config.resolved.json, for display

  // The series behind the plots; not part of evidence.json.
  std::vector<run::MetricsRecord> metrics;  ///< effective: last line of each step
  std::vector<run::EventRecord> events;

  /// `DRY RUN`, `FAKE WORKER`, `SYNTHETIC DATA`: every output shows them.
  std::vector<std::string> labels() const;
  /// The document of evidence.json: `format_version` first, stable order.
  Json to_json() const;
};

/// Reads the records of `run_dir` (and plan.json, config.resolved.json where they exist) and computes the evidence. Pure function
/// of these files. Errors: path_not_found when the directory holds no run; json_invalid, artifact_version, io_failed from the
/// readers.
Result<Evidence> build_evidence(FileSystem& files, const std::string& run_dir);

}  // namespace parascale::evidence
