#include "parascale/run/snapshot.h"

#include <poll.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "parascale/checkpoint/tests/sample_checkpoint.h"
#include "tests/support/matchers.h"

namespace parascale::run {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;

std::vector<protocol::StateEntry> inventory() {
  return {{.name = "w", .kind = "param", .global_shape = {3, 5}, .trainable = true, .group = "decay"},
          {.name = "count", .kind = "buffer", .dtype = Dtype::i64},
          {.name = "tied", .kind = "param", .global_shape = {3, 5}, .alias_of = "w"},
          {.name = "exp_avg.w", .kind = "moment", .global_shape = {3, 5}},
          {.name = "scale", .kind = "scaler"}};
}

TEST(SnapshotPlanTest, TheArenaHoldsWholeSafetensorsFiles) {
  const auto plan = SnapshotPlan::make(inventory()).value();
  std::vector<std::byte> arena(plan.arena_bytes());
  plan.write_headers(arena);
  const auto files = plan.data_files(arena);
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].path, "model.safetensors");
  EXPECT_EQ(files[1].path, "training/optimizer.safetensors");
  std::vector<std::vector<std::string>> names;
  for (const auto& file : files) {
    EXPECT_EQ((file.bytes.data() - arena.data()) % 4096, 0);
    const auto header = checkpoint::parse_safetensors(file.bytes, file.bytes.size(), file.path);
    ASSERT_THAT(header, is_ok());
    EXPECT_EQ(header->data_offset_bytes % 4096, 0U);
    auto& list = names.emplace_back();
    for (const auto& tensor : header->tensors) {
      list.push_back(tensor.name);
    }
    ASSERT_EQ(file.pieces.size(), header->tensors.size());
    for (std::size_t i = 0; i < file.pieces.size(); ++i) {
      EXPECT_EQ(file.pieces[i].tensor, header->tensors[i].name);
      EXPECT_EQ(file.pieces[i].offset_bytes, header->tensors[i].offset_bytes);
      EXPECT_EQ(file.pieces[i].size_bytes, header->tensors[i].size_bytes);
    }
  }
  EXPECT_THAT(names[0], ::testing::UnorderedElementsAre("w", "count"));  // an alias has no bytes of its own
  EXPECT_THAT(names[1], ::testing::UnorderedElementsAre("exp_avg.w", "scale"));
  EXPECT_EQ(plan.tensors().size(), 5U);
  EXPECT_EQ(plan.tensors()[2].alias_of, "w");
}

TEST(SnapshotPlanTest, TheRankIsToldWhereEachTensorGoes) {
  const auto plan = SnapshotPlan::make(inventory()).value();
  const Json message = plan.message(Step{7});
  EXPECT_EQ(message.find("t")->dump(), "7");
  const auto& assign = message.find("assign")->items();
  ASSERT_EQ(assign.size(), 4U);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const auto& item : assign) {
    const auto offset = item.get<std::uint64_t>("offset").value();
    const auto bytes = item.get<std::uint64_t>("bytes").value();
    EXPECT_LE(offset + bytes, plan.arena_bytes());
    ranges.emplace_back(offset, offset + bytes);
  }
  std::ranges::sort(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    EXPECT_LE(ranges[i - 1].second, ranges[i].first);
  }
}

TEST(SnapshotPlanTest, ARankThatNamesATensorTwiceIsRefused) {
  auto twice = inventory();
  twice.push_back(twice.front());
  EXPECT_THAT(SnapshotPlan::make(twice), is_error(Code::state_mismatch));
}

TEST(SnapshotPlanTest, TheLayoutDoesNotDependOnTheOrderOfTheInventory) {
  auto reversed = inventory();
  std::ranges::reverse(reversed);
  const auto sorted_assignments = [](const SnapshotPlan& plan) {
    std::vector<std::string> lines;
    const Json message = plan.message(Step{1});
    for (const auto& item : message.find("assign")->items()) {
      lines.push_back(item.dump());
    }
    std::ranges::sort(lines);
    return lines;
  };
  EXPECT_EQ(sorted_assignments(SnapshotPlan::make(inventory()).value()),
            sorted_assignments(SnapshotPlan::make(reversed).value()));
}

TEST(SnapshotPlanTest, AModelWithoutOptimizerStateIsOneFile) {
  const auto plan = SnapshotPlan::make({{.name = "w", .kind = "param", .global_shape = {2}}}).value();
  const std::vector<std::byte> arena(plan.arena_bytes());
  EXPECT_EQ(plan.data_files(arena).size(), 1U);
}

TEST(CommitThreadTest, CommitsBesideTheCallerAndReportsOnce) {
  const std::string root = ::testing::TempDir() + "snapshot_test_" + std::to_string(getpid());
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root);
  const checkpoint::testing::StepClock clock;
  const checkpoint::testing::SampleCheckpoint last(3);  // outlives the thread that reads it
  {
    CommitThread thread(checkpoint::Committer::open(real_file_system(), clock, {.root = root}).value());
    EXPECT_FALSE(thread.take().has_value());
    for (const std::uint64_t step : {1U, 2U}) {
      const checkpoint::testing::SampleCheckpoint sample(step);
      thread.start(sample.request);
      EXPECT_TRUE(thread.busy());
      pollfd ended{.fd = thread.event_fd(), .events = POLLIN, .revents = 0};
      ASSERT_EQ(poll(&ended, 1, 60'000), 1);
      const auto outcome = thread.take();
      ASSERT_TRUE(outcome.has_value());
      ASSERT_THAT(*outcome, is_ok());
      EXPECT_EQ(outcome->value().step, Step{step});
      EXPECT_FALSE(thread.busy());
      EXPECT_FALSE(thread.take().has_value());
    }
    thread.start(last.request);
    // Destroying waits for the commit: the arena must not go before it.
  }
  EXPECT_TRUE(std::filesystem::exists(root + "/step-00000003/manifest.json"));
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace parascale::run
