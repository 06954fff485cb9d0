#include "parascale/checkpoint/store.h"

#include <gtest/gtest.h>

#include <random>

#include "parascale/checkpoint/committer.h"
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
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::SampleCheckpoint;
using testing::StepClock;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    committer = Committer::open(files, clock, {.root = root}).value();
    for (const std::uint64_t step : {8U, 16U, 24U}) {
      SampleCheckpoint sample(step);
      sample.request.best = step == 8;
      ASSERT_THAT(committer->commit(sample.request), is_ok());
    }
  }
  void flip(const std::string& path, std::size_t at, unsigned bit = 0) {
    files.corrupt(path, [&](std::vector<std::byte>& bytes) { bytes.at(at) ^= std::byte{1} << bit; });
  }
  void write(const std::string& path, std::string_view text) {
    ASSERT_THAT(make_directories(files, parent_path(path)), is_ok());
    ASSERT_THAT(replace_file(files, path, text), is_ok());
  }

  MemoryFileSystem files;
  StepClock clock;
  std::unique_ptr<Committer> committer;
  const std::string root = "/run/checkpoints";
  const std::string newest = "/run/checkpoints/step-00000024";
};

TEST_F(StoreTest, lists_by_sequence_and_ignores_what_is_no_checkpoint) {
  for (const char* name :
       {"/.tmp-step-00000032-x", "/.del-step-00000004-x", "/step-00000040.bad-damaged", "/notes", "/step-48"}) {
    ASSERT_THAT(make_directories(files, root + name), is_ok());
  }
  write(root + "/step-00000056", "a file with the name of a step");
  const auto listed = list_checkpoints(files, root);
  ASSERT_THAT(listed, is_ok());
  ASSERT_EQ(listed->size(), 3U);
  EXPECT_EQ(listed->at(0).step, Step{24});
  EXPECT_EQ(listed->at(2).step, Step{8});
  EXPECT_THAT(list_checkpoints(files, "/nowhere"), parascale::testing::is_ok_and_holds(IsEmpty()));
}

TEST_F(StoreTest, newest_verified_names_what_it_skips) {
  flip(newest + "/model.safetensors", 5000);
  ASSERT_THAT(remove_tree(files, root + "/step-00000016/manifest.json"), is_ok());
  const auto found = find_newest_verified(files, root);
  ASSERT_THAT(found, is_ok());
  EXPECT_EQ(found->found->step, Step{8});
  ASSERT_EQ(found->skipped.size(), 2U);
  EXPECT_EQ(found->skipped[0].path, root + "/step-00000016");
  EXPECT_EQ(found->skipped[0].reason.code(), Code::checkpoint_not_found);
  EXPECT_EQ(found->skipped[1].path, newest);
  EXPECT_EQ(found->skipped[1].reason.code(), Code::hash_mismatch);
  EXPECT_EQ(find_newest_verified(files, root, VerifyLevel::sizes)->found->step, Step{24}) << "sizes alone cannot see it";
}

TEST_F(StoreTest, a_manifest_of_another_step_does_not_count) {
  ASSERT_THAT(files.rename_new(newest, root + "/step-00000032"), is_ok());
  EXPECT_EQ(find_newest_verified(files, root)->found->step, Step{16});
}

TEST_F(StoreTest, damage_is_located) {
  const auto manifest = read_manifest(files, newest).value();
  const PieceRecord& bias = manifest.find_tensor("head.bias")->pieces.at(0);
  flip(newest + "/model.safetensors", bias.offset_bytes + 3);
  const auto report = verify(files, newest, VerifyLevel::hashes);
  ASSERT_THAT(report, is_ok());
  ASSERT_EQ(report->damages.size(), 1U);
  const Damage& damage = report->damages[0];
  EXPECT_EQ(damage.kind, Damage::Kind::hash);
  EXPECT_EQ(damage.file, "model.safetensors");
  EXPECT_LE(damage.begin_byte, bias.offset_bytes);
  EXPECT_GT(damage.end_byte, bias.offset_bytes);
  EXPECT_THAT(damage.tensors, Contains("head.bias"));
  EXPECT_THAT(report->status(newest), is_error(Code::hash_mismatch));
  EXPECT_THAT(report->status(newest).error().message(), HasSubstr("`model.safetensors` bytes 0.."));
}

