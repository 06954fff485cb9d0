#include "parascale/checkpoint/committer.h"

#include <gtest/gtest.h>

#include <thread>

#include "parascale/checkpoint/tests/sample_checkpoint.h"
#include "tests/support/matchers.h"
#include "tests/support/memory_file_system.h"

namespace parascale::checkpoint {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;
using parascale::testing::MemoryFileSystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::fingerprint;
using ::testing::HasSubstr;
using testing::SampleCheckpoint;
using testing::StepClock;

class CommitterTest : public ::testing::Test {
 protected:
  std::unique_ptr<Committer> open(std::uint64_t keep_last = 3) {
    auto committer = Committer::open(files, clock, {.root = "/run/checkpoints", .keep_last = keep_last});
    EXPECT_THAT(committer, is_ok());
    return std::move(committer).value();
  }
  Committed commit(Committer& committer, std::uint64_t step, bool best = false, std::uint64_t salt = 0) {
    SampleCheckpoint sample(step, salt);
    sample.request.best = best;
    auto committed = committer.commit(sample.request);
    EXPECT_THAT(committed, is_ok());
    EXPECT_THAT(committed->warnings, ::testing::IsEmpty());
    return committed.value_or(Committed{});
  }
  std::vector<std::string> names() {
    std::vector<std::string> out;
    const auto entries = files.list(root).value();
    for (const auto& entry : entries) {
      out.push_back(entry.name);
    }
    return out;
  }
  void flip(const std::string& path, std::size_t at) {
    files.corrupt(path, [&](std::vector<std::byte>& bytes) { bytes.at(at) ^= std::byte{1}; });
  }

  MemoryFileSystem files;
  StepClock clock;
  const std::string root = "/run/checkpoints";
};

TEST_F(CommitterTest, writes_the_layout) {
  auto committer = open();
  const Committed committed = commit(*committer, 24);
  EXPECT_EQ(committed.path, "/run/checkpoints/step-00000024");
  EXPECT_EQ(committed.seq, 1U);
  EXPECT_FALSE(committed.already_committed);
  EXPECT_THAT(files.tree(),
              ElementsAre("/run/", "/run/checkpoints/", "/run/checkpoints/CURRENT", "/run/checkpoints/step-00000024/",
                          "/run/checkpoints/step-00000024/config.json", "/run/checkpoints/step-00000024/manifest.json",
                          "/run/checkpoints/step-00000024/model.safetensors", "/run/checkpoints/step-00000024/training/",
                          "/run/checkpoints/step-00000024/training/optimizer.safetensors",
                          "/run/checkpoints/step-00000024/training/state.json"));
  EXPECT_EQ(read_file(files, root + "/CURRENT").value(), "step-00000024 1 " + committed.manifest_hash + "\n");
  EXPECT_THAT(verify(files, committed.path, VerifyLevel::hashes)->status("x"), is_ok());
  EXPECT_GT(committed.size_bytes, 10'000U);
  EXPECT_GT(committed.total_time, committed.sync_time);
}

TEST_F(CommitterTest, manifest_is_written_last_and_renamed_after_every_sync) {
  auto committer = open();
  files.forget_calls();
  commit(*committer, 24);
  std::size_t rename_at = 0;
  std::size_t manifest_at = 0;
  std::size_t last_data_at = 0;
  const auto calls = files.calls();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].call == MemoryFileSystem::Call::rename && calls[i].path.ends_with("step-00000024")) {
      rename_at = i;
    } else if (calls[i].call == MemoryFileSystem::Call::write && calls[i].path.ends_with("manifest.json")) {
      manifest_at = i;
    } else if (calls[i].call == MemoryFileSystem::Call::sync && calls[i].path.find("/.tmp-") != std::string::npos &&
               !calls[i].path.ends_with("manifest.json")) {
      last_data_at = i;
    }
  }
  EXPECT_LT(last_data_at, manifest_at);
  EXPECT_LT(manifest_at, rename_at);
  EXPECT_EQ(calls.at(rename_at + 1).call, MemoryFileSystem::Call::sync_directory);
  EXPECT_EQ(calls.at(rename_at + 1).path, root);
}

