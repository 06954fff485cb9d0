#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parascale/base/result.h"
#include "parascale/base/unique_fd.h"

namespace parascale::run {

/// How a process ended and what it used.
struct ExitStatus {
  int code = 0;    ///< exit code; 0 when it was ended by a signal
  int signal = 0;  ///< 0, or the signal that ended it
  std::chrono::nanoseconds cpu_time{};
  std::uint64_t peak_resident_bytes = 0;

  bool clean() const { return code == 0 && signal == 0; }
  /// `exit code 4`, `signal 9 (SIGKILL)`.
  std::string text() const;
};

struct SpawnOptions {
  std::string program;
  std::vector<std::string> arguments;
  int control_fd = -1;   ///< the child's end of its control socket; stays open across exec, announced in PARASCALE_WORKER_FD
  std::string log_path;  ///< standard output and error are appended here
  std::vector<std::pair<std::string, std::string>> environment;  ///< added to ours
};

/// A child that cannot outlive this process: parent-death signal, own process group, every other descriptor closed. Destroying
/// kills it. Spawn only from the thread that lives as long as the agent: the parent-death signal fires when the forking thread
/// exits. *thread-compatible*
class ChildProcess {
 public:
  /// Errors: start_failed naming the program.
  static Result<ChildProcess> spawn(const SpawnOptions& options);
  ChildProcess() = default;
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  /// Readable once the process has ended.
  int pidfd() const { return pidfd_.get(); }
  bool running() const { return pid_ > 0 && !status_; }
  /// Reaps the process if it has ended, and ends what is left of its group.
  std::optional<ExitStatus> try_wait();
  /// Waits up to `limit`, then kills.
  ExitStatus wait_or_kill(std::chrono::milliseconds limit);
  /// SIGKILL to its process group.
  void kill();
  void send_signal(int number) const;
  /// User and system time used so far.
  std::chrono::nanoseconds cpu_time() const;

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_;
  std::optional<ExitStatus> status_;
};

/// User and system time of this process.
std::chrono::nanoseconds own_cpu_time();
/// Largest resident size of this process.
std::uint64_t own_peak_resident_bytes();

/// The last `lines` lines of a log, for an error message.
std::vector<std::string> log_tail(const std::string& path, std::size_t lines);

}  // namespace parascale::run
