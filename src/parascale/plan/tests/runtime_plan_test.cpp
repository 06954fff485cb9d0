#include "parascale/plan/runtime_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>

#include "parascale/plan/tests/sample_job.h"
#include "tests/support/matchers.h"

namespace parascale::plan {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;
using testing::SampleJob;

/// A plan in which every member differs from its default, so that one that is forgotten is seen.
RuntimePlan full_plan() {
  SampleJob job;
  job.config.training.grad_clip_norm = 1.5;
  job.config.training.label_smoothing = 0.1;
  job.config.training.log_interval = 7;
  job.config.optimizer.momentum = 0.5;
  job.config.optimizer.nesterov = true;
  job.config.model.init_from = "models/vit";
  job.config.data.affine = {.degrees = 10, .scale = {0.9, 1.1}, .translate = 0.1};
  job.config.data.train = {"a.tar"};
  job.config.data.validation = {"b.tar"};
  job.config.override_count = 2;
  RuntimePlan plan = job.plan();
  plan.changes = {
      {.path = "parascale.training.precision", .asked = "bf16", .planned = "fp32", .reason = "no kernels", .code = "PS322"}};
  return plan;
}

constexpr std::array<std::string_view, 7> kNotHashed = {"hash",     "reasons",  "warnings", "changes",
                                                        "rejected", "made_for", "made_by"};

TEST(RuntimePlanTest, JsonReadsBack) {
  const RuntimePlan plan = full_plan();
  const auto text = plan.to_json().dump_pretty();
  const auto read = RuntimePlan::from_json(parse_json(text, "plan.json").value());
  ASSERT_THAT(read, is_ok());
  EXPECT_EQ(read->to_json().dump_pretty(), text);
  EXPECT_EQ(read->hash(), plan.hash());
  RuntimePlan without_clip = plan;
  without_clip.training.grad_clip_norm.reset();
  EXPECT_THAT(RuntimePlan::from_json(without_clip.to_json()), is_ok());
}

TEST(RuntimePlanTest, NotesAndTheMachineDoNotChangeTheHash) {
  RuntimePlan plan = full_plan();
  const std::string hash = plan.hash();
  EXPECT_EQ(hash.size(), 64U);
  plan.reasons.emplace_back("x");
  plan.warnings.emplace_back("x");
  plan.changes.clear();
  plan.rejected.clear();
  plan.made_for = {};
  EXPECT_EQ(plan.hash(), hash);
}

/// Calls `visit(path, value)` for every leaf; the visitor may change it.
template <typename Visit>
void for_each_leaf(Json& json, const std::string& path, const Visit& visit) {
  if (json.is_object() && !json.members().empty()) {
    for (auto& [key, value] : json.mutable_members()) {
      for_each_leaf(value, path + "." + key, visit);
    }
  } else if (json.is_array() && !json.items().empty()) {
    for (std::size_t i = 0; i < json.items().size(); ++i) {
      for_each_leaf(json.mutable_items()[i], path + "[" + std::to_string(i) + "]", visit);
    }
  } else {
    visit(path, json);
  }
}

/// Another value of the same type.
Json changed(const Json& value) {
  if (value.is_bool()) {
    return !*value.to_bool();
  }
  if (value.is_integer()) {
    return *value.to_int64() + 1;
  }
  if (value.is_number()) {
    return *value.to_double() * 0.5 + 0.015625;
  }
  return value.is_string() ? Json(*value.to_string() + "x") : Json("x");
}

TEST(RuntimePlanTest, AChangeOfAnyOtherMemberIsNoticed) {
  const Json whole = full_plan().to_json();
  std::vector<std::string> paths;
  for (const auto& [key, value] : whole.members()) {
    if (std::ranges::find(kNotHashed, key) == kNotHashed.end()) {
      Json copy = value;
      for_each_leaf(copy, key, [&](const std::string& path, const Json&) { paths.push_back(path); });
    }
  }
  ASSERT_GT(paths.size(), 60U);
  for (const auto& wanted : paths) {
    Json edited = whole;
    for (auto& [key, value] : edited.mutable_members()) {
      for_each_leaf(value, key, [&](const std::string& path, Json& leaf) {
        if (path == wanted) {
          leaf = changed(leaf);
        }
      });
    }
    EXPECT_FALSE(RuntimePlan::from_json(edited).ok()) << wanted;
  }
}

TEST(RuntimePlanTest, DamagedDocumentsAreRefused) {
  const Json whole = full_plan().to_json();
  for (const auto& [key, value] : whole.members()) {
    if (std::ranges::find(kNotHashed, key) == kNotHashed.end() || key == "hash" || key == "made_for") {
      Json without = whole;
      without.erase(key);
      EXPECT_FALSE(RuntimePlan::from_json(without).ok()) << key;
    }
  }
  Json later = whole;
  later["format_version"] = 2;
  EXPECT_THAT(RuntimePlan::from_json(later), is_error(Code::artifact_version));
  Json unknown = whole;
  unknown["added_later"] = Json::object({{"x", 1}});
  EXPECT_THAT(RuntimePlan::from_json(unknown), is_ok());
  Json edited = whole;
  edited.find("schedule")->operator[]("max_steps") = 21;
  EXPECT_THAT(RuntimePlan::from_json(edited), is_error(Code::plan_invalid));
}

TEST(RuntimePlanTest, CountsThatCannotBeRunAreRefusedWhateverTheHash) {
  const auto refused = [](const std::function<void(RuntimePlan&)>& change) {
    RuntimePlan plan = full_plan();
    change(plan);
    return RuntimePlan::from_json(plan.to_json());  // with a hash that fits
  };
  EXPECT_THAT(refused([](RuntimePlan&) {}), is_ok());
  EXPECT_THAT(refused([](RuntimePlan& plan) { plan.batch.per_rank = 0; }), is_error(Code::plan_invalid));
  EXPECT_THAT(refused([](RuntimePlan& plan) {
                plan.batch.per_rank = 1U << 16;
                plan.batch.accumulation = 1U << 16;
              }),
              is_error(Code::plan_invalid));
  EXPECT_THAT(refused([](RuntimePlan& plan) { plan.data.steps_per_epoch = 0; }), is_error(Code::plan_invalid));
  EXPECT_THAT(refused([](RuntimePlan& plan) { plan.schedule.evaluation_batch = 0; }), is_error(Code::plan_invalid));
}

// --- learning rate, against the closed forms ---

constexpr double kPeak = 2e-3;

double rate(const char* type, std::uint64_t warmup, double min_ratio, std::uint64_t max_steps, std::uint64_t step) {
  return learning_rate({.type = type, .peak = kPeak, .warmup_steps = warmup, .min_ratio = min_ratio}, max_steps, Step{step});
}

TEST(LearningRateTest, WarmUpIsLinearFromTheFirstStep) {
  for (const char* type : {"constant", "linear", "cosine"}) {
    for (std::uint64_t step = 1; step <= 10; ++step) {
      EXPECT_DOUBLE_EQ(rate(type, 10, 0.1, 100, step), kPeak * static_cast<double>(step) / 10.0) << type << step;
    }
  }
}

TEST(LearningRateTest, ConstantStaysAtItsPeak) {
  for (const std::uint64_t step : {1U, 50U, 100U, 1000U}) {
    EXPECT_DOUBLE_EQ(rate("constant", 0, 0.5, 100, step), kPeak);
  }
}

TEST(LearningRateTest, LinearAndCosineFollowTheirForms) {
  for (const double min_ratio : {0.0, 0.1, 1.0}) {
    for (std::uint64_t step = 11; step <= 100; ++step) {
      const double progress = static_cast<double>(step - 10) / 90.0;
      EXPECT_NEAR(rate("linear", 10, min_ratio, 100, step), kPeak * (1.0 - (1.0 - min_ratio) * progress), 1e-17);
      EXPECT_NEAR(rate("cosine", 10, min_ratio, 100, step),
                  kPeak * (min_ratio + (1.0 - min_ratio) * (1.0 + std::cos(std::numbers::pi * progress)) / 2.0), 1e-17);
    }
  }
  EXPECT_NEAR(rate("cosine", 0, 0.0, 100, 50), kPeak / 2.0, 1e-17);
}

TEST(LearningRateTest, TheLastStepHasTheSmallestRateAndNoneIsBelow) {
  for (const char* type : {"linear", "cosine"}) {
    EXPECT_NEAR(rate(type, 10, 0.25, 100, 100), kPeak * 0.25, 1e-17) << type;
    EXPECT_NEAR(rate(type, 10, 0.25, 100, 150), kPeak * 0.25, 1e-17) << type;
    for (std::uint64_t step = 11; step < 100; ++step) {
      EXPECT_GT(rate(type, 10, 0.25, 100, step), rate(type, 10, 0.25, 100, step + 1)) << type << step;
    }
  }
}

TEST(LearningRateTest, ARunOfNothingButWarmUpIsFinite) {
  EXPECT_DOUBLE_EQ(rate("cosine", 10, 0.0, 10, 10), kPeak);
  EXPECT_DOUBLE_EQ(rate("cosine", 10, 0.0, 5, 11), kPeak);
  EXPECT_DOUBLE_EQ(rate("linear", 0, 0.0, 1, 1), 0.0);
}

}  // namespace
}  // namespace parascale::plan