TEST_F(CommitterTest, retention_keeps_last_zero_best_and_pinned) {
  auto committer = open(2);
  commit(*committer, 0);
  commit(*committer, 8, true);
  commit(*committer, 16);
  committer->pin(Step{16});
  commit(*committer, 24);
  commit(*committer, 32);
  EXPECT_THAT(committer->steps(), ElementsAre(Step{0}, Step{8}, Step{16}, Step{24}, Step{32}));
  const Committed last = commit(*committer, 40);
  EXPECT_THAT(last.removed, ElementsAre("/run/checkpoints/step-00000024"));
  EXPECT_THAT(committer->steps(), ElementsAre(Step{0}, Step{8}, Step{16}, Step{32}, Step{40}));
  committer->unpin(Step{16});
  const Committed next = commit(*committer, 48, true);
  EXPECT_THAT(next.removed, ::testing::UnorderedElementsAre("/run/checkpoints/step-00000008", "/run/checkpoints/step-00000016"))
      << "the best moved on, so step 8 is an ordinary old one; 48 is pinned and not counted";
  EXPECT_THAT(names(), ElementsAre("CURRENT", "best.json", "step-00000000", "step-00000032", "step-00000040", "step-00000048"));
}

TEST_F(CommitterTest, retention_goes_by_sequence_not_by_step) {
  auto committer = open(1);
  commit(*committer, 100);
  commit(*committer, 50);
  EXPECT_THAT(committer->steps(), ElementsAre(Step{50}));
  EXPECT_EQ(find_newest_verified(files, root)->found->step, Step{50});
}

TEST_F(CommitterTest, keep_last_zero_keeps_all) {
  auto committer = open(0);
  for (std::uint64_t step = 1; step <= 6; ++step) {
    EXPECT_THAT(commit(*committer, step).removed, ::testing::IsEmpty());
  }
}

TEST_F(CommitterTest, sequence_goes_on_after_reopening) {
  commit(*open(), 8);
  commit(*open(), 16);
  auto committer = open();
  EXPECT_EQ(commit(*committer, 24).seq, 3U);
  flip("/run/checkpoints/step-00000024/manifest.json", 30);
  EXPECT_EQ(commit(*open(), 32).seq, 4U) << "CURRENT remembers what the damaged manifest cannot tell";
}

TEST_F(CommitterTest, open_removes_what_dead_writers_left) {
  commit(*open(), 8);
  ASSERT_THAT(make_directories(files, root + "/.tmp-step-00000016-dead/training"), is_ok());
  ASSERT_THAT(replace_file(files, root + "/.tmp-step-00000016-dead/training/x", "x"), is_ok());
  ASSERT_THAT(make_directories(files, root + "/.del-step-00000004-dead"), is_ok());
  ASSERT_THAT(files.open(root + "/CURRENT.tmp-77", OpenMode::create_new), is_ok());
  ASSERT_THAT(make_directories(files, root + "/step-00000004.bad-damaged"), is_ok());
  auto committer = open();
  EXPECT_THAT(names(), ElementsAre("CURRENT", "step-00000004.bad-damaged", "step-00000008"));
  EXPECT_EQ(committer->recovered().size(), 3U);
}

TEST_F(CommitterTest, open_puts_a_parked_directory_back) {
  commit(*open(), 8);
  ASSERT_THAT(files.rename_new(root + "/step-00000008", root + "/.old-step-00000008-1f-2-3"), is_ok());
  EXPECT_THAT(open()->steps(), ElementsAre(Step{8}));
  ASSERT_THAT(make_directories(files, root + "/.old-step-00000008-1f-2-3"), is_ok());
  EXPECT_THAT(open()->steps(), ElementsAre(Step{8}));
  EXPECT_THAT(names(), ElementsAre("CURRENT", "step-00000008"));
}

