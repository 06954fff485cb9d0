#include "parascale/run/trainer.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <array>

#include "parascale/base/clock.h"
#include "parascale/base/hash.h"
#include "parascale/base/text.h"

// The loop and what it sends; `trainer_frames.cpp` holds what it receives and records.

namespace parascale::run {

namespace {

constexpr int kTickMs = 200;  // how often deadlines are looked at

std::int64_t now_ns() { return real_clock().monotonic_ns(); }

}  // namespace

Trainer::Trainer(TrainerParts parts)
    : parts_(std::move(parts)), plan_(parts_.plan), sequence_(plan_, parts_.start.step, parts_.start.evaluation_owed) {
  for (std::uint32_t slot = parts_.session.layout.slot_count; slot > 0; --slot) {
    free_slots_.push_back(slot - 1);
  }
  dispatched_ = started_ = boundary_ = done_ = parts_.start.step;
  best_ = parts_.start.best;
  begun_ns_ = now_ns();
}

Result<TrainOutcome> Trainer::run() {
  Status status = start();
  if (status.ok()) {
    status = loop();
  }
  if (!status.ok()) {
    // A commit that is under way is still good: its bytes lie in the arena already.
    while (parts_.commits.busy()) {
      pollfd ended{.fd = parts_.commits.event_fd(), .events = POLLIN, .revents = 0};
      poll(&ended, 1, kTickMs);
      (void)on_commit_done();  // the first error stays the cause
    }
    const Error error = with_outlook(status.error());
    parts_.session.rank.process().kill();
    parts_.session.engine.process().kill();
    (void)parts_.session.rank.process().wait_or_kill(std::chrono::seconds(1));
    (void)parts_.session.engine.process().wait_or_kill(std::chrono::seconds(1));
    record_failure(error, steps_.empty() ? done_ : steps_.front().step);
    record_finished("failed", exit_code(error.kind()));
    return error;
  }
  const bool completed = done_.value >= plan_.schedule.max_steps;
  (void)parts_.session.rank.stop("the run is over", std::chrono::seconds(10));
  (void)parts_.session.engine.stop("the run is over", std::chrono::seconds(10));
  record_finished(completed ? "completed" : "stopped", 0);
  PS_TRY(parts_.records.status());
  const auto seconds = [](std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); };
  return TrainOutcome{.completed = completed,
                      .step = done_,
                      .best = best_,
                      .evaluation = last_evaluation_,
                      .last_checkpoint = last_checkpoint_,
                      .wall_time = std::chrono::nanoseconds(now_ns() - begun_ns_),
                      .cpu_seconds = {{"agent", seconds(own_cpu_time())},
                                      {"engine", seconds(parts_.session.engine.process().cpu_time())},
                                      {"workers", seconds(parts_.session.rank.process().cpu_time())},
                                      {"evaluation", seconds(evaluation_cpu_)}}};
}

Status Trainer::start() {
  PS_ASSIGN(snapshot_plan_, SnapshotPlan::make(parts_.session.inventory));
  PS_TRY(parts_.session.share_arena(snapshot_plan_->arena_bytes()));
  snapshot_plan_->write_headers(parts_.session.arena.bytes());
  if (parts_.start.source) {
    PS_TRY(parts_.session.load(*parts_.start.source, Session::LoadState::all,
                               std::chrono::seconds(plan_.supervision.hang_deadline_seconds)));
    snapshotted_ = parts_.start.step;
    last_checkpoint_ = parts_.start.source->directory;
    evaluated_ = parts_.start.evaluation_owed ? Step{} : parts_.start.step;
    auto& committer = parts_.commits.committer();
    committer.pin(parts_.start.step);
    const auto steps = committer.steps();
    if (best_ && std::ranges::find(steps, best_->step) != steps.end()) {
      PS_TRY(committer.set_best(best_->step));
    }
  }
  if (!parts_.start.source && !plan_.workload.init_from.empty()) {
    PS_ASSIGN(const auto resolved, checkpoint::resolve_reference(real_file_system(), plan_.workload.init_from));
    PS_ASSIGN(const auto opened, checkpoint::open_for_load(real_file_system(), resolved.directory, checkpoint::LoadPart::model));
    PS_TRY(
        parts_.session.load(opened, Session::LoadState::weights, std::chrono::seconds(plan_.supervision.hang_deadline_seconds)));
  }
  if (parts_.start.step.value == 0) {
    // Every run starts from a committed file, so that any rank and back end can start from the same one.
    request_snapshot({.step = Step{0}, .best = false, .reason = "start"});
  }
  return {};
}

