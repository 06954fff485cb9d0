#include "parascale/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "parascale/base/hash.h"
#include "parascale/base/text.h"
#include "tests/support/matchers.h"

namespace parascale::checkpoint {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;
using ::testing::HasSubstr;

Manifest sample() {
  Manifest manifest{
      .seq = 7, .step = Step{24}, .run_id = "r\u00fcn", .attempt = 2, .created = "2026-01-01T00:00:00.000Z", .backend = "native"};
  manifest.files.push_back({.path = "model.safetensors",
                            .role = "model",
                            .size_bytes = 100,
                            .chunks = {0x0123456789abcdefULL},
                            .xxh3_128 = std::string(32, 'a')});
  manifest.files.push_back({.path = "training/empty", .role = "state", .xxh3_128 = std::string(32, 'b')});
  TensorRecord tensor{
      .name = "w", .dtype = Dtype::f32, .global_shape = {4, 5}, .kind = "param", .trainable = true, .group = "decay"};
  tensor.pieces.push_back(
      {.file = "model.safetensors", .offset_bytes = 0, .size_bytes = 40, .slice = {{0, 0}, {2, 5}}, .xxh3_64 = 1});
  tensor.pieces.push_back(
      {.file = "model.safetensors", .offset_bytes = 40, .size_bytes = 40, .slice = {{2, 0}, {2, 5}}, .xxh3_64 = 2});
  manifest.tensors.push_back(tensor);
  manifest.tensors.push_back({.name = "tied", .dtype = Dtype::f32, .global_shape = {4, 5}, .kind = "param", .alias_of = "w"});
  manifest.metrics = Json::object({{"top1", 1e-05}});
  manifest.progress = Json::object({{"samples", 1536}, {"epoch", 0.5}});
  return manifest;
}

/// Replaces the self hash by the right one for the changed text: what a hostile writer would do.
std::string resealed(std::string text) {
  const auto at = text.rfind(",\n  \"self_xxh3_128\"");
  text.resize(at);
  return text + ",\n  \"self_xxh3_128\": \"" + xxh3_128_hex(as_bytes(text)) + "\"\n}\n";
}

TEST(Manifest, reads_back_what_it_writes) {
  const Manifest written = sample();
  const auto read = parse_manifest(manifest_text(written), "m");
  ASSERT_THAT(read, is_ok());
  EXPECT_EQ(read->seq, 7U);
  EXPECT_EQ(read->step, Step{24});
  EXPECT_EQ(read->run_id, written.run_id);
  EXPECT_EQ(read->attempt, 2U);
  EXPECT_EQ(read->files, written.files);
  EXPECT_EQ(read->tensors, written.tensors);
  EXPECT_EQ(read->metrics, written.metrics);
  EXPECT_EQ(read->progress, written.progress);
  EXPECT_EQ(read->self_hash.size(), 32U);
  EXPECT_EQ(manifest_text(*read), manifest_text(written));
}

TEST(Manifest, every_flipped_bit_is_refused) {
  const std::string text = manifest_text(sample());
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(static_cast<unsigned char>(flipped[i]) ^ (1U << bit));
      ASSERT_FALSE(parse_manifest(flipped, "m").ok()) << "byte " << i << " bit " << bit;
    }
  }
}

TEST(Manifest, every_truncation_is_refused) {
  const std::string text = manifest_text(sample());
  for (std::size_t size = 0; size < text.size(); ++size) {
    ASSERT_FALSE(parse_manifest(text.substr(0, size), "m").ok()) << size;
  }
  EXPECT_THAT(parse_manifest(text + "\n", "m"), is_error(Code::manifest_invalid));
  EXPECT_THAT(parse_manifest(text + text, "m"), is_error(Code::manifest_invalid));
}

TEST(Manifest, unknown_members_are_ignored) {
  EXPECT_THAT(parse_manifest(resealed(replace_all(manifest_text(sample()), "\"seq\"", "\"new\": {\"x\": 1},\n  \"seq\"")), "m"),
              is_ok());
}

TEST(Manifest, other_versions_and_formats_are_named) {
  const std::string text = manifest_text(sample());
  const auto version = parse_manifest(resealed(replace_all(text, "\"version\": 3", "\"version\": 4")), "m");
  ASSERT_THAT(version, is_error(Code::artifact_version));
  EXPECT_THAT(version.error().message(), HasSubstr("version 4"));
  EXPECT_THAT(parse_manifest(R"({"format": "parascale.checkpoint", "version": 4})", "m"), is_error(Code::artifact_version));
  EXPECT_THAT(parse_manifest(R"({"format": "parascale_manifest_v1"})", "m"), is_error(Code::artifact_version));
  EXPECT_THAT(parse_manifest("", "m"), is_error(Code::manifest_invalid));
}