TEST_F(CommitterTest, identical_newest_is_accepted) {
  const Committed first = commit(*open(), 24);
  files.forget_calls();
  const Committed again = commit(*open(), 24);
  EXPECT_TRUE(again.already_committed);
  EXPECT_EQ(again.seq, first.seq);
  EXPECT_EQ(again.manifest_hash, first.manifest_hash);
  bool synced = false;
  for (const auto& call : files.calls()) {
    synced = synced || (call.call == MemoryFileSystem::Call::sync_directory && call.path == root);
  }
  EXPECT_TRUE(synced) << "its writer may have died before the name was durable";
}

TEST_F(CommitterTest, damaged_one_of_the_same_step_is_set_aside) {
  commit(*open(), 16);
  commit(*open(), 24);
  flip("/run/checkpoints/step-00000024/model.safetensors", 5000);
  auto committer = open();
  const Committed again = commit(*committer, 24);
  EXPECT_FALSE(again.already_committed);
  EXPECT_EQ(again.set_aside, "/run/checkpoints/step-00000024.bad-damaged");
  EXPECT_THAT(verify(files, again.path, VerifyLevel::hashes)->status("x"), is_ok());
  EXPECT_THAT(committer->steps(), ElementsAre(Step{16}, Step{24}));
  flip("/run/checkpoints/step-00000024/manifest.json", 10);
  EXPECT_EQ(commit(*open(), 24).set_aside, "/run/checkpoints/step-00000024.bad-damaged-2");
}

TEST_F(CommitterTest, whole_but_different_one_is_replaced) {
  commit(*open(), 24);
  const Committed again = commit(*open(), 24, false, 99);
  EXPECT_FALSE(again.already_committed);
  EXPECT_EQ(again.set_aside, std::nullopt);
  EXPECT_EQ(again.seq, 2U);
  EXPECT_THAT(names(), ElementsAre("CURRENT", "step-00000024"));
}

TEST_F(CommitterTest, identical_but_older_one_becomes_the_newest) {
  commit(*open(), 24);
  commit(*open(), 32);
  auto committer = open();
  EXPECT_EQ(commit(*committer, 24).seq, 3U);
  EXPECT_EQ(find_newest_verified(files, root)->found->step, Step{24});
  EXPECT_THAT(committer->steps(), ElementsAre(Step{32}, Step{24}));
}

TEST_F(CommitterTest, best_follows_and_is_dropped_when_replaced) {
  auto committer = open();
  commit(*committer, 8, true);
  commit(*committer, 16);
  EXPECT_EQ(committer->best(), Step{8});
  EXPECT_EQ(resolve_reference(files, "/run/best")->manifest->step, Step{8});
  EXPECT_THAT(committer->set_best(Step{16}), is_ok());
  EXPECT_EQ(resolve_reference(files, "/run/checkpoints/best")->manifest->step, Step{16});
  EXPECT_THAT(committer->set_best(Step{17}), is_error(Code::checkpoint_not_found));
  commit(*committer, 16, false, 99);
  EXPECT_EQ(committer->best(), std::nullopt) << "best.json pointed to the commit that is gone";
  EXPECT_THAT(resolve_reference(files, "/run/best"), is_error(Code::checkpoint_not_found));
  EXPECT_THAT(committer->set_best(Step{8}), is_ok());
  EXPECT_EQ(open()->best(), Step{8});
  EXPECT_THAT(committer->set_best(std::nullopt), is_ok());
  EXPECT_EQ(open()->best(), std::nullopt);
}

TEST_F(CommitterTest, unreadable_best_suspends_retention) {
  auto committer = open(1);
  commit(*committer, 8, true);
  flip(root + "/best.json", 3);
  auto reopened = open(1);
  SampleCheckpoint second(16);
  SampleCheckpoint third(24);
  ASSERT_THAT(reopened->commit(second.request), is_ok());
  const auto committed = reopened->commit(third.request);
  ASSERT_THAT(committed, is_ok());
  EXPECT_EQ(committed->warnings.size(), 1U);
  EXPECT_THAT(reopened->steps(), ElementsAre(Step{8}, Step{16}, Step{24}));
  ASSERT_THAT(reopened->set_best(Step{24}), is_ok());
  EXPECT_THAT(commit(*reopened, 32).removed.size(), 2U);
}

