#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "parascale/protocol/frame.h"
#include "parascale/protocol/messages.h"
#include "parascale/run/process.h"

namespace parascale::run {

/// A child on the other end of a control socket: the data engine or a rank. *confined to the agent's thread*
class Peer {
 public:
  enum class Role : std::uint8_t { engine, rank };

  /// Starts the program and sends our hello. Errors: start_failed.
  static Result<Peer> start(Role role, const SpawnOptions& options);

  Role role() const { return role_; }
  /// `rank 0` or `the data engine`.
  std::string name() const { return role_ == Role::engine ? "the data engine" : "rank 0"; }
  const std::string& log_path() const { return log_path_; }
  protocol::Channel& channel() { return channel_; }
  ChildProcess& process() { return process_; }
  const ChildProcess& process() const { return process_; }

  /// Waits for a frame of this type; other notifications before it are dropped. Errors: what the peer reported, its death,
  /// rank_hung / engine_hung after `deadline`, protocol_violation.
  Result<protocol::Frame> expect(std::string_view type, std::chrono::seconds deadline);
  /// Waits for the peer's hello and checks its version. Errors: also version_mismatch.
  Result<protocol::Hello> expect_hello(std::chrono::seconds deadline);
  /// The error that an `error` frame stands for.
  Error reported(const protocol::Frame& frame);
  /// The error for an end nobody asked for; waits for the exit status. `where` completes the sentence: `in phase forward of step
  /// 3`.
  Error died(std::string_view where);
  /// The error for a missed deadline; asks the peer for a stack, then kills it.
  Error hung(std::string_view where, std::chrono::seconds deadline);
  /// Asks the peer to end and waits; kills it after `limit`.
  ExitStatus stop(std::string_view reason, std::chrono::seconds limit);

 private:
  Error with_log(Error error) const;

  Role role_ = Role::rank;
  std::string log_path_;
  ChildProcess process_;
  protocol::Channel channel_{UniqueFd()};
};

}  // namespace parascale::run