TEST_F(StoreTest, only_the_damaged_chunk_and_its_tensor_are_named) {
  const auto layout = make_layout({{"a", Dtype::u8, {9 << 20}}, {"b", Dtype::u8, {9 << 20}}}).value();
  std::vector<std::byte> arena(layout.total_bytes);
  std::memcpy(arena.data(), layout.header.data(), layout.header.size());
  CommitRequest request{.step = Step{32}};
  DataFile file{.path = "model.safetensors", .role = "model", .bytes = arena};
  for (const auto& tensor : layout.tensors) {
    file.pieces.push_back({.tensor = tensor.name, .offset_bytes = tensor.offset_bytes, .size_bytes = tensor.size_bytes});
    request.tensors.push_back({.name = tensor.name, .dtype = tensor.dtype, .global_shape = tensor.shape, .kind = "param"});
  }
  request.data_files.push_back(file);
  ASSERT_THAT(committer->commit(request), is_ok());
  const std::string directory = root + "/step-00000032";
  EXPECT_EQ(read_manifest(files, directory)->files.at(0).chunks.size(), 3U);
  flip(directory + "/model.safetensors", (17 << 20));
  const auto report = verify(files, directory, VerifyLevel::hashes).value();
  ASSERT_EQ(report.damages.size(), 1U);
  EXPECT_EQ(report.damages[0].begin_byte, 16U << 20);
  EXPECT_EQ(report.damages[0].end_byte, layout.total_bytes);
  EXPECT_THAT(report.damages[0].tensors, ElementsAre("b"));
}

TEST_F(StoreTest, every_flipped_bit_and_every_truncation_is_refused) {
  std::mt19937_64 random(7);
  for (const char* name : {"model.safetensors", "training/optimizer.safetensors", "config.json", "training/state.json"}) {
    const std::string path = join_path(newest, name);
    const std::uint64_t size = files.info(path)->size_bytes;
    for (int sample = 0; sample < 100; ++sample) {
      const std::size_t at = sample == 0 ? 0 : sample == 1 ? size - 1 : random() % size;
      const auto bit = static_cast<unsigned>(random() % 8);
      flip(path, at, bit);
      const auto opened = open_for_load(files, newest);
      ASSERT_THAT(opened, is_error(Code::hash_mismatch)) << name << " byte " << at << " bit " << bit;
      ASSERT_THAT(opened.error().message(), HasSubstr(name));
      flip(path, at, bit);
    }
    for (const std::uint64_t keep : {std::uint64_t{0}, std::uint64_t{1}, size / 2, size - 1, size + 1}) {
      std::vector<std::byte> whole;
      files.corrupt(path, [&](std::vector<std::byte>& bytes) {
        whole = bytes;
        bytes.resize(keep);
      });
      ASSERT_THAT(open_for_load(files, newest), is_error(Code::file_mismatch)) << name << " cut to " << keep;
      files.corrupt(path, [&](std::vector<std::byte>& bytes) { bytes = whole; });
    }
  }
  EXPECT_THAT(open_for_load(files, newest), is_ok());
}

TEST_F(StoreTest, swapped_and_stale_files_are_refused) {
  const std::string model = newest + "/model.safetensors";
  ASSERT_THAT(files.remove_file(model), is_ok());
  EXPECT_THAT(open_for_load(files, newest), is_error(Code::file_mismatch));
  write(model, read_file(files, root + "/step-00000016/model.safetensors").value());
  EXPECT_THAT(open_for_load(files, newest), is_error(Code::hash_mismatch)) << "the right name and size, another step";
  ASSERT_THAT(files.remove_file(model), is_ok());
  ASSERT_THAT(make_directories(files, model), is_ok());
  EXPECT_THAT(open_for_load(files, newest), is_error(Code::file_mismatch)) << "a directory in the place of a file";
}

TEST_F(StoreTest, header_and_manifest_must_agree) {
  SampleCheckpoint sample(32);
  for (auto& tensor : sample.request.tensors) {
    if (tensor.name == "head.bias") {
      tensor.dtype = Dtype::i32;  // same size, other meaning
    }
  }
  ASSERT_THAT(committer->commit(sample.request), is_ok());
  EXPECT_THAT(open_for_load(files, root + "/step-00000032"), is_error(Code::safetensors_invalid));
}

TEST_F(StoreTest, opens_all_or_the_model_only) {
  const auto all = open_for_load(files, newest);
  ASSERT_THAT(all, is_ok());
  EXPECT_EQ(all->tensors.size(), 6U) << "five stored, one alias";
  EXPECT_EQ(all->texts.size(), 2U);
  EXPECT_EQ(all->texts.at("training/state.json"), R"({"step": 24})");
  for (const auto& tensor : all->tensors) {
    EXPECT_TRUE(tensor.xxh3_64.has_value());
    EXPECT_EQ(tensor.alias_of.has_value(), tensor.name == "tied.weight");
  }
  flip(newest + "/training/optimizer.safetensors", 5000);
  const auto model = open_for_load(files, newest, LoadPart::model);
  ASSERT_THAT(model, is_ok()) << "what is not read is not verified";
  EXPECT_EQ(model->tensors.size(), 4U);
  EXPECT_EQ(model->texts.size(), 1U);
  EXPECT_THAT(open_for_load(files, newest), is_error(Code::hash_mismatch));
}