TEST_F(CommitterTest, refuses_early_when_space_is_short) {
  auto committer = open();
  files.set_free_bytes(1 << 20);
  files.forget_calls();
  SampleCheckpoint sample(8);
  const auto committed = committer->commit(sample.request);
  ASSERT_THAT(committed, is_error(Code::disk_full));
  EXPECT_EQ(exit_code(committed.error().kind()), 5);
  for (const auto& call : files.calls()) {
    EXPECT_NE(call.call, MemoryFileSystem::Call::make_directory);
  }
}

TEST_F(CommitterTest, refuses_contradictory_requests_without_touching_files) {
  auto committer = open();
  const auto refused = [&](Code code, auto change) {
    SampleCheckpoint sample(8);
    change(sample.request);
    const std::size_t before = files.operations();
    EXPECT_THAT(committer->commit(sample.request), is_error(code));
    EXPECT_EQ(files.operations(), before);
  };
  refused(Code::unsafe_path, [](CommitRequest& r) { r.text_files[0].path = "../config.json"; });
  refused(Code::manifest_invalid, [](CommitRequest& r) { r.text_files[0].path = "manifest.json"; });
  refused(Code::manifest_invalid, [](CommitRequest& r) { r.data_files[0].pieces.pop_back(); });
  refused(Code::manifest_invalid, [](CommitRequest& r) { r.data_files[0].pieces[0].tensor = "unknown"; });
  refused(Code::manifest_invalid, [](CommitRequest& r) { r.data_files[0].pieces.push_back(r.data_files[0].pieces[0]); });
  refused(Code::manifest_invalid, [](CommitRequest& r) { r.data_files[0].pieces[0].offset_bytes = 1 << 30; });
  refused(Code::manifest_invalid, [](CommitRequest& r) { r.tensors.push_back(r.tensors[0]); });
}

TEST_F(CommitterTest, commits_from_another_thread_while_the_owner_pins) {
  auto committer = open();
  SampleCheckpoint sample(8);
  Result<Committed> committed = Committed{};
  {
    const std::jthread writer([&] { committed = committer->commit(sample.request); });
    for (std::uint64_t i = 0; i < 100; ++i) {
      committer->pin(Step{i});
      (void)committer->steps();
      committer->unpin(Step{i});
    }
  }
  EXPECT_THAT(committed, is_ok());
}

TEST(CommitterOnDisk, works_on_a_real_file_system) {
  StepClock clock;
  FileSystem& files = real_file_system();
  const std::string run = ::testing::TempDir() + "parascale-checkpoint-test";
  ASSERT_THAT(remove_tree(files, run), is_ok());
  auto committer = Committer::open(files, clock, {.root = run + "/checkpoints", .keep_last = 1}).value();
  for (const std::uint64_t step : {0U, 8U, 16U}) {
    SampleCheckpoint sample(step);
    sample.request.best = step == 8;
    ASSERT_THAT(committer->commit(sample.request), is_ok());
  }
  SampleCheckpoint again(16);
  EXPECT_TRUE(committer->commit(again.request)->already_committed);
  EXPECT_THAT(committer->steps(), ElementsAre(Step{0}, Step{8}, Step{16}));
  const auto newest = resolve_reference(files, run);
  ASSERT_THAT(newest, is_ok());
  EXPECT_EQ(newest->manifest->step, Step{16});
  EXPECT_THAT(fingerprint(files, newest->directory), is_ok());
  EXPECT_EQ(resolve_reference(files, run + "/best")->manifest->step, Step{8});
  EXPECT_THAT(remove_tree(files, run), is_ok());
}

}  // namespace
}  // namespace parascale::checkpoint
