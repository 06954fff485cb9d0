#include "parascale/run/schedule.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "tests/support/matchers.h"

namespace parascale::run {
namespace {

using Kind = WorkItem::Kind;

/// A plan with the members that the schedule reads.
plan::RuntimePlan make_plan(std::uint64_t samples, std::uint32_t per_rank, std::uint32_t accumulation, bool drop_last) {
  plan::RuntimePlan plan;
  plan.batch.per_rank = per_rank;
  plan.batch.accumulation = accumulation;
  plan.data.train_samples = samples;
  plan.data.drop_last = drop_last;
  const std::uint64_t global = per_rank * accumulation;
  plan.data.steps_per_epoch = drop_last ? samples / global : (samples + global - 1) / global;
  plan.schedule.evaluation_batch = per_rank;
  return plan;
}

std::vector<WorkItem> all_items(WorkSequence sequence) {
  std::vector<WorkItem> items;
  while (auto item = sequence.next()) {
    items.push_back(*item);
    if (items.size() > 100'000) {
      ADD_FAILURE() << "the sequence does not end";
      break;
    }
  }
  return items;
}

std::string shown(const plan::RuntimePlan& plan) {
  return "samples " + std::to_string(plan.data.train_samples) + ", per rank " + std::to_string(plan.batch.per_rank) +
         ", accumulation " + std::to_string(plan.batch.accumulation) + (plan.data.drop_last ? ", drop last" : "");
}

/// Every shape of an epoch: whole and ragged, smaller than a micro-step, many micro-steps.
template <typename Visit>
void for_each_shape(const Visit& visit) {
  for (const std::uint64_t samples : {1U, 2U, 5U, 7U, 8U, 9U, 16U, 23U, 24U, 25U, 64U, 101U}) {
    for (const std::uint32_t per_rank : {1U, 2U, 3U, 8U}) {
      for (const std::uint32_t accumulation : {1U, 2U, 3U, 5U}) {
        for (const bool drop_last : {false, true}) {
          const auto plan = make_plan(samples, per_rank, accumulation, drop_last);
          if (plan.data.steps_per_epoch > 0) {
            SCOPED_TRACE(shown(plan));
            visit(plan);
          }
        }
      }
    }
  }
}

TEST(ScheduleTest, EveryEpochPresentsEverySampleExactlyOnce) {
  for_each_shape([](plan::RuntimePlan plan) {
    constexpr std::uint64_t kEpochs = 3;
    plan.schedule.max_steps = kEpochs * plan.data.steps_per_epoch;
    std::map<std::uint64_t, std::vector<int>> seen;
    for (const auto& item : all_items(WorkSequence(plan, Step{0}, false))) {
      ASSERT_EQ(item.kind, Kind::train);
      auto& epoch = seen.try_emplace(item.epoch, plan.data.train_samples).first->second;
      for (std::uint64_t i = item.first; i < item.first + item.count; ++i) {
        ++epoch.at(i);
      }
    }
    const std::uint64_t global = plan.batch.global(1);
    const std::uint64_t used = plan.data.drop_last ? plan.data.train_samples / global * global : plan.data.train_samples;
    ASSERT_EQ(seen.size(), kEpochs);
    for (const auto& [epoch, counts] : seen) {
      EXPECT_THAT(std::vector<int>(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(used)), ::testing::Each(1))
          << epoch;
      EXPECT_THAT(std::vector<int>(counts.begin() + static_cast<std::ptrdiff_t>(used), counts.end()), ::testing::Each(0))
          << epoch;
    }
  });
}

TEST(ScheduleTest, StepsAreContiguousAndWithinTheirBounds) {
  for_each_shape([](plan::RuntimePlan plan) {
    plan.schedule.max_steps = 2 * plan.data.steps_per_epoch + 1;
    Step step{0};
    std::uint32_t micro_step = 0;
    bool last = true;
    std::uint64_t samples = 0;
    for (const auto& item : all_items(WorkSequence(plan, Step{0}, false))) {
      if (last) {
        EXPECT_EQ(samples, samples_after(plan, step));
        ++step;
        micro_step = 0;
      }
      EXPECT_EQ(item.step, step);
      EXPECT_EQ(item.micro_step, micro_step++);
      EXPECT_GT(item.count, 0U);
      EXPECT_LE(item.count, plan.batch.per_rank);
      samples += item.count;
      last = item.last;
      EXPECT_EQ(item.last, item.micro_step + 1 == samples_of(plan, step).micro_steps);
    }
    EXPECT_TRUE(last);
    EXPECT_EQ(step.value, plan.schedule.max_steps);
    EXPECT_EQ(samples, samples_after(plan, step));
  });
}

TEST(ScheduleTest, WhatFollowsAStepDoesNotDependOnWhereTheRunStarted) {
  for_each_shape([](plan::RuntimePlan plan) {
    plan.schedule.max_steps = plan.data.steps_per_epoch + 2;
    plan.data.validation_samples = 3;
    plan.schedule.evaluation_interval = 2;
    const auto whole = all_items(WorkSequence(plan, Step{0}, false));
    for (std::uint64_t start = 0; start <= plan.schedule.max_steps; ++start) {
      const auto rest = all_items(WorkSequence(plan, Step{start}, false));
      std::vector<WorkItem> expected;
      std::ranges::copy_if(whole, std::back_inserter(expected), [&](const WorkItem& item) { return item.step.value > start; });
      ASSERT_EQ(rest.size(), expected.size()) << start;
      for (std::size_t i = 0; i < rest.size(); ++i) {
        EXPECT_EQ(rest[i].step, expected[i].step);
        EXPECT_EQ(rest[i].first, expected[i].first);
        EXPECT_EQ(rest[i].count, expected[i].count);
        EXPECT_EQ(rest[i].kind, expected[i].kind);
      }
    }
  });
}

TEST(ScheduleTest, EvaluationsFollowTheirSteps) {
  for (const std::uint64_t validation : {1U, 7U, 8U, 9U, 30U}) {
    auto plan = make_plan(50, 4, 2, false);
    plan.schedule.max_steps = 10;
    plan.schedule.evaluation_interval = 4;
    plan.schedule.evaluation_batch = 8;
    plan.data.validation_samples = validation;
    std::vector<std::uint64_t> evaluated;
    std::vector<int> seen;
    Step trained{0};
    for (const auto& item : all_items(WorkSequence(plan, Step{0}, false))) {
      if (item.kind == Kind::train) {
        trained = item.step;
        continue;
      }
      EXPECT_EQ(item.step, trained);  // of the weights after this step, before the next one
      if (item.micro_step == 0) {
        evaluated.push_back(item.step.value);
        seen.assign(validation, 0);
      }
      for (std::uint64_t i = item.first; i < item.first + item.count; ++i) {
        ++seen.at(i);
      }
      if (item.last) {
        EXPECT_THAT(seen, ::testing::Each(1)) << item.step.value;
      }
    }
    EXPECT_THAT(evaluated, ::testing::ElementsAre(4U, 8U, 10U)) << validation;
  }
}

TEST(ScheduleTest, AnEvaluationAtTheEndIsNotDoubled) {
  auto plan = make_plan(50, 4, 2, false);
  plan.data.validation_samples = 3;
  plan.schedule.max_steps = 8;
  plan.schedule.evaluation_interval = 4;
  const auto items = all_items(WorkSequence(plan, Step{0}, false));
  EXPECT_EQ(std::ranges::count(items, Kind::evaluate, &WorkItem::kind), 2);
  EXPECT_EQ(items.back().kind, Kind::evaluate);
  plan.schedule.evaluation_interval = 0;  // only at the end
  EXPECT_EQ(std::ranges::count(all_items(WorkSequence(plan, Step{0}, false)), Kind::evaluate, &WorkItem::kind), 1);
  plan.data.validation_samples = 0;
  EXPECT_EQ(std::ranges::count(all_items(WorkSequence(plan, Step{0}, false)), Kind::evaluate, &WorkItem::kind), 0);
}

TEST(ScheduleTest, AnOwedEvaluationComesFirst) {
  auto plan = make_plan(50, 4, 2, false);
  plan.data.validation_samples = 9;
  plan.schedule.max_steps = 6;
  plan.schedule.evaluation_interval = 4;
  plan.schedule.evaluation_batch = 4;
  const auto items = all_items(WorkSequence(plan, Step{4}, true));
  ASSERT_GT(items.size(), 4U);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(items[i].kind, Kind::evaluate);
    EXPECT_EQ(items[i].step, Step{4});
    EXPECT_EQ(items[i].micro_step, i);
  }
  EXPECT_EQ(items[2].count, 1U);
  EXPECT_EQ(items[3].kind, Kind::train);
  EXPECT_EQ(items[3].step, Step{5});
  // At the end only the evaluation is left.
  EXPECT_EQ(all_items(WorkSequence(plan, Step{6}, true)).size(), 3U);
  EXPECT_TRUE(all_items(WorkSequence(plan, Step{6}, false)).empty());
}

TEST(ScheduleTest, StopAfterAtEveryPointEndsWithWholeSteps) {
  auto plan = make_plan(30, 4, 2, false);
  plan.data.validation_samples = 9;
  plan.schedule.max_steps = 9;
  plan.schedule.evaluation_interval = 3;
  const auto whole = all_items(WorkSequence(plan, Step{0}, false));
  for (std::size_t taken = 0; taken <= whole.size(); ++taken) {
    for (std::uint64_t stop = 0; stop <= plan.schedule.max_steps + 1; ++stop) {
      WorkSequence sequence(plan, Step{0}, false);
      for (std::size_t i = 0; i < taken; ++i) {
        ASSERT_TRUE(sequence.next().has_value());
      }
      sequence.stop_after(Step{stop});
      EXPECT_EQ(sequence.last_step().value, std::min(stop, plan.schedule.max_steps));
      std::size_t count = taken;
      while (auto item = sequence.next()) {
        EXPECT_LE(item->step.value, stop);
        EXPECT_EQ(item->step, whole.at(count).step);
        EXPECT_EQ(item->first, whole.at(count).first);
        ++count;
      }
      // Everything up to the stop step, its evaluation included, and nothing of later steps that had not been taken.
      const auto until =
          static_cast<std::size_t>(std::ranges::count_if(whole, [&](const WorkItem& item) { return item.step.value <= stop; }));
      EXPECT_EQ(count, std::max(taken, until)) << "taken " << taken << " stop " << stop;
    }
  }
}

TEST(ScheduleTest, ASecondStopCannotPutOffTheFirst) {
  auto plan = make_plan(30, 4, 2, false);
  plan.schedule.max_steps = 9;
  WorkSequence sequence(plan, Step{0}, false);
  sequence.stop_after(Step{2});
  sequence.stop_after(Step{5});
  EXPECT_EQ(sequence.last_step(), Step{2});
}

TEST(ScheduleTest, CommitsAtTheIntervalAndAtTheEnd) {
  auto plan = make_plan(30, 4, 2, false);
  plan.schedule.max_steps = 10;
  plan.checkpoint.interval_steps = 4;
  std::vector<std::uint64_t> committed;
  for (std::uint64_t step = 0; step <= 10; ++step) {
    if (commits_after(plan, Step{step})) {
      committed.push_back(step);
    }
  }
  EXPECT_THAT(committed, ::testing::ElementsAre(4U, 8U, 10U));
  plan.checkpoint.interval_steps = 0;
  EXPECT_FALSE(commits_after(plan, Step{4}));
  EXPECT_TRUE(commits_after(plan, Step{10}));
}

TEST(ScheduleTest, EpochsAreCountedInFractions) {
  const auto plan = make_plan(30, 4, 2, false);  // 4 steps, the last one of 6 samples
  EXPECT_DOUBLE_EQ(epochs_after(plan, Step{0}), 0.0);
  EXPECT_DOUBLE_EQ(epochs_after(plan, Step{6}), 1.5);
  EXPECT_EQ(samples_after(plan, Step{4}), 30U);
  EXPECT_EQ(samples_after(plan, Step{5}), 38U);
  EXPECT_EQ(samples_of(plan, Step{4}).count, 6U);
  EXPECT_EQ(samples_of(plan, Step{4}).micro_steps, 2U);
  EXPECT_EQ(samples_of(plan, Step{5}).epoch, 1U);
  EXPECT_EQ(samples_of(plan, Step{5}).first, 0U);
}

}  // namespace
}  // namespace parascale::run