bool Trainer::finished() const {
  return !next_item_ && pending_.empty() && steps_.empty() && !evaluation_ && !snapshot_wanted_ && !snapshot_sent_ &&
         !snapshot_commit_;
}

Status Trainer::loop() {
  engine_progress_ns_ = rank_progress_ns_ = now_ns();
  while (true) {
    issue_fills();
    PS_TRY(dispatch());
    PS_TRY(parts_.session.engine.channel().flush().ok()
               ? Status()
               : Status(parts_.session.engine.died(fmt::format("while step {} was under way", done_.value + 1))));
    PS_TRY(parts_.session.rank.channel().flush().ok() ? Status() : Status(parts_.session.rank.died(rank_place())));
    PS_TRY(parts_.records.status());
    if (finished()) {
      return {};
    }
    PS_TRY(wait_for_events());
  }
}

Status Trainer::wait_for_events() {
  Session& session = parts_.session;
  std::array<pollfd, 6> watched = {{{.fd = session.rank.channel().fd(), .events = POLLIN, .revents = 0},
                                    {.fd = session.engine.channel().fd(), .events = POLLIN, .revents = 0},
                                    {.fd = session.rank.process().pidfd(), .events = POLLIN, .revents = 0},
                                    {.fd = session.engine.process().pidfd(), .events = POLLIN, .revents = 0},
                                    {.fd = parts_.signals.fd(), .events = POLLIN, .revents = 0},
                                    {.fd = parts_.commits.event_fd(), .events = POLLIN, .revents = 0}}};
  const int ready = poll(watched.data(), watched.size(), kTickMs);
  if (ready == 0) {
    return check_deadlines();
  }
  if (watched[4].revents != 0) {
    while (const auto number = parts_.signals.take()) {
      on_signal(*number);
    }
  }
  if (watched[5].revents != 0) {
    PS_TRY(on_commit_done());
  }
  if (watched[0].revents != 0) {
    PS_TRY(read_rank());
  }
  if (watched[1].revents != 0) {
    PS_TRY(read_engine());
  }
  if (watched[2].revents != 0) {
    return session.rank.died(rank_place());
  }
  if (watched[3].revents != 0) {
    return session.engine.died(fmt::format("while step {} was under way", done_.value + 1));
  }
  return {};
}

Status Trainer::check_deadlines() {
  const std::chrono::seconds deadline(plan_.supervision.hang_deadline_seconds);
  const std::int64_t now = now_ns();
  const std::int64_t limit_ns = std::chrono::nanoseconds(deadline).count();
  if (rank_owes()) {
    const protocol::Pulse pulse = parts_.session.read_pulse();
    if (now - std::max(pulse.changed_ns, rank_progress_ns_) > limit_ns) {
      return parts_.session.rank.hung(rank_place(), deadline);
    }
  }
  if (open_fills_ > 0 && now - engine_progress_ns_ > limit_ns) {
    return parts_.session.engine.hung(fmt::format("while {} were asked for", format_count(open_fills_, "batch")), deadline);
  }
  return {};
}

std::string Trainer::rank_place() const {
  const protocol::Pulse pulse = parts_.session.read_pulse();
  return fmt::format("in phase {} of step {}, micro-step {}", protocol::phase_name(pulse.phase), pulse.step, pulse.micro_step);
}

