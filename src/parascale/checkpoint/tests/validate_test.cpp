#include "parascale/checkpoint/validate.h"

#include <gtest/gtest.h>

#include <vector>

#include "parascale/base/hash.h"
#include "parascale/checkpoint/committer.h"
#include "parascale/checkpoint/tests/sample_checkpoint.h"
#include "tests/support/matchers.h"
#include "tests/support/memory_file_system.h"

namespace parascale::checkpoint {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;
using parascale::testing::MemoryFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::SampleCheckpoint;
using testing::StepClock;

class ValidateTest : public ::testing::Test {
 protected:
  void commit(std::uint64_t step) {
    SampleCheckpoint sample(step);
    sample.request.best = step == 8;
    auto committer = Committer::open(files, clock, {.root = "/run/checkpoints"}).value();
    ASSERT_THAT(committer->commit(sample.request), is_ok());
  }
  void write(const std::string& path, std::string_view text) {
    ASSERT_THAT(make_directories(files, parent_path(path)), is_ok());
    ASSERT_THAT(replace_file(files, path, text), is_ok());
  }
  void flip(const std::string& path, std::size_t at) {
    files.corrupt(path, [&](std::vector<std::byte>& bytes) { bytes.at(at) ^= std::byte{1}; });
  }

  MemoryFileSystem files;
  StepClock clock;
};

TEST_F(ValidateTest, has_the_keys_of_the_specification) {
  commit(8);
  const auto validation = validate(files, "/run/checkpoints");
  ASSERT_THAT(validation, is_ok());
  EXPECT_TRUE(validation->ok());
  EXPECT_THAT(validation->status(), is_ok());
  const Json json = validation->to_json();
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.members()) {
    keys.push_back(key);
  }
  EXPECT_THAT(keys, ElementsAre("format_version", "mode", "runtime_status", "checkpoint", "manifest", "validation"));
  EXPECT_EQ(json.get<std::string>("mode").value(), "checkpoint_validate");
  EXPECT_EQ(json.get<std::string>("runtime_status").value(), "diagnostic");
  EXPECT_EQ(json.get<std::string>("checkpoint").value(), "/run/checkpoints/step-00000008");
  const Json report = json.get<Json>("validation").value();
  for (const char* key :
       {"ok", "checked_files", "checked_directories", "missing", "checksum_mismatches", "size_mismatches", "errors"}) {
    EXPECT_TRUE(report.contains(key)) << key;
  }
  EXPECT_EQ(report.get<std::uint64_t>("checked_files").value(), 4U);
  EXPECT_EQ(report.get<std::uint64_t>("checked_directories").value(), 2U);
  EXPECT_THAT(validation->to_text(), HasSubstr("\nvalid\n"));
}

TEST_F(ValidateTest, accepts_every_kind_of_path) {
  commit(8);
  commit(16);
  const auto expect = [&](const std::string& path, const std::string& directory) {
    const auto validation = validate(files, path);
    ASSERT_THAT(validation, is_ok()) << path;
    EXPECT_EQ(validation->checkpoint, directory);
    EXPECT_TRUE(validation->ok());
  };
  expect("/run", "/run/checkpoints/step-00000016");
  expect("/run/best", "/run/checkpoints/step-00000008");
  expect("/run/checkpoints/step-00000008", "/run/checkpoints/step-00000008");
  expect("/run/checkpoints/step-00000008/manifest.json", "/run/checkpoints/step-00000008");
  EXPECT_THAT(validate(files, "/nowhere"), is_error(Code::checkpoint_not_found));
  ASSERT_THAT(make_directories(files, "/empty"), is_ok());
  EXPECT_THAT(validate(files, "/empty"), is_error(Code::checkpoint_not_found));
}

TEST_F(ValidateTest, reports_every_kind_of_damage_at_once) {
  commit(8);
  const std::string directory = "/run/checkpoints/step-00000008/";
  ASSERT_THAT(files.remove_file(directory + "config.json"), is_ok());
  files.corrupt(directory + "training/state.json", [](std::vector<std::byte>& bytes) { bytes.pop_back(); });
  flip(directory + "model.safetensors", 4100);
  const auto validation = validate(files, "/run");
  ASSERT_THAT(validation, is_ok());
  EXPECT_FALSE(validation->ok());
  EXPECT_THAT(validation->missing, ElementsAre("config.json"));
  ASSERT_EQ(validation->size_mismatches.size(), 1U);
  EXPECT_EQ(validation->size_mismatches[0].path, "training/state.json");
  ASSERT_EQ(validation->checksum_mismatches.size(), 1U);
  EXPECT_EQ(validation->checksum_mismatches[0].path, "model.safetensors");
  EXPECT_THAT(validation->checksum_mismatches[0].tensors, ::testing::Not(IsEmpty()));
  EXPECT_EQ(exit_code(validation->status().error().kind()), 5);
  EXPECT_THAT(validation->to_text(), HasSubstr("damaged: 3 faults"));
}

TEST_F(ValidateTest, a_damaged_manifest_is_damage_not_absence) {
  commit(8);
  commit(16);
  flip("/run/checkpoints/step-00000016/manifest.json", 40);
  const auto step = validate(files, "/run/checkpoints/step-00000016");
  ASSERT_THAT(step, is_ok());
  EXPECT_THAT(step->status(), is_error(Code::manifest_invalid));
  const auto root = validate(files, "/run");
  ASSERT_THAT(root, is_ok());
  EXPECT_FALSE(root->ok()) << "step 8 is whole, but the root holds a damaged checkpoint";
}

TEST_F(ValidateTest, another_version_is_refused) {
  write("/v9/step-00000001/manifest.json", R"({"format": "parascale.checkpoint", "version": 9})");
  EXPECT_THAT(validate(files, "/v9/step-00000001"), is_error(Code::artifact_version));
}

TEST_F(ValidateTest, reads_the_manifest_of_the_original) {
  const std::string payload = "weights";
  const auto manifest_of = [&](std::string_view extra) {
    return R"({"format": "parascale_manifest_v1", "schema_version": 2, "step": 5, "backend": "native", "files": [
      {"path": "backend_state.pt", "entry_type": "file", "size_bytes": 7, "sha256": ")" +
           sha256_hex(payload) + R"("},
      {"path": "deepspeed", "entry_type": "directory"})" +
           std::string(extra) + "]}";
  };
  const std::string directory = "/old/step-00000005/";
  write(directory + "backend_state.pt", payload);
  ASSERT_THAT(make_directories(files, directory + "deepspeed"), is_ok());
  write(directory + "manifest.json", manifest_of(""));
  const auto good = validate(files, "/old");
  ASSERT_THAT(good, is_ok());
  EXPECT_TRUE(good->ok()) << good->to_text();
  EXPECT_EQ(good->checked_files, 1U);
  EXPECT_EQ(good->checked_directories, 1U);
  EXPECT_EQ(good->manifest.get<std::string>("format").value(), "parascale_manifest_v1");

  flip(directory + "backend_state.pt", 0);
  EXPECT_EQ(validate(files, "/old")->checksum_mismatches.size(), 1U);
  flip(directory + "backend_state.pt", 0);
  write(
      directory + "manifest.json",
      manifest_of(
          R"(, {"path": "gone.pt"}, {"path": "../../etc/passwd"}, {"path": "deepspeed", "entry_type": "directory", "error": "x"})"));
  const auto bad = validate(files, "/old");
  ASSERT_THAT(bad, is_ok());
  EXPECT_THAT(bad->missing, ElementsAre("gone.pt"));
  EXPECT_EQ(bad->errors.size(), 2U);
}

}  // namespace
}  // namespace parascale::checkpoint
