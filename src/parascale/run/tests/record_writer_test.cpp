#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "parascale/run/run_directory.h"
#include "tests/support/matchers.h"

namespace parascale::run {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;
using ::testing::HasSubstr;

class RunDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    paths_.directory = ::testing::TempDir() + "run_directory_test_" + std::to_string(getpid());
    std::filesystem::remove_all(paths_.directory);
    std::filesystem::create_directories(paths_.directory);
  }
  void TearDown() override { std::filesystem::remove_all(paths_.directory); }

  RunPaths paths_;
};

/// Files of this process can hold at most so many bytes: a disk that becomes full at an exact byte.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

/// Counts what it is handed.
class CountingSink final : public EventSink {
 public:
  void on_event(const EventRecord&) override { ++events; }
  void on_metrics(const MetricsRecord&) override { ++metrics; }
  int events = 0;
  int metrics = 0;
};

TEST_F(RunDirectoryTest, RecordsAreAppendedStampedAndHandedOn) {
  CountingSink sink;
  auto writer = RecordWriter::open(paths_, {&sink}).value();
  EXPECT_EQ(writer.attempt(), 1U);
  writer.event(event::started, Json::object({{"format_version", std::string(kRecordFormatVersion)}}));
  writer.event(event::finished, Json::object({{"outcome", "completed"}}), Step{3}, Rank{0});
  writer.on_metrics({.step = Step{3}, .loss = 0.5});
  EXPECT_THAT(writer.status(), is_ok());
  EXPECT_EQ(sink.events, 2);
  EXPECT_EQ(sink.metrics, 1);
  const auto events = read_events(real_file_system(), paths_.events()).value();
  ASSERT_EQ(events.records.size(), 2U);
  EXPECT_EQ(events.records[1].step, Step{3});
  EXPECT_EQ(events.records[1].rank, Rank{0});
  EXPECT_GT(events.records[1].wall_ns, 0);
  EXPECT_LE(events.records[0].monotonic_ns, events.records[1].monotonic_ns);
  EXPECT_EQ(read_metrics(real_file_system(), paths_.metrics())->records.size(), 1U);
}

TEST_F(RunDirectoryTest, EveryOpeningIsOneMoreAttempt) {
  for (std::uint32_t attempt = 1; attempt <= 3; ++attempt) {
    auto writer = RecordWriter::open(paths_, {}).value();
    EXPECT_EQ(writer.attempt(), attempt);
    writer.event(event::warning, Json::object());
  }
  EXPECT_EQ(read_events(real_file_system(), paths_.events())->records.back().attempt, 3U);
}

TEST_F(RunDirectoryTest, AFullDiskIsRememberedAndStopsTheRecords) {
  auto writer = RecordWriter::open(paths_, {}).value();
  {
    const FullDisk full(250);
    for (std::uint64_t step = 1; step <= 10; ++step) {
      writer.event(event::eval, Json::object({{"metric", "top1"}}), Step{step});
    }
  }
  ASSERT_THAT(writer.status(), is_error(Code::record_failed));
  EXPECT_THAT(writer.status().error().message(), HasSubstr("events.jsonl"));
  EXPECT_THAT(writer.status().error().helps(), ::testing::Contains(HasSubstr("--resume auto")));
  const auto size = std::filesystem::file_size(paths_.events());
  EXPECT_LE(size, 250U);
  writer.event(event::eval, Json::object(), Step{11});  // room again, but a record is missing: nothing may follow it
  EXPECT_EQ(std::filesystem::file_size(paths_.events()), size);
}

TEST_F(RunDirectoryTest, TheNextAttemptStartsOnALineOfItsOwn) {
  {
    auto writer = RecordWriter::open(paths_, {}).value();
    const FullDisk full(250);
    for (std::uint64_t step = 1; step <= 10; ++step) {
      writer.event(event::eval, Json::object({{"metric", "top1"}}), Step{step});
    }
    ASSERT_FALSE(writer.status().ok());
  }
  auto writer = RecordWriter::open(paths_, {}).value();
  EXPECT_EQ(writer.attempt(), 2U);
  writer.event(event::started, Json::object({{"format_version", "1.0"}}));
  const auto events = read_events(real_file_system(), paths_.events());
  ASSERT_THAT(events, is_ok());
  EXPECT_EQ(events->cut_lines, 1U);
  EXPECT_EQ(events->records.back().attempt, 2U);
}

TEST_F(RunDirectoryTest, RecordsThatAreNoFilesAreRefused) {
  std::filesystem::create_symlink("/dev/full", paths_.metrics());
  EXPECT_THAT(RecordWriter::open(paths_, {}), is_error(Code::record_failed));
  std::filesystem::remove(paths_.metrics());
  std::ofstream(paths_.events()) << "rubbish\n{\"event\":\"x\",\"attempt\":1}\n";
  EXPECT_THAT(RecordWriter::open(paths_, {}), is_error(Code::record_failed));
}

TEST_F(RunDirectoryTest, OneWriterAtATime) {
  {
    const auto lock = RunLock::take(paths_.directory);
    ASSERT_THAT(lock, is_ok());
    const auto second = RunLock::take(paths_.directory);
    ASSERT_THAT(second, is_error(Code::run_locked));
    EXPECT_THAT(second.error().notes(), ::testing::Contains(HasSubstr(std::to_string(getpid()))));
  }
  EXPECT_THAT(RunLock::take(paths_.directory), is_ok());
  EXPECT_TRUE(std::filesystem::is_directory(paths_.directory + "/logs"));
}

TEST_F(RunDirectoryTest, AnEmptyDirectoryHoldsNoRun) {
  EXPECT_FALSE(holds_run(paths_));
  ASSERT_THAT(RunLock::take(paths_.directory), is_ok());
  EXPECT_FALSE(holds_run(paths_));  // nor does a lock
  std::ofstream(paths_.metrics()) << "";
  EXPECT_TRUE(holds_run(paths_));
}

}  // namespace
}  // namespace parascale::run
