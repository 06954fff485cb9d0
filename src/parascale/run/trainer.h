#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parascale/run/resume.h"
#include "parascale/run/schedule.h"
#include "parascale/run/session.h"
#include "parascale/run/signals.h"
#include "parascale/run/snapshot.h"

namespace parascale::run {

/// How a training run ended well.
struct TrainOutcome {
  bool completed = false;  ///< false: stopped by a signal, resumable
  Step step{};
  std::optional<Best> best;
  std::map<std::string, double> evaluation;  ///< of the last one: loss, top1, ...
  std::string last_checkpoint;
  std::chrono::nanoseconds wall_time{};
  std::map<std::string, double> cpu_seconds;  ///< agent, engine, workers, evaluation (contained in the others)
};

/// Everything a training run needs, decided before.
struct TrainerParts {
  const plan::RuntimePlan& plan;
  const RunPaths& paths;
  std::string config_document;  ///< `config.resolved.json`, kept in every checkpoint
  RecordWriter& records;
  SignalWatch& signals;
  Session& session;
  CommitThread& commits;
  StartPoint start;
};

/// The training loop of the agent: fills slots in the order of the work sequence, streams steps to the rank as slots become
/// ready, records what comes back, evaluates, snapshots, commits, and names the cause when something ends. *confined to the
/// agent's thread*
///
/// Boundaries: after the last micro-step of step t its evaluation follows, then its snapshot; only an evaluation (whose result
/// decides about the best checkpoint) and an arena still in use hold later steps back.
class Trainer {
 public:
  explicit Trainer(TrainerParts parts);
  Result<TrainOutcome> run();

 private:
  struct Pending {
    WorkItem item;
    std::uint32_t slot = 0;
    std::optional<protocol::Filled> filled;
  };
  struct InFlight {
    Step step{};
    StepSamples samples;
    std::vector<std::string> hashes;
    std::vector<std::uint64_t> ids;
    std::uint64_t replaced = 0;
    std::int64_t begun_ns = 0;
    double checkpoint_blocked_ms = 0.0;
  };
  struct Evaluation {
    Step step{};
    std::uint32_t outstanding = 0;
    bool all_sent = false;
    std::uint64_t samples = 0;
    std::uint64_t left_out = 0;
    std::map<std::string, protocol::Term> terms;
    std::int64_t begun_ns = 0;
    std::chrono::nanoseconds cpu_begun{};
  };
  struct SnapshotRequest {
    Step step{};
    bool best = false;
    std::string reason;
    std::optional<Best> best_before;  ///< holds again when a best checkpoint cannot be written
  };

  Status start();
  Status loop();
  Status wait_for_events();
  Status read_rank();
  Status read_engine();
  Status on_rank_frame(const protocol::Frame& frame);
  Status on_filled(const protocol::Filled& filled);
  Status on_step_done(const protocol::StepDone& done);
  Status on_eval_done(const protocol::Frame& frame);
  Status on_snapshot_ready(const protocol::Frame& frame);
  Status on_commit_done();
  Status on_commit_failed(const SnapshotRequest& snapshot, const Error& error);
  void on_signal(int number);
  Status check_deadlines();

  void issue_fills();
  Status dispatch();
  Status dispatch_train(const Pending& pending);
  Status dispatch_evaluation(const Pending& pending);
  Status finish_evaluation();
  void record_failed_samples(const Pending& pending);
  void finish_boundary(Step step, std::optional<Best> best_before, bool improved);
  void request_snapshot(SnapshotRequest request);
  void send_snapshot();
  void request_stop();
  bool finished() const;
  /// `in phase forward of step 3, micro-step 0`, from the pulse page: what the rank itself said last.
  std::string rank_place() const;
  bool rank_owes() const { return !steps_.empty() || evaluation_ || snapshot_sent_; }
  checkpoint::CommitRequest commit_request(const SnapshotRequest& snapshot) const;
  MetricsRecord train_record(const InFlight& flight, const protocol::StepDone& done);
  Error with_outlook(Error error) const;
  void record_failure(const Error& error, std::optional<Step> step);
  void record_finished(std::string_view outcome, int code);
  std::chrono::nanoseconds all_cpu_time() const;

  TrainerParts parts_;
  const plan::RuntimePlan& plan_;
  WorkSequence sequence_;
  std::optional<SnapshotPlan> snapshot_plan_;
  std::optional<WorkItem> next_item_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> abandoned_slots_;  // being filled for steps that a stop dropped
  std::deque<Pending> pending_;
  std::deque<InFlight> steps_;
  std::optional<Evaluation> evaluation_;
  std::optional<SnapshotRequest> snapshot_wanted_;  // waits for the arena
  std::optional<SnapshotRequest> snapshot_sent_;    // waits for the rank
  std::optional<SnapshotRequest> snapshot_commit_;  // being committed
  std::int64_t snapshot_wanted_ns_ = 0;
  double blocked_ms_ = 0.0;
  std::uint32_t open_fills_ = 0;
  Step dispatched_{};                // last step whose `finish` has been sent
  Step started_{};                   // last step whose `step` has been sent
  Step boundary_{};                  // last step whose boundary has been passed
  std::optional<Step> snapshotted_;  // last step that is committed or that a snapshot has been asked for
  bool gate_open_ = true;            // false: later work waits for a boundary
  bool stopping_ = false;
  int signals_seen_ = 0;
  bool audit_pending_ = true;
  Step done_{};
  std::optional<Best> best_;
  Step evaluated_{};
  std::map<std::string, double> last_evaluation_;
  std::string last_checkpoint_;
  std::int64_t begun_ns_ = 0;
  std::int64_t previous_done_ns_ = 0;
  std::int64_t engine_progress_ns_ = 0;
  std::int64_t rank_progress_ns_ = 0;
  std::chrono::nanoseconds evaluation_cpu_{};
};

}  // namespace parascale::run
