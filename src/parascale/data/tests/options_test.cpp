#include "parascale/data/options.h"

#include <gmock/gmock.h>

#include "tests/support/matchers.h"

namespace parascale::data {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok_and_holds;
using ::testing::Eq;

DataOptions full_options() {
  DataOptions options;
  options.type = DatasetType::wds;
  options.train = {"a/train-*.tar", "b.tar"};
  options.validation = {"v.tar"};
  options.infer = {"x.png"};
  options.recipe = {.resize = ResizeFilter::bilinear, .size = 32, .channels = 3, .mean = {0.1, 0.2, 0.3}, .std = {0.5}};
  options.affine = Affine{.degrees = 12, .scale = {0.9, 1.1}, .translate = 0.12};
  options.seed = 0xfedcba9876543210;
  options.threads = 3;
  options.memory_limit_bytes = 1ULL << 33;
  options.max_failure_rate = 0.02;
  options.num_labels = 7;
  options.synthetic.samples = 99;
  return options;
}

TEST(DataOptions, survive_json) {
  const auto text = full_options().to_json().dump();
  const auto json = parse_json(text, "options");
  ASSERT_TRUE(json.ok());
  EXPECT_THAT(DataOptions::from_json(*json), is_ok_and_holds(Eq(full_options())));
  EXPECT_THAT(DataOptions::from_json(DataOptions().to_json()), is_ok_and_holds(Eq(DataOptions())));
}

TEST(DataOptions, ignore_unknown_members_and_refuse_other_versions) {
  Json json = full_options().to_json();
  json["later"] = "x";
  EXPECT_THAT(DataOptions::from_json(json), is_ok_and_holds(Eq(full_options())));
  json["format_version"] = 2;
  EXPECT_THAT(DataOptions::from_json(json), is_error(Code::artifact_version));
}

struct Bad {
  const char* path;
  Json value;
  Code code;
};

TEST(DataOptions, refuse_values_outside_their_bounds) {
  const std::vector<Bad> cases{
      {"/type", "zip", Code::unknown_value},
      {"/max_failure_rate", 1.5, Code::out_of_bounds},
      {"/num_labels", 0, Code::out_of_bounds},
      {"/train", "x.tar", Code::wrong_type},
      {"recipe/size", 0, Code::out_of_bounds},
      {"recipe/channels", 4, Code::out_of_bounds},
      {"recipe/std", Json::array({0.0}), Code::out_of_bounds},
      {"recipe/mean", Json::array({0.0, 0.1}), Code::out_of_bounds},
      {"recipe/resize", "lanczos", Code::unknown_value},
      {"affine/scale", Json::array({1.1, 0.9}), Code::out_of_bounds},
      {"affine/scale", Json::array({1.1}), Code::wrong_type},
      {"affine/degrees", 181, Code::out_of_bounds},
      {"affine/translate", -0.1, Code::out_of_bounds},
  };
  for (const auto& bad : cases) {
    const std::string path = bad.path;
    const auto slash = path.find('/');
    Json json = full_options().to_json();
    (slash == 0 ? json : json[path.substr(0, slash)])[path.substr(slash + 1)] = bad.value;
    EXPECT_THAT(DataOptions::from_json(json), is_error(bad.code)) << path;
  }
}

TEST(DatasetSummary, survives_json) {
  const DatasetSummary summary{.samples = 5,
                               .incomplete = 1,
                               .unlabelled = 2,
                               .bytes = 3,
                               .fingerprint = "ab",
                               .shards = 4,
                               .damaged_shards = 1,
                               .damage = {"x.tar: truncated at byte 512"},
                               .min_width = 1,
                               .max_width = 2,
                               .min_height = 3,
                               .max_height = 4};
  EXPECT_THAT(DatasetSummary::from_json(summary.to_json()), is_ok_and_holds(Eq(summary)));
}

TEST(Names, read_back) {
  for (const auto split : {Split::train, Split::validation, Split::infer}) {
    EXPECT_EQ(split_from_name(split_name(split)), split);
  }
  for (const auto type : {DatasetType::wds, DatasetType::synthetic, DatasetType::files}) {
    EXPECT_EQ(dataset_type_from_name(dataset_type_name(type)), type);
  }
  EXPECT_EQ(split_from_name("test"), std::nullopt);
}

}  // namespace
}  // namespace parascale::data
