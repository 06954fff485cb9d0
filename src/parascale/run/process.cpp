#include "parascale/run/process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "parascale/base/file_system.h"
#include "parascale/base/text.h"
#include "parascale/protocol/frame.h"

extern char** environ;

namespace parascale::run {

namespace {

constexpr unsigned kCloseRangeCloexec = 1U << 2;  // CLOSE_RANGE_CLOEXEC of linux/close_range.h

std::chrono::nanoseconds time_of(const timeval& value) {
  return std::chrono::seconds(value.tv_sec) + std::chrono::microseconds(value.tv_usec);
}

std::chrono::nanoseconds cpu_of(const rusage& usage) { return time_of(usage.ru_utime) + time_of(usage.ru_stime); }

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (auto& text : texts) {
    out.push_back(text.data());
  }
  out.push_back(nullptr);
  return out;
}

/// Everything after fork: only async-signal-safe calls, because other threads may hold locks.
[[noreturn]] void become_child(const SpawnOptions& options, pid_t parent, int log_fd, char** arguments, char** environment) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(127);  // the parent died before the signal was armed
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null_fd = open("/dev/null", O_RDONLY);
  dup2(null_fd, STDIN_FILENO);
  dup2(log_fd, STDOUT_FILENO);
  dup2(log_fd, STDERR_FILENO);
  // Whatever the caller of this process left open must not reach a child; what is not supported is left as it is.
  (void)syscall(SYS_close_range, 3U, ~0U, kCloseRangeCloexec);
  if (options.control_fd >= 0) {
    fcntl(options.control_fd, F_SETFD, 0);
  }
  execve(options.program.c_str(), arguments, environment);
  constexpr char kMessage[] = "cannot execute the program\n";
  (void)!write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  _exit(127);
}

}  // namespace

std::string ExitStatus::text() const {
  return signal != 0 ? fmt::format("signal {} (SIG{})", signal, sigabbrev_np(signal) != nullptr ? sigabbrev_np(signal) : "?")
                     : fmt::format("exit code {}", code);
}

Result<ChildProcess> ChildProcess::spawn(const SpawnOptions& options) {
  std::vector<std::string> argument_texts{options.program};
  argument_texts.insert(argument_texts.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment_texts;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    environment_texts.emplace_back(*entry);
  }
  for (const auto& [name, value] : options.environment) {
    std::erase_if(environment_texts, [&](const std::string& text) { return text.starts_with(name + "="); });
    environment_texts.push_back(fmt::format("{}={}", name, value));
  }
  if (options.control_fd >= 0) {
    environment_texts.push_back(fmt::format("{}={}", protocol::kWorkerFdVariable, options.control_fd));
  }
  auto arguments = pointers(argument_texts);
  auto environment = pointers(environment_texts);
  const UniqueFd log(open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log.valid()) {
    return io_error("open", options.log_path, errno).wrap(Code::start_failed, fmt::format("cannot start `{}`", options.program));
  }
  if (access(options.program.c_str(), X_OK) != 0) {
    return Error(Code::start_failed, fmt::format("cannot execute `{}`: {}", options.program, std::strerror(errno)));
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    return Error(Code::start_failed, fmt::format("cannot fork for `{}`: {}", options.program, std::strerror(errno)));
  }
  if (pid == 0) {
    become_child(options, parent, log.get(), arguments.data(), environment.data());
  }
  ChildProcess child;
  child.pid_ = pid;
  child.pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!child.pidfd_.valid()) {
    const int fault = errno;
    ::kill(pid, SIGKILL);  // without a pidfd nobody could wait for it with a limit
    (void)waitpid(pid, nullptr, 0);
    child.pid_ = -1;
    return Error(Code::start_failed, fmt::format("cannot watch `{}`: {}", options.program, std::strerror(fault)));
  }
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)), status_(other.status_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    if (running()) {
      wait_or_kill(std::chrono::milliseconds(0));
    }
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
    status_ = other.status_;
  }
  return *this;
}

ChildProcess::~ChildProcess() {
  if (running()) {
    wait_or_kill(std::chrono::milliseconds(0));
  }
}

std::optional<ExitStatus> ChildProcess::try_wait() {
  if (status_ || pid_ <= 0) {
    return status_;
  }
  siginfo_t ended{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0) {
    return status_;
  }
  ::kill(-pid_, SIGKILL);  // what it started and left behind; before it is reaped, so that the group is still its own
  int raw = 0;
  rusage usage{};
  pid_t got = 0;
  do {
    got = wait4(pid_, &raw, 0, &usage);
  } while (got < 0 && errno == EINTR);
  if (got == pid_) {
    status_ = ExitStatus{.code = WIFEXITED(raw) ? WEXITSTATUS(raw) : 0,
                         .signal = WIFSIGNALED(raw) ? WTERMSIG(raw) : 0,
                         .cpu_time = cpu_of(usage),
                         .peak_resident_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024};
  }
  return status_;
}

ExitStatus ChildProcess::wait_or_kill(std::chrono::milliseconds limit) {
  pollfd ended{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (running()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      kill();
      poll(&ended, 1, -1);
    } else {
      poll(&ended, 1, static_cast<int>(left.count()));
    }
    (void)try_wait();
  }
  return status_.value_or(ExitStatus{});
}

void ChildProcess::kill() {
  if (running()) {
    ::kill(-pid_, SIGKILL);  // its group, so that what it started goes with it
    ::kill(pid_, SIGKILL);   // and itself, should the group not exist yet
  }
}

void ChildProcess::send_signal(int number) const {
  if (running()) {
    ::kill(pid_, number);
  }
}

std::chrono::nanoseconds ChildProcess::cpu_time() const {
  if (status_) {
    return status_->cpu_time;
  }
  clockid_t clock = 0;
  timespec used{};
  if (pid_ <= 0 || clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0) {
    return {};
  }
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

std::chrono::nanoseconds own_cpu_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return cpu_of(usage);
}

std::uint64_t own_peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

std::vector<std::string> log_tail(const std::string& path, std::size_t lines) {
  constexpr std::size_t kTailBytes = 16 << 10;
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return {};
  }
  const off_t size = lseek(fd.get(), 0, SEEK_END);
  const off_t begin = size > static_cast<off_t>(kTailBytes) ? size - static_cast<off_t>(kTailBytes) : 0;
  std::string text(static_cast<std::size_t>(size - begin), '\0');
  const ssize_t got = pread(fd.get(), text.data(), text.size(), begin);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  std::vector<std::string> all = split(trim(text), '\n');
  std::erase(all, std::string());
  if (all.size() > lines) {
    all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(lines));
  }
  return all;
}

}  // namespace parascale::run
