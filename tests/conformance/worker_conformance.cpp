// Every worker passes this suite, whatever language it is written in: worker_conformance --worker=PATH [gtest options]

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>

#include "parascale/base/file_system.h"
#include "rank_harness.h"

namespace parascale::conformance {
namespace {

double member(const Json& json, std::string_view outer, std::string_view inner) {
  const Json* object = json.find(outer);
  const Json* value = object != nullptr ? object->find(inner) : nullptr;
  return value != nullptr ? value->to_double().value_or(NAN) : NAN;
}

TEST(WorkerConformance, NormalLife) {
  RankHarness rank;
  rank.make_ready();
  double first_loss = NAN;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const auto done = protocol::StepDone::from_json(rank.run_step(step));
    ASSERT_TRUE(done.ok()) << render(done.error());
    EXPECT_EQ(done->step.value, step);
    ASSERT_FALSE(done->terms.empty());
    EXPECT_EQ(done->terms.front().name, "loss");
    EXPECT_EQ(done->terms.front().weight, 8.0);
    EXPECT_TRUE(std::isfinite(done->grad_norm));
    first_loss = step == 1 ? done->terms.front().sum : first_loss;
  }
  EXPECT_TRUE(std::isfinite(first_loss));
  const auto pulse = protocol::read_pulse(rank.pulse.bytes());
  EXPECT_EQ(pulse.step, 3U);
  EXPECT_EQ(pulse.samples_done, 24U);
  rank.send(Json::object({{"type", "stop"}, {"reason", "test"}, {"deadline", 5}}));
  (void)rank.expect("bye");
  EXPECT_TRUE(rank.expect_exit().clean());
}

TEST(WorkerConformance, InventoryNamesEveryTensorOnceWithItsMoments) {
  RankHarness rank;
  rank.make_ready();
  std::size_t params = 0;
  std::size_t moments = 0;
  for (const auto& entry : rank.inventory) {
    params += entry.kind == "param" ? 1U : 0U;
    moments += entry.kind == "moment" ? 1U : 0U;
    EXPECT_TRUE(tensor_bytes(entry.dtype, entry.global_shape).has_value()) << entry.name;
  }
  EXPECT_GT(params, 0U);
  EXPECT_GE(moments, params);  // SnapshotPlan::make refuses a name that stands twice
  rank.share_arena();
}

TEST(WorkerConformance, SameSeedSameWeights) {
  RankHarness a;
  RankHarness b;
  RankHarness c;
  a.make_ready(7);
  b.make_ready(7);
  c.make_ready(8);
  const auto state = a.snapshot(0);
  EXPECT_EQ(state, b.snapshot(0));
  EXPECT_NE(state, c.snapshot(0));
}

TEST(WorkerConformance, ResumeIsBitEqual) {
  RankHarness straight;
  straight.make_ready();
  straight.run_step(1);
  straight.run_step(2);
  const auto middle = straight.snapshot(2);
  const Json done = straight.run_step(3);
  const auto end = straight.snapshot(3);

  RankHarness resumed;
  resumed.make_ready();
  const Json loaded = resumed.load(middle, ::testing::TempDir());
  EXPECT_EQ(loaded.find("missing")->items().size(), 0U) << loaded.dump();
  EXPECT_EQ(loaded.find("mismatched")->items().size(), 0U) << loaded.dump();
  EXPECT_EQ(resumed.snapshot(2), middle);
  const Json again = resumed.run_step(3);
  EXPECT_EQ(done.find("terms")->dump(), again.find("terms")->dump());
  EXPECT_EQ(done.find("grad_norm")->dump(), again.find("grad_norm")->dump());
  EXPECT_EQ(resumed.snapshot(3), end);
}

TEST(WorkerConformance, LoadNamesWhatIsMissingOrDiffers) {
  RankHarness rank;
  rank.make_ready();
  auto state = rank.snapshot(0);
  const std::string missing = state.begin()->first;
  state.erase(missing);
  const std::string cut = state.begin()->first;
  state.begin()->second.pop_back();
  const Json loaded = rank.load(state, ::testing::TempDir());
  EXPECT_THAT(loaded.find("missing")->dump(), ::testing::HasSubstr(missing));
  EXPECT_THAT(loaded.find("mismatched")->dump(), ::testing::HasSubstr(cut));
}

TEST(WorkerConformance, EvaluationIgnoresPaddingAndLeavesTrainingAlone) {
  RankHarness rank;
  rank.make_ready();
  rank.run_step(1);
  const auto before = rank.snapshot(1);
  rank.fill(2, 99, 4, 3);
  const Json done = rank.evaluate(2);
  EXPECT_EQ(member(done, "weights", "loss"), 3.0);
  EXPECT_EQ(member(done, "weights", "top1"), 3.0);
  EXPECT_TRUE(std::isfinite(member(done, "sums", "loss")));
  const auto view = protocol::read_results(rank.results_layout, rank.results.bytes(), 2);
  ASSERT_TRUE(view.ok()) << render(view.error());
  EXPECT_THAT(view->ids, ::testing::ElementsAre(9900, 9901, 9902));
  EXPECT_EQ(rank.snapshot(1), before);
}

TEST(WorkerConformance, SnapshotWhileSteppingHoldsExactlyItsStep) {
  RankHarness patient;
  patient.make_ready();
  patient.run_step(1);
  const auto expected = patient.snapshot(1);

  RankHarness hasty;
  hasty.make_ready();
  hasty.share_arena();
  hasty.send_step(1);
  hasty.send(hasty.snapshot_plan->message(Step{1}));
  (void)hasty.expect("step_done");
  (void)hasty.expect("snapshot_ready");
  const auto got = hasty.read_arena();
  hasty.send_step(2);  // goes on without waiting for a commit
  (void)hasty.expect("step_done");
  EXPECT_EQ(got, expected);
  EXPECT_EQ(hasty.read_arena(), expected);  // a step does not touch the arena
}

TEST(WorkerConformance, DiesWithItsAgent) {
  RankHarness rank;
  rank.make_ready();
  rank.channel.close();
  (void)rank.expect_exit(std::chrono::seconds(5));
}

TEST(WorkerConformance, IgnoresTerminationSignals) {
  RankHarness rank;
  rank.make_ready();
  rank.process.send_signal(SIGTERM);
  rank.process.send_signal(SIGINT);
  EXPECT_EQ(rank.run_step(1).find("t")->to_uint64(), 1U);
}

TEST(WorkerConformance, PulseTellsWhereARankWaits) {
  RankHarness rank;
  rank.make_ready();
  rank.send(Json::object({{"type", "step"},
                          {"t", 1},
                          {"lr", 0.01},
                          {"micros", 2},
                          {"planned", Json::object({{"loss", 8}})},
                          {"policy", Json::object({{"nonfinite", "stop"}})},
                          {"flags", Json::object({{"audit", false}, {"profile", false}})}}));
  protocol::Pulse pulse;
  for (int i = 0; i < 500 && pulse.phase != protocol::Phase::wait_data; ++i) {
    usleep(10'000);
    pulse = protocol::read_pulse(rank.pulse.bytes());
  }
  EXPECT_EQ(pulse.phase, protocol::Phase::wait_data);
  EXPECT_EQ(pulse.step, 1U);
  EXPECT_GT(pulse.changed_ns, 0);
}

TEST(WorkerConformance, RefusesAForeignMajorVersion) {
  RankHarness rank("9.0");
  const Json error = rank.expect("error");
  EXPECT_NE(error.find("message"), nullptr);
  EXPECT_EQ(rank.expect_exit().code, 3);
}

TEST(WorkerConformance, SeesASlotThatIsRewrittenAfterMapping) {
  RankHarness rank;
  rank.make_ready();
  rank.fill(0, 1);
  (void)rank.evaluate(0);
  const auto first = rank.logits(0);
  rank.fill(0, 2);
  (void)rank.evaluate(0);
  const auto second = rank.logits(0);
  rank.fill(0, 1);
  (void)rank.evaluate(0);
  EXPECT_NE(first, second);
  EXPECT_EQ(rank.logits(0), first);
}

TEST(WorkerConformance, AnswersUnknownRequestsAndIgnoresNotifications) {
  RankHarness rank;
  rank.make_ready();
  rank.send(Json::object({{"type", "never_heard_of"}}));
  rank.send(Json::object({{"type", "never_heard_of"}, {"id", 17}}));
  EXPECT_EQ(rank.expect("unsupported").find("id")->to_uint64(), 17U);
  EXPECT_EQ(rank.run_step(1).find("t")->to_uint64(), 1U);
}

TEST(WorkerConformance, RefusesASlotOutsideTheRing) {
  RankHarness rank;
  rank.make_ready();
  rank.send(Json::object({{"type", "eval"}, {"id", 0}, {"weights", "live"}, {"slot", 1000}, {"last", true}}));
  (void)rank.expect("error");
  EXPECT_FALSE(rank.expect_exit().clean());
}

TEST(WorkerConformance, RefusesASnapshotOutsideTheArena) {
  RankHarness rank;
  rank.make_ready();
  rank.share_arena();
  const std::string name = rank.inventory.front().name;
  rank.send(Json::object(
      {{"type", "snapshot"},
       {"t", 0},
       {"mode", "arena"},
       {"assign", Json::array({Json::object({{"name", name}, {"slice", Json()}, {"offset", rank.arena.size() - 1}})})}}));
  (void)rank.expect("error");
  EXPECT_FALSE(rank.expect_exit().clean());
}

}  // namespace
}  // namespace parascale::conformance

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("--worker=")) {
      parascale::conformance::worker_program = argument.substr(9);
    }
  }
  if (parascale::conformance::worker_program.empty()) {
    std::fprintf(stderr, "usage: worker_conformance --worker=PATH\n");
    return 2;
  }
  return RUN_ALL_TESTS();
}
