#include "parascale/run/inference.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>

#include "parascale/base/clock.h"

namespace parascale::run {

namespace {

/// Keeps the ring full and hands answers out in the order of the inputs.
class Inference {
 public:
  Inference(const InferRequest& request, Session& session)
      : request_(request), session_(session), batch_(session.layout.capacity) {
    for (std::uint32_t slot = session.layout.slot_count; slot > 0; --slot) {
      free_slots_.push_back(slot - 1);
    }
  }

  Result<InferOutcome> run() {
    const std::int64_t begun = real_clock().monotonic_ns();
    PS_TRY(session_.load(request_.checkpoint, Session::LoadState::weights, deadline()));
    while (answered_ < request_.inputs) {
      issue();
      PS_TRY(session_.engine.channel().flush());
      PS_TRY(session_.rank.channel().flush());
      PS_TRY(wait());
    }
    outcome_.seconds = static_cast<double>(real_clock().monotonic_ns() - begun) * 1e-9;
    (void)session_.rank.stop("all inputs are answered", std::chrono::seconds(10));
    (void)session_.engine.stop("all inputs are answered", std::chrono::seconds(10));
    return std::move(outcome_);
  }

 private:
  struct Batch {
    std::uint64_t first = 0;
    std::uint32_t count = 0;
    std::int64_t begun_ns = 0;
    bool filled = false;  ///< by the engine; the rank owes the answer
    std::map<std::uint64_t, std::string> failures;
  };

  std::chrono::seconds deadline() const { return std::chrono::seconds(request_.plan.supervision.hang_deadline_seconds); }

  void issue() {
    while (!free_slots_.empty() && asked_ < request_.inputs) {
      const std::uint32_t slot = free_slots_.back();
      free_slots_.pop_back();
      const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(batch_, request_.inputs - asked_));
      const protocol::Fill fill{.slot = slot, .split = "infer", .step = {}, .first = asked_, .count = count};
      session_.engine.channel().queue(fill.to_json());
      batches_[slot] = Batch{.first = asked_, .count = count, .begun_ns = real_clock().monotonic_ns()};
      asked_ += count;
    }
  }

  Status wait() {
    std::array<pollfd, 2> watched = {{{.fd = session_.rank.channel().fd(), .events = POLLIN, .revents = 0},
                                      {.fd = session_.engine.channel().fd(), .events = POLLIN, .revents = 0}}};
    const int limit_ms = static_cast<int>(std::chrono::milliseconds(deadline()).count());
    if (poll(watched.data(), watched.size(), limit_ms) == 0) {
      const bool rank_owes = std::ranges::any_of(batches_, [](const auto& entry) { return entry.second.filled; });
      return (rank_owes ? session_.rank : session_.engine).hung("while inputs were under way", deadline());
    }
    if (watched[1].revents != 0) {
      PS_TRY(read(session_.engine));
    }
    if (watched[0].revents != 0) {
      PS_TRY(read(session_.rank));
    }
    return {};
  }

  Status read(Peer& peer) {
    PS_ASSIGN(const bool open, peer.channel().read_available());
    while (true) {
      PS_ASSIGN(const auto frame, peer.channel().take());
      if (!frame) {
        break;
      }
      PS_TRY(on_frame(peer, *frame));
    }
    return open ? Status() : Status(peer.died("while inputs were under way"));
  }

  Status on_frame(Peer& peer, const protocol::Frame& frame) {
    const std::string type = frame.type();
    if (type == "error") {
      return peer.reported(frame);
    }
    if (type == "filled") {
      PS_ASSIGN(const auto filled, protocol::Filled::from_json(frame.message));
      const auto found = batches_.find(filled.slot);
      if (found == batches_.end()) {
        return Error(Code::protocol_violation,
                     fmt::format("the data engine filled slot {}, which nobody asked for", filled.slot));
      }
      Batch& batch = found->second;
      batch.filled = true;
      for (const auto& failure : filled.failures) {
        batch.failures[failure.id.value] = failure.reason;
      }
      if (filled.valid == 0) {
        return answer(filled.slot, {});
      }
      session_.rank.channel().queue(Json::object({{"type", "infer"}, {"id", filled.slot}, {"slot", filled.slot}}));
    } else if (type == "result") {
      PS_ASSIGN(const auto slot, frame.message.get<std::uint32_t>("slot"));
      PS_ASSIGN(const auto view, protocol::read_results(session_.results_layout, session_.results.bytes(), slot));
      return answer(slot, view);
    }
    return {};
  }

  Status answer(std::uint32_t slot, const protocol::ResultsView& view) {
    const auto found = batches_.find(slot);
    if (found == batches_.end()) {
      return Error(Code::protocol_violation, fmt::format("a result for slot {} was not asked for", slot));
    }
    const Batch batch = std::move(found->second);
    batches_.erase(found);
    for (std::size_t row = 0; row < view.ids.size(); ++row) {
      const auto logits = view.row(row);
      ready_[view.ids[row]] = Prediction{.id = view.ids[row], .error = {}, .logits = {logits.begin(), logits.end()}};
      ++outcome_.answered;
    }
    for (const auto& [id, reason] : batch.failures) {
      ready_[id] = Prediction{.id = id, .error = reason, .logits = {}};
      ++outcome_.failed;
    }
    if (batch.first > 0) {  // the first batch pays for warming up
      outcome_.batch_latency_ms.push_back(static_cast<double>(real_clock().monotonic_ns() - batch.begun_ns) * 1e-6);
    }
    for (auto next = ready_.find(answered_); next != ready_.end(); next = ready_.find(answered_)) {
      request_.on_prediction(next->second);
      ready_.erase(next);
      ++answered_;
    }
    free_slots_.push_back(slot);
    return {};
  }

  const InferRequest& request_;
  Session& session_;
  std::uint32_t batch_;
  std::vector<std::uint32_t> free_slots_;
  std::map<std::uint32_t, Batch> batches_;
  std::map<std::uint64_t, Prediction> ready_;  // answered out of order
  std::uint64_t asked_ = 0;
  std::uint64_t answered_ = 0;
  InferOutcome outcome_;
};

}  // namespace

Result<InferOutcome> infer(const InferRequest& request) {
  PS_TRY(make_directories(real_file_system(), join_path(request.paths.directory, "logs")));
  PS_ASSIGN(const auto session, Session::start({.plan = request.plan,
                                                .paths = request.paths,
                                                .programs = request.programs,
                                                .data = request.plan.data.options,
                                                .splits = {data::Split::infer},
                                                .slot_capacity = request.plan.batch.per_rank}));
  return Inference(request, *session).run();
}

}  // namespace parascale::run
