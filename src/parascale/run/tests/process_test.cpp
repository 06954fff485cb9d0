#include "parascale/run/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "parascale/base/file_system.h"
#include "parascale/protocol/frame.h"
#include "tests/support/matchers.h"

namespace parascale::run {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Long enough for any machine: a test that reaches it fails.
constexpr seconds kPatience{60};

class ProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    log_ = ::testing::TempDir() + "process_test_" + std::to_string(getpid()) + ".log";
    std::filesystem::remove(log_);
  }
  void TearDown() override { std::filesystem::remove(log_); }

  SpawnOptions shell(const std::string& script) const {
    return {.program = "/bin/sh", .arguments = {"-c", script}, .log_path = log_};
  }
  ExitStatus run(const std::string& script) const {
    auto child = ChildProcess::spawn(shell(script)).value();
    return child.wait_or_kill(kPatience);
  }
  std::string log() const { return read_small_file(log_); }
  /// Waits until the child has written something.
  void wait_for_log() const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (log().empty() && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    EXPECT_NE(log(), "");
  }

  std::string log_;
};

/// True once every process that holds the other end of `fd` is gone.
bool other_end_closes(int fd) {
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&ready, 1, static_cast<int>(milliseconds(kPatience).count())) == 1 && (ready.revents & POLLHUP) != 0;
}

TEST_F(ProcessTest, ReportsExitCodesAndSignals) {
  EXPECT_TRUE(run("exit 0").clean());
  const ExitStatus code = run("exit 4");
  EXPECT_FALSE(code.clean());
  EXPECT_EQ(code.code, 4);
  EXPECT_EQ(code.text(), "exit code 4");
  const ExitStatus killed = run("kill -9 $$");
  EXPECT_EQ(killed.signal, SIGKILL);
  EXPECT_EQ(killed.text(), "signal 9 (SIGKILL)");
  EXPECT_EQ(run("kill -SEGV $$").text(), "signal 11 (SIGSEGV)");
  EXPECT_GT(code.peak_resident_bytes, 0U);
}

TEST_F(ProcessTest, OutputAndErrorsAreAppendedToTheLog) {
  (void)run("echo one; echo two >&2");
  (void)run("echo three");
  EXPECT_EQ(log(), "one\ntwo\nthree\n");
}

TEST_F(ProcessTest, TheEnvironmentIsOursPlusWhatIsGiven) {
  setenv("PROCESS_TEST_KEPT", "kept", 1);
  setenv("PROCESS_TEST_REPLACED", "old", 1);
  auto options = shell("echo $PROCESS_TEST_KEPT $PROCESS_TEST_REPLACED $PROCESS_TEST_NEW");
  options.environment = {{"PROCESS_TEST_REPLACED", "new"}, {"PROCESS_TEST_NEW", "a=b"}};
  auto child = ChildProcess::spawn(options).value();
  EXPECT_TRUE(child.wait_or_kill(kPatience).clean());
  EXPECT_EQ(log(), "kept new a=b\n");
}

TEST_F(ProcessTest, TheChildGetsItsEndOfTheSocketAndNoOtherDescriptor) {
  auto ends = protocol::make_socket_pair().value();
  const int stray = fcntl(STDERR_FILENO, F_DUPFD, 100);  // open, and not close-on-exec
  ASSERT_GE(stray, 100);
  auto options = shell("[ -S /proc/self/fd/$PARASCALE_WORKER_FD ] || exit 3; [ -e /proc/self/fd/" + std::to_string(stray) +
                       " ] && exit 4; read line; [ -z \"$line\" ] || exit 5; exit 0");
  options.control_fd = ends.second.get();
  auto child = ChildProcess::spawn(options).value();
  const ExitStatus status = child.wait_or_kill(kPatience);
  close(stray);
  EXPECT_TRUE(status.clean()) << status.text();
}

TEST_F(ProcessTest, KillingEndsTheWholeGroup) {
  auto ends = protocol::make_socket_pair().value();
  auto options = shell("sleep 1000 & sleep 1000 & echo started; wait");
  options.control_fd = ends.second.get();  // every one of them holds it open
  auto child = ChildProcess::spawn(options).value();
  ends.second.reset();
  wait_for_log();
  EXPECT_TRUE(child.running());
  EXPECT_FALSE(child.try_wait().has_value());
  EXPECT_EQ(child.wait_or_kill(milliseconds(0)).signal, SIGKILL);
  EXPECT_FALSE(child.running());
  EXPECT_TRUE(other_end_closes(ends.first.get()));
}

TEST_F(ProcessTest, WhatAChildLeavesBehindGoesWithIt) {
  auto ends = protocol::make_socket_pair().value();
  auto options = shell("sleep 1000 & exit 3");
  options.control_fd = ends.second.get();
  auto child = ChildProcess::spawn(options).value();
  ends.second.reset();
  EXPECT_EQ(child.wait_or_kill(kPatience).code, 3);
  EXPECT_TRUE(other_end_closes(ends.first.get()));
}

