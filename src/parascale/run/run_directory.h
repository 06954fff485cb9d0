#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parascale/base/file_system.h"
#include "parascale/base/json.h"
#include "parascale/base/unique_fd.h"
#include "parascale/run/ports/event_sink.h"

namespace parascale::run {

/// Paths of a run. `checkpoints` may lie elsewhere (`checkpoint_save_path`).
struct RunPaths {
  std::string directory;
  std::string config() const { return join_path(directory, "config.resolved.json"); }
  std::string plan() const { return join_path(directory, "plan.json"); }
  std::string events() const { return join_path(directory, "events.jsonl"); }
  std::string metrics() const { return join_path(directory, "metrics.jsonl"); }
  std::string log(const std::string& name) const { return join_path(directory, "logs/" + name + ".log"); }
};

/// The lock of a run directory: one writer at a time, gone with its process. Destroying it gives the directory free.
class RunLock {
 public:
  /// Makes the directory and takes `LOCK` (flock). Errors: run_locked naming the holder, io_failed.
  static Result<RunLock> take(const std::string& directory);

 private:
  UniqueFd fd_;
};

/// True when the directory holds records of a run.
bool holds_run(const RunPaths& paths);

/// Writes `events.jsonl` and `metrics.jsonl`, appending, one write call a line, and hands every record to the other sinks as
/// well. A failing disk is remembered and reported by `status()`: a run must not go on without its records. *confined to the
/// agent's thread*
class RecordWriter final : public EventSink {
 public:
  /// Opens both files; the attempt is one more than the last one found. Errors: record_failed.
  static Result<RecordWriter> open(const RunPaths& paths, std::vector<EventSink*> sinks);

  std::uint32_t attempt() const { return attempt_; }
  void on_event(const EventRecord& event) override;
  void on_metrics(const MetricsRecord& metrics) override;
  /// Stamps times and attempt and records the event.
  void event(std::string_view name, Json details, std::optional<Step> step = std::nullopt,
             std::optional<Rank> rank = std::nullopt);
  Status status() const { return status_; }

 private:
  void append(UniqueFd& file, const std::string& path, std::string line);

  RunPaths paths_;
  UniqueFd events_;
  UniqueFd metrics_;
  std::vector<EventSink*> sinks_;
  std::uint32_t attempt_ = 1;
  Status status_;
};

}  // namespace parascale::run