void Trainer::issue_fills() {
  while (!free_slots_.empty()) {
    if (!next_item_) {
      next_item_ = sequence_.next();
    }
    if (!next_item_) {
      return;
    }
    Pending pending{.item = *next_item_, .slot = free_slots_.back()};
    free_slots_.pop_back();
    next_item_.reset();
    const bool train = pending.item.kind == WorkItem::Kind::train;
    const protocol::Fill fill{.slot = pending.slot,
                              .split = train ? "train" : "validation",
                              .step = pending.item.step,
                              .micro_step = pending.item.micro_step,
                              .epoch = pending.item.epoch,
                              .first = pending.item.first,
                              .count = pending.item.count};
    parts_.session.engine.channel().queue(fill.to_json());
    if (open_fills_++ == 0) {
      engine_progress_ns_ = now_ns();
    }
    pending_.push_back(std::move(pending));
  }
}

Status Trainer::dispatch() {
  while (gate_open_ && !pending_.empty() && pending_.front().filled) {
    const Pending pending = std::move(pending_.front());
    pending_.pop_front();
    if (!rank_owes()) {
      rank_progress_ns_ = now_ns();
    }
    record_failed_samples(pending);
    if (pending.item.kind == WorkItem::Kind::train) {
      PS_TRY(dispatch_train(pending));
    } else {
      PS_TRY(dispatch_evaluation(pending));
    }
  }
  return {};
}

Status Trainer::dispatch_train(const Pending& pending) {
  auto& channel = parts_.session.rank.channel();
  const WorkItem& item = pending.item;
  if (item.micro_step == 0) {
    InFlight flight{
        .step = item.step, .samples = samples_of(plan_, item.step), .begun_ns = now_ns(), .checkpoint_blocked_ms = blocked_ms_};
    blocked_ms_ = 0.0;
    channel.queue(Json::object({{"type", "step"},
                                {"t", item.step.value},
                                {"lr", plan::learning_rate(plan_.schedule.lr, plan_.schedule.max_steps, item.step)},
                                {"micros", flight.samples.micro_steps},
                                {"planned", Json::object({{"loss", flight.samples.count}})},
                                {"policy", Json::object({{"nonfinite", plan_.training.nonfinite}})},
                                {"flags", Json::object({{"audit", audit_pending_}, {"profile", false}})}}));
    audit_pending_ = false;
    started_ = item.step;
    steps_.push_back(std::move(flight));
  }
  InFlight& flight = steps_.back();
  flight.hashes.push_back(pending.filled->batch_hash);
  flight.replaced += pending.filled->replaced;
  PS_ASSIGN(const auto view, protocol::read_slot(parts_.session.slot(pending.slot)));
  flight.ids.insert(flight.ids.end(), view.ids.begin(), view.ids.begin() + view.header.valid_count);
  channel.queue(Json::object({{"type", "micro"}, {"t", item.step.value}, {"k", item.micro_step}, {"slot", pending.slot}}));
  if (item.last) {
    channel.queue(Json::object({{"type", "finish"},
                                {"t", item.step.value},
                                {"denominators", Json::object({{"loss", static_cast<std::uint64_t>(flight.ids.size())}})}}));
    dispatched_ = item.step;
    if (!evaluates_after(plan_, item.step)) {
      finish_boundary(item.step, best_, false);
    }
  }
  return {};
}

Status Trainer::dispatch_evaluation(const Pending& pending) {
  const WorkItem& item = pending.item;
  if (!evaluation_) {
    evaluation_ = Evaluation{.step = item.step, .begun_ns = now_ns(), .cpu_begun = all_cpu_time()};
  }
  evaluation_->left_out += pending.filled->failures.size();
  ++evaluation_->outstanding;
  parts_.session.rank.channel().queue(Json::object({{"type", "eval"},
                                                    {"id", item.micro_step},
                                                    {"weights", "live"},
                                                    {"phase", "validation"},
                                                    {"slot", pending.slot},
                                                    {"last", item.last}}));
  if (item.last) {
    evaluation_->all_sent = true;
    gate_open_ = false;  // whether this becomes the best checkpoint decides what is snapshotted before the next step
  }
  return {};
}