TEST_F(ProcessTest, DestroyingKills) {
  auto ends = protocol::make_socket_pair().value();
  {
    auto options = shell("exec sleep 1000");
    options.control_fd = ends.second.get();
    const auto child = ChildProcess::spawn(options).value();
    ends.second.reset();
    EXPECT_TRUE(child.running());
  }
  EXPECT_TRUE(other_end_closes(ends.first.get()));
}

TEST_F(ProcessTest, DiesWithTheThreadThatStartedIt) {
  ChildProcess child;
  std::jthread([&] {
    child = ChildProcess::spawn(shell("echo started; exec sleep 1000")).value();
    wait_for_log();  // its first words come after the signal was armed
  }).join();
  pollfd ended{.fd = child.pidfd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&ended, 1, static_cast<int>(milliseconds(kPatience).count())), 1);
  EXPECT_EQ(child.try_wait()->signal, SIGKILL);
}

TEST_F(ProcessTest, ThePidfdIsReadableAfterTheEnd) {
  auto child = ChildProcess::spawn(shell("exit 7")).value();
  pollfd ready{.fd = child.pidfd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&ready, 1, static_cast<int>(milliseconds(kPatience).count())), 1);
  const auto status = child.try_wait();
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->code, 7);
  EXPECT_EQ(child.try_wait()->code, 7);  // again, from memory
  EXPECT_EQ(child.wait_or_kill(milliseconds(0)).code, 7);
}

TEST_F(ProcessTest, SignalsReachTheChildAndAreNotBlocked) {
  sigset_t block, before;
  sigemptyset(&block);
  sigaddset(&block, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &block, &before);  // as the agent does, which waits for signals by descriptor
  auto child = ChildProcess::spawn(shell("exec sleep 1000")).value();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  child.send_signal(SIGTERM);
  EXPECT_EQ(child.wait_or_kill(kPatience).text(), "signal 15 (SIGTERM)");
}

TEST_F(ProcessTest, CpuTimeIsCounted) {
  auto child = ChildProcess::spawn(shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")).value();
  const ExitStatus status = child.wait_or_kill(kPatience);
  EXPECT_TRUE(status.clean());
  EXPECT_GT(status.cpu_time.count(), 0);
  EXPECT_EQ(child.cpu_time(), status.cpu_time);
  EXPECT_GT(own_cpu_time().count(), 0);
  EXPECT_GT(own_peak_resident_bytes(), 1U << 20);
}

TEST_F(ProcessTest, AProgramThatCannotStartIsAnError) {
  auto options = shell("exit 0");
  options.program = "/absent/program";
  const auto absent = ChildProcess::spawn(options);
  ASSERT_THAT(absent, is_error(Code::start_failed));
  EXPECT_THAT(absent.error().message(), HasSubstr("/absent/program"));
  options.program = "/etc/passwd";
  EXPECT_THAT(ChildProcess::spawn(options), is_error(Code::start_failed));
  options = shell("exit 0");
  options.log_path = "/absent/child.log";
  EXPECT_THAT(ChildProcess::spawn(options), is_error(Code::start_failed));
}

TEST_F(ProcessTest, AProgramOfNoKnownFormatEndsWith127) {
  const std::string path = log_ + ".program";
  std::ofstream(path) << "\x01\x02 no program";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  auto options = shell("");
  options.program = path;
  auto child = ChildProcess::spawn(options).value();
  EXPECT_EQ(child.wait_or_kill(kPatience).code, 127);
  EXPECT_EQ(log(), "cannot execute the program\n");
  std::filesystem::remove(path);
}

TEST_F(ProcessTest, MovesKeepTheProcess) {
  auto first = ChildProcess::spawn(shell("exit 9")).value();
  const pid_t pid = first.pid();
  ChildProcess second(std::move(first));
  EXPECT_FALSE(first.running());  // NOLINT(bugprone-use-after-move): this is what is tested
  EXPECT_EQ(second.pid(), pid);
  ChildProcess third;
  EXPECT_FALSE(third.running());
  EXPECT_TRUE(third.wait_or_kill(milliseconds(0)).clean());  // nothing to wait for
  third = std::move(second);
  EXPECT_EQ(third.wait_or_kill(kPatience).code, 9);
}

TEST_F(ProcessTest, LogTailGivesTheLastLines) {
  EXPECT_TRUE(log_tail(log_, 3).empty());  // absent
  std::ofstream(log_) << "";
  EXPECT_TRUE(log_tail(log_, 3).empty());
  std::ofstream(log_) << "a\nb\n\nc\nd\n\n";
  EXPECT_THAT(log_tail(log_, 3), ElementsAre("b", "c", "d"));
  EXPECT_THAT(log_tail(log_, 10), ElementsAre("a", "b", "c", "d"));
  std::ofstream(log_) << std::string(100'000, 'x') << "\nlast without end";
  const auto tail = log_tail(log_, 1);
  EXPECT_THAT(tail, ElementsAre("last without end"));
}

}  // namespace
}  // namespace parascale::run