struct Mutation {
  const char* name;
  const char* from;
  const char* to;
  Code code;
};
class ResealedMutation : public ::testing::TestWithParam<Mutation> {};
TEST_P(ResealedMutation, is_refused) {
  const std::string text = manifest_text(sample());
  ASSERT_THAT(text, HasSubstr(GetParam().from));
  EXPECT_THAT(parse_manifest(resealed(replace_all(text, GetParam().from, GetParam().to)), "m"), is_error(GetParam().code));
}
INSTANTIATE_TEST_SUITE_P(
    manifest, ResealedMutation,
    ::testing::Values(Mutation{"step_is_text", "\"step\": 24", "\"step\": \"24\"", Code::manifest_invalid},
                      Mutation{"step_negative", "\"step\": 24", "\"step\": -1", Code::manifest_invalid},
                      Mutation{"no_seq", "\"seq\"", "\"sec\"", Code::manifest_invalid},
                      Mutation{"duplicate_member", "\"seq\": 7", "\"seq\": 7, \"seq\": 8", Code::manifest_invalid},
                      Mutation{"path_up", "\"training/empty\"", "\"../empty\"", Code::unsafe_path},
                      Mutation{"path_inner_up", "\"training/empty\"", "\"training/../../x\"", Code::unsafe_path},
                      Mutation{"path_absolute", "\"training/empty\"", "\"/etc/passwd\"", Code::unsafe_path},
                      Mutation{"path_empty", "\"training/empty\"", "\"\"", Code::unsafe_path},
                      Mutation{"path_empty_part", "\"training/empty\"", "\"training//empty\"", Code::unsafe_path},
                      Mutation{"path_backslash", "\"training/empty\"", "\"training\\\\empty\"", Code::unsafe_path},
                      Mutation{"path_zero_byte", "\"training/empty\"", "\"a\\u0000b\"", Code::unsafe_path},
                      Mutation{"path_twice", "\"training/empty\"", "\"model.safetensors\"", Code::manifest_invalid},
                      Mutation{"path_manifest", "\"training/empty\"", "\"manifest.json\"", Code::manifest_invalid},
                      Mutation{"chunk_missing", "\"0123456789abcdef\"", "", Code::manifest_invalid},
                      Mutation{"chunk_not_hex", "\"0123456789abcdef\"", "\"0123456789abcdeg\"", Code::manifest_invalid},
                      Mutation{"chunk_zero_bytes", "\"chunk_bytes\": 8388608", "\"chunk_bytes\": 0", Code::manifest_invalid},
                      Mutation{"dtype", "\"dtype\": \"F32\"", "\"dtype\": \"F33\"", Code::manifest_invalid},
                      Mutation{"piece_behind_file", "\"offset\": 40", "\"offset\": 61", Code::manifest_invalid},
                      Mutation{"piece_overflow", "\"offset\": 40", "\"offset\": 18446744073709551600", Code::manifest_invalid},
                      Mutation{"piece_unknown_file", "\"file\": \"model.safetensors\"", "\"file\": \"other\"",
                               Code::manifest_invalid},
                      Mutation{"piece_size", "\"bytes\": 40", "\"bytes\": 36", Code::manifest_invalid},
                      Mutation{"slice_leaves", "\"offsets\": [2, 0]", "\"offsets\": [3, 0]", Code::manifest_invalid},
                      Mutation{"slice_overlaps", "\"offsets\": [2, 0]", "\"offsets\": [1, 0]", Code::manifest_invalid},
                      Mutation{"slice_rank", "\"offsets\": [2, 0]", "\"offsets\": [2]", Code::manifest_invalid},
                      Mutation{"not_covered", "\"global_shape\": [4, 5]", "\"global_shape\": [5, 5]", Code::manifest_invalid},
                      Mutation{"shape_overflow", "\"global_shape\": [4, 5]", "\"global_shape\": [4294967296, 4294967296]",
                               Code::manifest_invalid},
                      Mutation{"alias_unknown", "\"alias_of\": \"w\"", "\"alias_of\": \"v\"", Code::manifest_invalid},
                      Mutation{"alias_itself", "\"alias_of\": \"w\"", "\"alias_of\": \"tied\"", Code::manifest_invalid}),
    [](const auto& param_info) { return param_info.param.name; });

TEST(Manifest, step_names_are_exact) {
  EXPECT_EQ(step_directory_name(Step{24}), "step-00000024");
  EXPECT_EQ(parse_step_directory_name("step-00000024"), Step{24});
  EXPECT_EQ(parse_step_directory_name("step-123456789"), Step{123456789});
  for (const char* name :
       {"step-24", "step-000000024", "step-00000024.bad-damaged", ".tmp-step-00000024", "step-", "step-0000002x", "24"}) {
    EXPECT_EQ(parse_step_directory_name(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace parascale::checkpoint