void Trainer::finish_boundary(Step step, std::optional<Best> best_before, bool improved) {
  boundary_ = step;
  const bool stop_here = stopping_ && step >= sequence_.last_step();
  if (commits_after(plan_, step) || improved || stop_here) {
    const bool last = step.value == plan_.schedule.max_steps;
    request_snapshot({.step = step,
                      .best = improved,
                      .reason = last                         ? "final"
                                : stop_here                  ? "signal"
                                : commits_after(plan_, step) ? "interval"
                                                             : "best",
                      .best_before = best_before});
  }
}

void Trainer::request_snapshot(SnapshotRequest request) {
  snapshotted_ = request.step;
  snapshot_wanted_ = std::move(request);
  snapshot_wanted_ns_ = now_ns();
  send_snapshot();
}

void Trainer::send_snapshot() {
  if (snapshot_sent_ || snapshot_commit_) {
    gate_open_ = false;  // the arena still belongs to the commit before
    return;
  }
  blocked_ms_ += static_cast<double>(now_ns() - snapshot_wanted_ns_) * 1e-6;
  if (!rank_owes()) {
    rank_progress_ns_ = now_ns();
  }
  parts_.session.rank.channel().queue(snapshot_plan_->message(snapshot_wanted_->step));
  snapshot_sent_ = std::move(snapshot_wanted_);
  snapshot_wanted_.reset();
  gate_open_ = true;
}

void Trainer::request_stop() {
  stopping_ = true;
  // Whatever has begun is finished, its evaluation included; what was only read ahead is dropped.
  sequence_.stop_after(started_);
  std::erase_if(pending_, [&](const Pending& pending) {
    if (pending.item.step <= started_) {
      return false;
    }
    (pending.filled ? free_slots_ : abandoned_slots_).push_back(pending.slot);
    return true;
  });
  if (next_item_ && next_item_->step > started_) {
    next_item_.reset();
  }
  if (boundary_ == started_ && snapshotted_ != started_) {
    request_snapshot({.step = started_, .best = false, .reason = "signal"});
  }
}

checkpoint::CommitRequest Trainer::commit_request(const SnapshotRequest& snapshot) const {
  const Json plan = plan_.to_json();
  checkpoint::CommitRequest request{.step = snapshot.step,
                                    .run_id = plan_.name,
                                    .attempt = parts_.records.attempt(),
                                    .world_size = plan_.backend.world_size,
                                    .backend = plan_.backend.name,
                                    .config_hash = sha256_hex(parts_.config_document),
                                    .plan_hash = plan_.hash(),
                                    .data_files = snapshot_plan_->data_files(parts_.session.arena.bytes()),
                                    .tensors = snapshot_plan_->tensors(),
                                    .best = snapshot.best};
  const bool evaluated = evaluated_ == snapshot.step && snapshot.step.value > 0;
  request.text_files = {
      {.path = "config.json", .role = "config", .content = plan_.workload.model.dump_pretty() + "\n"},
      {.path = "preprocessor_config.json", .role = "preprocessor", .content = plan_.workload.preprocessor.dump_pretty() + "\n"},
      {.path = "training/state.json", .role = "state", .content = state_text(plan_, snapshot.step, evaluated, best_)},
      {.path = "training/plan.json", .role = "plan", .content = plan.dump_pretty() + "\n"}};
  if (!parts_.config_document.empty()) {
    request.text_files.push_back(
        {.path = "training/config.resolved.json", .role = "resolved_config", .content = parts_.config_document});
  }
  for (const auto& [name, value] : last_evaluation_) {
    if (evaluated) {
      request.metrics[name] = value;
    }
  }
  request.progress =
      Json::object({{"samples", samples_after(plan_, snapshot.step)}, {"epoch", epochs_after(plan_, snapshot.step)}});
  return request;
}

std::chrono::nanoseconds Trainer::all_cpu_time() const {
  return own_cpu_time() + parts_.session.engine.process().cpu_time() + parts_.session.rank.process().cpu_time();
}

}  // namespace parascale::run
