#include "parascale/checkpoint/options.h"

#include <gtest/gtest.h>

#include "tests/support/matchers.h"

namespace parascale::checkpoint {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok_and_holds;

TEST(CheckpointOptions, round_trip) {
  const CheckpointOptions options{.root = "/a", .interval_steps = 8, .keep_last = 0, .keep_best = false};
  EXPECT_THAT(CheckpointOptions::from_json(options.to_json()), is_ok_and_holds(options));
}

TEST(CheckpointOptions, defaults_and_errors) {
  EXPECT_THAT(CheckpointOptions::from_json(Json::object({{"root", "/a"}, {"unknown", 1}})),
              is_ok_and_holds(CheckpointOptions{.root = "/a"}));
  EXPECT_THAT(CheckpointOptions::from_json(Json::object()), is_error(Code::json_invalid));
  EXPECT_THAT(CheckpointOptions::from_json(Json::object({{"root", "/a"}, {"keep_last", -1}})), is_error(Code::json_invalid));
}

}  // namespace
}  // namespace parascale::checkpoint
