#include <fmt/core.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "parascale/base/clock.h"
#include "parascale/base/hash.h"
#include "parascale/base/text.h"
#include "parascale/run/trainer.h"

// What the trainer receives and records; `trainer.cpp` holds the loop and what it sends.

namespace parascale::run {

namespace {

std::int64_t now_ns() { return real_clock().monotonic_ns(); }

/// The step's hash: that of its only slot, or the XXH3-64 over the hashes of its slots in order.
std::uint64_t step_hash(const std::vector<std::string>& hashes) {
  const auto number = [](const std::string& hex) {
    std::uint64_t value = 0;
    std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
    return value;
  };
  if (hashes.size() == 1) {
    return number(hashes.front());
  }
  std::vector<std::uint64_t> values;
  values.reserve(hashes.size());
  for (const auto& hash : hashes) {
    values.push_back(number(hash));
  }
  return xxh3_64(std::as_bytes(std::span(values)));
}

std::optional<double> milliseconds(const std::map<std::string, std::int64_t>& times, const std::string& name) {
  const auto found = times.find(name);
  return found != times.end() ? std::optional(static_cast<double>(found->second) * 1e-6) : std::nullopt;
}

}  // namespace

Status Trainer::read_rank() {
  auto& channel = parts_.session.rank.channel();
  PS_ASSIGN(const bool open, channel.read_available());
  while (true) {
    PS_ASSIGN(const auto frame, channel.take());
    if (!frame) {
      break;
    }
    rank_progress_ns_ = now_ns();
    PS_TRY(on_rank_frame(*frame));
  }
  return open ? Status() : Status(parts_.session.rank.died(rank_place()));
}

Status Trainer::on_rank_frame(const protocol::Frame& frame) {
  const std::string type = frame.type();
  if (type == "release") {
    PS_ASSIGN(const auto slot, frame.message.get<std::uint32_t>("slot"));
    if (slot >= parts_.session.layout.slot_count || std::ranges::find(free_slots_, slot) != free_slots_.end()) {
      return Error(Code::protocol_violation, fmt::format("rank 0 released slot {}, which it does not hold", slot));
    }
    free_slots_.push_back(slot);
    return {};
  }
  if (type == "step_done") {
    PS_ASSIGN(const auto done, protocol::StepDone::from_json(frame.message));
    return on_step_done(done);
  }
  if (type == "eval_done") {
    return on_eval_done(frame);
  }
  if (type == "snapshot_ready") {
    return on_snapshot_ready(frame);
  }
  if (type == "error") {
    Error error = parts_.session.rank.reported(frame);
    if (error.code() == Code::nonfinite && !steps_.empty()) {
      const auto& ids = steps_.front().ids;
      std::vector<std::string> shown;
      for (std::size_t i = 0; i < std::min<std::size_t>(ids.size(), 64); ++i) {
        shown.push_back(std::to_string(ids[i]));
      }
      error.note(
          fmt::format("samples of step {}: {}{}", steps_.front().step.value, join(shown, " "), ids.size() > 64 ? " ..." : ""));
      error.help("lower the learning rate or clip gradients, or set `training.nonfinite: skip`");
    }
    return error;
  }
  return {};  // unknown notifications are ignored
}

Status Trainer::read_engine() {
  auto& channel = parts_.session.engine.channel();
  PS_ASSIGN(const bool open, channel.read_available());
  while (true) {
    PS_ASSIGN(const auto frame, channel.take());
    if (!frame) {
      break;
    }
    engine_progress_ns_ = now_ns();
    if (frame->type() == "filled") {
      PS_ASSIGN(const auto filled, protocol::Filled::from_json(frame->message));
      PS_TRY(on_filled(filled));
    } else if (frame->type() == "error") {
      return parts_.session.engine.reported(*frame);
    }
  }
  return open ? Status() : Status(parts_.session.engine.died(fmt::format("while step {} was under way", done_.value + 1)));
}

Status Trainer::on_filled(const protocol::Filled& filled) {
  open_fills_ -= open_fills_ > 0 ? 1 : 0;
  if (std::erase(abandoned_slots_, filled.slot) > 0) {
    free_slots_.push_back(filled.slot);
    return {};
  }
  const auto found = std::ranges::find_if(pending_, [&](const Pending& p) { return p.slot == filled.slot && !p.filled; });
  if (found == pending_.end()) {
    return Error(Code::protocol_violation, fmt::format("the data engine filled slot {}, which nobody asked for", filled.slot));
  }
  found->filled = filled;
  return {};
}

void Trainer::record_failed_samples(const Pending& pending) {
  const bool train = pending.item.kind == WorkItem::Kind::train;
  for (const auto& failure : pending.filled->failures) {
    Json details =
        Json::object({{"split", train ? "train" : "validation"}, {"id", failure.id.value}, {"reason", failure.reason}});
    if (failure.replacement) {
      details["replacement"] = failure.replacement->value;
    }
    parts_.records.event(event::sample_failed, std::move(details), pending.item.step);
  }
}

Status Trainer::on_step_done(const protocol::StepDone& done) {
  if (steps_.empty() || steps_.front().step != done.step) {
    return Error(Code::protocol_violation, fmt::format("rank 0 reports step {}, which was not under way", done.step.value));
  }
  const InFlight flight = std::move(steps_.front());
  steps_.pop_front();
  if (!done.no_grad.empty()) {
    parts_.records.event("audit", Json::object({{"no_grad", Json::array_of(done.no_grad)}}), done.step, Rank{0});
  }
  parts_.records.on_metrics(train_record(flight, done));
  done_ = done.step;
  previous_done_ns_ = now_ns();
  return {};
}

MetricsRecord Trainer::train_record(const InFlight& flight, const protocol::StepDone& done) {
  MetricsRecord record{.kind = MetricsKind::train,
                       .step = done.step,
                       .attempt = parts_.records.attempt(),
                       .epoch = epochs_after(plan_, done.step),
                       .samples = samples_after(plan_, done.step),
                       .lr = plan::learning_rate(plan_.schedule.lr, plan_.schedule.max_steps, done.step),
                       .grad_norm = done.grad_norm,
                       .skipped = done.skipped,
                       .replaced = flight.replaced,
                       .batch_hash = step_hash(flight.hashes),
                       .batch_size = flight.samples.count,
                       .gradient_accumulation_steps = flight.samples.micro_steps};
  for (const auto& term : done.terms) {
    record.terms.push_back({.name = term.name, .sum = term.sum, .weight = term.weight});
    if (term.name == "loss") {
      record.loss = term.sum / term.weight;
    }
  }
  const std::int64_t now = now_ns();
  const double wait_ms = milliseconds(done.times_ns, "wait").value_or(0.0);
  const std::int64_t begun = std::max(previous_done_ns_, flight.begun_ns);
  // Data that came late held the step back before it was sent, or inside the rank between micro-steps.
  const double late_ms = previous_done_ns_ > 0 && flight.begun_ns > previous_done_ns_
                             ? static_cast<double>(flight.begun_ns - previous_done_ns_) * 1e-6
                             : 0.0;
  const double wall_ms = static_cast<double>(now - begun) * 1e-6;
  const double inner_wait_ms = std::min(wait_ms, wall_ms);
  record.timing = {.step_time_seconds = (wall_ms - inner_wait_ms) * 1e-3,
                   .dataloader_wait_ms = inner_wait_ms + std::max(0.0, late_ms - flight.checkpoint_blocked_ms),
                   .h2d_ms = milliseconds(done.times_ns, "h2d"),
                   .forward_ms = milliseconds(done.times_ns, "forward"),
                   .backward_ms = milliseconds(done.times_ns, "backward"),
                   .communication_ms = milliseconds(done.times_ns, "comm"),
                   .optimizer_ms = milliseconds(done.times_ns, "optimizer"),
                   .elapsed_seconds = static_cast<double>(now - begun_ns_) * 1e-9};
  if (flight.checkpoint_blocked_ms > 0.0) {
    record.timing.checkpoint_blocked_ms = flight.checkpoint_blocked_ms;
  }
  record.memory = {.peak_memory_bytes = done.peak_bytes, .allocated_memory_bytes = done.rss_bytes};
  derive_rates(record);
  return record;
}

Status Trainer::on_eval_done(const protocol::Frame& frame) {
  if (!evaluation_ || evaluation_->outstanding == 0) {
    return Error(Code::protocol_violation, "rank 0 reports an evaluation that was not under way");
  }
  const Json* sums = frame.message.find("sums");
  const Json* weights = frame.message.find("weights");
  for (const auto& [name, sum] : sums != nullptr ? sums->members() : Json::Object()) {
    const Json* weight = weights != nullptr ? weights->find(name) : nullptr;
    protocol::Term& term = evaluation_->terms[name];
    term.name = name;
    term.sum += sum.to_double().value_or(std::nan(""));  // a sum that is not finite travels as null
    term.weight += weight != nullptr ? weight->to_double().value_or(0.0) : 0.0;
  }
  PS_ASSIGN(const auto rows, frame.message.get<std::uint64_t>("rows"));
  evaluation_->samples += rows;
  --evaluation_->outstanding;
  return evaluation_->all_sent && evaluation_->outstanding == 0 ? finish_evaluation() : Status();
}

Status Trainer::finish_evaluation() {
  const Evaluation evaluation = std::move(*evaluation_);
  evaluation_.reset();
  const std::int64_t now = now_ns();
  const auto cpu = all_cpu_time() - evaluation.cpu_begun;
  evaluation_cpu_ += cpu;
  MetricsRecord record{.kind = MetricsKind::eval,
                       .step = evaluation.step,
                       .attempt = parts_.records.attempt(),
                       .epoch = epochs_after(plan_, evaluation.step),
                       .samples = samples_after(plan_, evaluation.step),
                       .left_out = evaluation.left_out,
                       .batch_size = evaluation.samples};
  last_evaluation_.clear();
  for (const auto& [name, term] : evaluation.terms) {
    record.terms.push_back({.name = name, .sum = term.sum, .weight = term.weight});
    last_evaluation_[name] = term.sum / term.weight;
  }
  if (last_evaluation_.contains("loss")) {
    record.loss = last_evaluation_["loss"];
  }
  const double seconds = static_cast<double>(now - evaluation.begun_ns) * 1e-9;
  record.timing.evaluation_seconds = seconds;
  record.timing.elapsed_seconds = static_cast<double>(now - begun_ns_) * 1e-9;
  parts_.records.on_metrics(record);
  evaluated_ = evaluation.step;
  const std::string& metric = plan_.schedule.evaluation_metric;
  const auto found = last_evaluation_.find(metric);
  const std::optional<Best> best_before = best_;
  bool improved = false;
  if (found != last_evaluation_.end() && std::isfinite(found->second) &&
      (!best_ || improves(metric, found->second, best_->value))) {
    best_ = Best{.step = evaluation.step, .value = found->second};
    improved = true;
  }
  parts_.records.event(event::eval,
                       Json::object({{"metric", metric},
                                     {"value", found != last_evaluation_.end() ? Json(found->second) : Json()},
                                     {"improved", improved},
                                     {"samples", evaluation.samples},
                                     {"left_out", evaluation.left_out},
                                     {"seconds", seconds},
                                     {"cpu_seconds", std::chrono::duration<double>(cpu).count()}}),
                       evaluation.step);
  previous_done_ns_ = 0;  // the next step's time starts when it is sent
  gate_open_ = true;
  finish_boundary(evaluation.step, best_before, improved);
  return {};
}

Status Trainer::on_snapshot_ready(const protocol::Frame& frame) {
  PS_ASSIGN(const auto step, frame.message.get<std::uint64_t>("t"));
  if (!snapshot_sent_ || snapshot_sent_->step.value != step) {
    return Error(Code::protocol_violation, fmt::format("rank 0 reports a snapshot of step {}, which was not asked for", step));
  }
  checkpoint::CommitRequest request = commit_request(*snapshot_sent_);
  if (const Json* pieces = frame.message.find("pieces")) {
    request.receipts = Json::array({Json::object({{"rank", 0}, {"pieces", pieces->items().size()}})});
  }
  snapshot_commit_ = std::move(snapshot_sent_);
  snapshot_sent_.reset();
  previous_done_ns_ = 0;
  parts_.commits.start(std::move(request));
  return {};
}

Status Trainer::on_commit_done() {
  auto outcome = parts_.commits.take();
  if (!outcome) {
    return {};
  }
  const SnapshotRequest snapshot = std::move(*snapshot_commit_);
  snapshot_commit_.reset();
  if (!outcome->ok()) {
    return on_commit_failed(snapshot, outcome->error());
  }
  const checkpoint::Committed& committed = outcome->value();
  last_checkpoint_ = committed.path;
  parts_.records.event(event::checkpoint_committed,
                       Json::object({{"path", committed.path},
                                     {"bytes", committed.size_bytes},
                                     {"seconds", std::chrono::duration<double>(committed.total_time).count()},
                                     {"reason", snapshot.reason},
                                     {"best", snapshot.best},
                                     {"seq", committed.seq}}),
                       snapshot.step);
  for (const auto& removed : committed.removed) {
    parts_.records.event(event::checkpoint_removed, Json::object({{"path", removed}, {"reason", "retention"}}), snapshot.step);
  }
  for (const auto& warning : committed.warnings) {
    parts_.records.event("warning", Json::object({{"code", code_text(warning.code())}, {"message", warning.message()}}),
                         snapshot.step);
  }
  if (snapshot_wanted_) {
    send_snapshot();
  }
  return {};
}

Status Trainer::on_commit_failed(const SnapshotRequest& snapshot, const Error& error) {
  const bool may_go_on = snapshot.reason == "interval" || snapshot.reason == "best";
  if (error.code() != Code::disk_full || !may_go_on) {
    return error;
  }
  // A full disk costs this checkpoint, not the run: the ones before are whole, and space may be there at the next interval.
  if (snapshot.best) {
    best_ = snapshot.best_before;
  }
  parts_.records.event(
      "warning",
      Json::object({{"code", code_text(error.code())},
                    {"message", fmt::format("checkpoint step {} was left out: {}", snapshot.step.value, error.message())}}),
      snapshot.step);
  if (snapshot_wanted_) {
    send_snapshot();
  }
  return {};
}

void Trainer::on_signal(int number) {
  const char* name = sigabbrev_np(number);
  ++signals_seen_;
  parts_.records.event(event::signal, Json::object({{"signal", fmt::format("SIG{}", name != nullptr ? name : "?")},
                                                    {"action", signals_seen_ == 1 ? "stop after this step" : "stop now"}}));
  if (signals_seen_ == 1) {
    request_stop();
    return;
  }
  // The second signal ends everything at once: no commit is awaited, leftovers are cleared at the next start.
  parts_.session.rank.process().kill();
  parts_.session.engine.process().kill();
  record_finished("stopped", exit_code(info(Code::interrupted).kind));
  std::_Exit(exit_code(info(Code::interrupted).kind));
}

Error Trainer::with_outlook(Error error) const {
  const auto steps = parts_.commits.committer().steps();
  if (steps.empty()) {
    return std::move(error).note("no checkpoint has been committed");
  }
  const Step newest = steps.back();
  error.note(fmt::format("checkpoint step {} is complete: {}", newest.value,
                         join_path(plan_.checkpoint.root, checkpoint::step_directory_name(newest))));
  return std::move(error).help(fmt::format("parascale train --plan {} --resume auto", parts_.paths.plan()));
}

void Trainer::record_failure(const Error& error, std::optional<Step> step) {
  Json details = Json::object({{"code", code_text(error.code())},
                               {"message", error.message()},
                               {"notes", Json::array_of(error.notes())},
                               {"log", parts_.session.rank.log_path()}});
  if (!last_checkpoint_.empty()) {
    details["last_checkpoint"] = Json::object({{"path", last_checkpoint_}});
  }
  parts_.records.event(event::failure, std::move(details), step, Rank{0});
}

void Trainer::record_finished(std::string_view outcome, int code) {
  const auto seconds = [](std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); };
  Session& session = parts_.session;
  const auto engine = session.engine.process().try_wait();
  const auto rank = session.rank.process().try_wait();
  parts_.records.event(event::finished,
                       Json::object({{"outcome", outcome},
                                     {"exit_code", code},
                                     {"seconds", static_cast<double>(now_ns() - begun_ns_) * 1e-9},
                                     {"cpu_seconds", Json::object({{"agent", seconds(own_cpu_time())},
                                                                   {"engine", seconds(session.engine.process().cpu_time())},
                                                                   {"workers", seconds(session.rank.process().cpu_time())},
                                                                   {"evaluation", seconds(evaluation_cpu_)}})},
                                     {"peak_resident_bytes", Json::object({{"agent", own_peak_resident_bytes()},
                                                                           {"engine", engine ? engine->peak_resident_bytes : 0},
                                                                           {"workers", rank ? rank->peak_resident_bytes : 0}})}}),
                       done_);
}

}  // namespace parascale::run