TEST_F(StoreTest, resolves_every_kind_of_reference) {
  using Kind = ResolvedReference::Kind;
  const auto expect = [&](const std::string& path, Kind kind, std::uint64_t step) {
    const auto reference = resolve_reference(files, path);
    ASSERT_THAT(reference, is_ok()) << path;
    EXPECT_EQ(reference->kind, kind) << path;
    EXPECT_EQ(reference->manifest->step, Step{step}) << path;
    EXPECT_FALSE(reference->description.empty());
  };
  expect("/run/checkpoints/step-00000016", Kind::step, 16);
  expect("/run/checkpoints/step-00000016/", Kind::step, 16);
  expect("/run/checkpoints/step-00000016/manifest.json", Kind::step, 16);
  expect("/run/checkpoints", Kind::newest, 24);
  expect("/run", Kind::newest, 24);
  expect("/run/best", Kind::best, 8);
  expect("/run/checkpoints/best", Kind::best, 8);
  EXPECT_THAT(resolve_reference(files, "/nowhere"), is_error(Code::checkpoint_not_found));
  ASSERT_THAT(make_directories(files, "/empty"), is_ok());
  EXPECT_THAT(resolve_reference(files, "/empty"), is_error(Code::checkpoint_not_found));
  EXPECT_THAT(resolve_reference(files, "/empty/best"), is_error(Code::checkpoint_not_found));
}

TEST_F(StoreTest, nothing_usable_lists_what_was_skipped) {
  for (const auto& entry : list_checkpoints(files, root).value_or({})) {
    flip(entry.path + "/config.json", 0);
  }
  const auto reference = resolve_reference(files, "/run");
  ASSERT_THAT(reference, is_error(Code::checkpoint_not_found));
  EXPECT_EQ(reference.error().notes().size(), 3U);
}

TEST_F(StoreTest, opens_a_plain_model_directory) {
  const auto model = read_file(files, newest + "/model.safetensors").value();
  write("/hf/model.safetensors", model);
  write("/hf/config.json", "{}");
  const auto reference = resolve_reference(files, "/hf");
  ASSERT_THAT(reference, is_ok());
  EXPECT_EQ(reference->kind, ResolvedReference::Kind::hugging_face);
  EXPECT_THAT(reference->description, HasSubstr("without manifest"));
  const auto opened = open_for_load(files, "/hf");
  ASSERT_THAT(opened, is_ok());
  EXPECT_EQ(opened->tensors.size(), 3U);
  EXPECT_FALSE(opened->manifest.has_value());
  EXPECT_THAT(opened->texts, ElementsAre(::testing::Pair("config.json", "{}")));
}

TEST_F(StoreTest, opens_an_indexed_model_and_refuses_a_lying_index) {
  const auto one = make_layout({{"a", Dtype::u8, {1}}}).value();
  const auto two = make_layout({{"b", Dtype::u8, {1}}}).value();
  write("/hf/model-00001-of-00002.safetensors", one.header + "x");
  write("/hf/model-00002-of-00002.safetensors", two.header + "y");
  const auto open_with = [&](std::string_view map) {
    EXPECT_THAT(
        replace_file(files, "/hf/model.safetensors.index.json", std::string(R"({"weight_map": )") + std::string(map) + "}"),
        is_ok());
    return open_for_load(files, "/hf");
  };
  EXPECT_THAT(open_with(R"({"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"})"), is_ok());
  EXPECT_THAT(open_with(R"({"a": "model-00001-of-00002.safetensors", "b": "model-00001-of-00002.safetensors"})"),
              is_error(Code::safetensors_invalid));
  EXPECT_THAT(open_with(R"({"a": "model-00001-of-00002.safetensors", "c": "model-00001-of-00002.safetensors"})"),
              is_error(Code::safetensors_invalid));
  EXPECT_THAT(open_with(R"({"a": "../model-00001-of-00002.safetensors"})"), is_error(Code::safetensors_invalid));
  EXPECT_THAT(open_with(R"({"a": ".."})"), is_error(Code::unsafe_path));
  EXPECT_THAT(open_with("[]"), is_error(Code::safetensors_invalid));
}

}  // namespace
}  // namespace parascale::checkpoint
