#include "parascale/run/peer.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "parascale/base/text.h"

namespace parascale::run {

namespace {

constexpr std::size_t kLogLines = 3;

}  // namespace

Result<Peer> Peer::start(Role role, const SpawnOptions& options) {
  PS_ASSIGN(auto ends, protocol::make_socket_pair());
  SpawnOptions with_socket = options;
  with_socket.control_fd = ends.second.get();
  Peer peer;
  peer.role_ = role;
  peer.log_path_ = options.log_path;
  PS_ASSIGN(peer.process_, ChildProcess::spawn(with_socket));
  peer.channel_ = protocol::Channel(std::move(ends.first));
  const protocol::Hello hello{.protocol = std::string(protocol::kProtocolVersion), .role = "agent", .pid = getpid()};
  if (!peer.channel_.send(hello.to_json()).ok()) {
    return peer.died("at its start");
  }
  return peer;
}

Error Peer::with_log(Error error) const {
  const auto lines = log_tail(log_path_, kLogLines);
  if (lines.empty()) {
    return std::move(error).note(fmt::format("log: {} (empty)", log_path_));
  }
  error.note(fmt::format("log: {} (last {})", log_path_, format_count(lines.size(), "line")));
  for (const auto& line : lines) {
    error.note(fmt::format("  {}", line));
  }
  return error;
}

Error Peer::reported(const protocol::Frame& frame) {
  auto report = protocol::WorkerError::from_json(frame.message);
  if (!report.ok()) {
    return with_log(report.error().wrap(Code::protocol_violation, fmt::format("{} sent an error that cannot be read", name())));
  }
  Code code = role_ == Role::engine ? Code::engine_stopped : Code::rank_error;
  if (report->error_class == "nan") {
    code = Code::nonfinite;
  } else if (report->error_class == "version") {
    code = Code::version_mismatch;
  } else if (report->error_class == "data") {
    code = Code::too_many_failures;
  } else if (report->error_class == "state") {
    code = Code::state_mismatch;
  }
  // The engine names its own code; a rank in another language only a class.
  const Json* own_code = frame.message.find("code");
  if (own_code != nullptr && own_code->to_string() != nullptr) {
    code = code_from_text(*own_code->to_string()).value_or(code);
  }
  Error error(code, fmt::format("{} reported: {}", name(), report->message));
  for (const char* list : {"notes", "helps"}) {
    const Json* texts = frame.message.find(list);
    for (const auto& text : texts != nullptr ? texts->items() : Json::Array()) {
      if (text.to_string() != nullptr) {
        std::string_view(list) == "notes" ? error.note(*text.to_string()) : error.help(*text.to_string());
      }
    }
  }
  if (!report->phase.empty()) {
    error.note(report->step > 0
                   ? fmt::format("in phase {} of step {}, micro-step {}", report->phase, report->step, report->micro_step)
                   : fmt::format("in phase {}", report->phase));
  }
  if (!report->stack.empty()) {
    error.note(fmt::format("stack: {}", report->stack));
  }
  return with_log(std::move(error));
}

Error Peer::died(std::string_view where) {
  // Its last words may still lie in the socket: they name the cause better than an exit status.
  const ExitStatus status = process_.wait_or_kill(std::chrono::milliseconds(500));
  while (channel_.valid()) {
    const auto open = channel_.read_available();
    auto frame = channel_.take();
    while (frame.ok() && *frame) {
      if ((*frame)->type() == "error") {
        return reported(**frame);
      }
      frame = channel_.take();
    }
    if (!open.ok() || !*open || !frame.ok()) {
      break;
    }
  }
  const Code code = role_ == Role::engine ? Code::engine_stopped : Code::rank_stopped;
  return with_log(Error(code, fmt::format("{} stopped {} ({})", name(), where, status.text())));
}

Error Peer::hung(std::string_view where, std::chrono::seconds deadline) {
  const Code code = role_ == Role::engine ? Code::engine_hung : Code::rank_hung;
  process_.send_signal(SIGUSR1);  // a stack into its log
  (void)process_.wait_or_kill(std::chrono::milliseconds(300));
  return with_log(Error(code, fmt::format("{} made no progress for {} s {}", name(), deadline.count(), where)));
}

Result<protocol::Frame> Peer::expect(std::string_view type, std::chrono::seconds deadline) {
  auto end = std::chrono::steady_clock::now() + deadline;
  while (true) {
    PS_ASSIGN(auto frame, channel_.take());
    if (frame) {
      if (frame->type() == type) {
        return std::move(*frame);
      }
      if (frame->type() == "error") {
        return reported(*frame);
      }
      end = std::chrono::steady_clock::now() + deadline;  // a progress report is a sign of life
      continue;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return hung(fmt::format("while its `{}` was awaited", type), deadline);
    }
    pollfd ready{.fd = channel_.fd(), .events = POLLIN, .revents = 0};
    poll(&ready, 1, static_cast<int>(left.count()));
    if (ready.revents != 0) {
      const auto open = channel_.read_available();
      if (!open.ok() || !*open) {
        return died(fmt::format("while its `{}` was awaited", type));
      }
    }
  }
}

Result<protocol::Hello> Peer::expect_hello(std::chrono::seconds deadline) {
  PS_ASSIGN(auto frame, expect("hello", deadline));
  PS_ASSIGN(auto hello, protocol::Hello::from_json(frame.message));
  PS_TRY(protocol::check_version(hello));
  return hello;
}

ExitStatus Peer::stop(std::string_view reason, std::chrono::seconds limit) {
  if (process_.running()) {
    (void)channel_.send(
        Json::object({{"type", "stop"}, {"reason", reason}, {"deadline", limit.count()}}));  // a dead peer needs no telling
  }
  return process_.wait_or_kill(limit);
}

}  // namespace parascale::run
