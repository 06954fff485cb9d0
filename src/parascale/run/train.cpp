#include "parascale/run/train.h"

#include <fmt/core.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "parascale/base/clock.h"
#include "parascale/base/log.h"
#include "parascale/base/version.h"

namespace parascale::run {

namespace {

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

void record_start(const TrainRequest& request, const StartPoint& start, RecordWriter& records) {
  const plan::RuntimePlan& plan = request.plan;
  Json details = Json::object({{"format_version", kRecordFormatVersion},
                               {"version", kVersion},
                               {"run", plan.name},
                               {"host", host_name()},
                               {"pid", getpid()},
                               {"mode", "train"},
                               {"dry_run", false},
                               {"synthetic", plan.data.options.type == data::DatasetType::synthetic},
                               {"mock", plan.backend.worker == "fake"}});
  if (start.source) {
    details["resumed_from"] = Json::object({{"step", start.step.value}, {"path", start.source->directory}});
  }
  for (const auto& skipped : start.skipped) {
    details["skipped_checkpoints"].push_back(Json::object({{"path", skipped.path}, {"reason", skipped.reason.message()}}));
  }
  for (const auto& change : start.changes) {
    details["changes"].push_back(change);
  }
  records.event(event::started, std::move(details), start.step);
  records.event(event::plan, Json::object({{"hash", plan.hash()},
                                           {"backend", plan.backend.name},
                                           {"worker", plan.backend.worker},
                                           {"device", plan.device.kind},
                                           {"world_size", plan.backend.world_size},
                                           {"global_batch", plan.batch.global(plan.backend.world_size)},
                                           {"path", request.paths.plan()}}));
}

void record_ready(const Session& session, const plan::RuntimePlan& plan, double startup_seconds, RecordWriter& records) {
  const auto train = session.summaries.find(data::Split::train);
  records.event(event::engine_ready,
                Json::object({{"samples", train != session.summaries.end() ? train->second.samples : 0},
                              {"fingerprint", train != session.summaries.end() ? train->second.fingerprint : ""},
                              {"steps_per_epoch", plan.data.steps_per_epoch},
                              {"threads", plan.threads.engine}}));
  std::uint64_t state_bytes = 0;
  for (const auto& entry : session.inventory) {
    state_bytes += entry.alias_of.empty() ? tensor_bytes(entry.dtype, entry.global_shape).value_or(0) : 0;
  }
  records.event(event::worker_ready,
                Json::object({{"worker", session.rank_hello.role},
                              {"pid", session.rank.process().pid()},
                              {"torch", session.rank_hello.torch},
                              {"parameters", plan.workload.parameters},
                              {"state_bytes", state_bytes},
                              {"startup_seconds", startup_seconds}}),
                std::nullopt, Rank{0});
}

/// The index that the engine opened must be the one the plan was made for.
Status check_fingerprints(const Session& session, const plan::RuntimePlan& plan) {
  for (const auto& [split, planned] : {std::pair(data::Split::train, plan.data.train_fingerprint),
                                       std::pair(data::Split::validation, plan.data.validation_fingerprint)}) {
    const auto found = session.summaries.find(split);
    if (found != session.summaries.end() && found->second.fingerprint != planned) {
      return Error(Code::plan_misfit, fmt::format("the {} data changed since the plan was made", data::split_name(split)))
          .note(fmt::format("fingerprint: plan {}, now {}", planned, found->second.fingerprint))
          .help("run `parascale plan` again");
    }
  }
  return {};
}

struct Failed {
  RecordWriter& records;
  Error operator()(Error error, Step step) const {
    records.event(
        event::failure,
        Json::object({{"code", code_text(error.code())}, {"message", error.message()}, {"notes", Json::array_of(error.notes())}}),
        step);
    records.event(event::finished, Json::object({{"outcome", "failed"}, {"exit_code", exit_code(error.kind())}}), step);
    return error;
  }
};

}  // namespace

Result<TrainOutcome> train(const TrainRequest& request) {
  PS_ASSIGN(auto signals, SignalWatch::make());
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  PS_ASSIGN(const auto lock, RunLock::take(request.paths.directory));
  PS_TRY(check_fresh(request.resume, request.paths));
  FileSystem& files = real_file_system();
  PS_ASSIGN(auto committer, checkpoint::Committer::open(files, real_clock(), request.plan.checkpoint));
  PS_ASSIGN(auto start, find_start(request.resume, request.plan));
  PS_ASSIGN(auto records, RecordWriter::open(request.paths, request.sinks));
  if (!request.config_document.empty()) {
    PS_TRY(replace_file(files, request.paths.config(), request.config_document));
  }
  PS_TRY(replace_file(files, request.paths.plan(), request.plan.to_json().dump_pretty() + "\n"));
  record_start(request, start, records);
  const Failed failed{records};
  const Step first = start.step;
  Log log(request.paths.log("agent"));
  for (const auto& name : committer->recovered()) {
    log.info(fmt::format("cleared a leftover of an earlier process: {}", name));
  }
  CommitThread commits(std::move(committer));
  std::vector<data::Split> splits{data::Split::train};
  if (request.plan.data.validation_samples > 0) {
    splits.push_back(data::Split::validation);
  }
  const std::int64_t begun_ns = real_clock().monotonic_ns();
  auto session = Session::start({.plan = request.plan,
                                 .paths = request.paths,
                                 .programs = request.programs,
                                 .data = request.plan.data.options,
                                 .splits = splits,
                                 .slot_capacity = std::max(request.plan.batch.per_rank, request.plan.schedule.evaluation_batch)});
  if (!session.ok()) {
    return failed(session.error(), first);
  }
  if (const Status fits = check_fingerprints(**session, request.plan); !fits.ok()) {
    return failed(fits.error(), first);
  }
  record_ready(**session, request.plan, static_cast<double>(real_clock().monotonic_ns() - begun_ns) * 1e-9, records);
  Trainer trainer({.plan = request.plan,
                   .paths = request.paths,
                   .config_document = request.config_document,
                   .records = records,
                   .signals = signals,
                   .session = **session,
                   .commits = commits,
                   .start = std::move(start)});
  auto outcome = trainer.run();
  if (!outcome.ok()) {
    log.error(render(outcome.error()));
  }
  return outcome;
}

}  // namespace parascale::run
