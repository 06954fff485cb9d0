// The engine as the agent sees it: a real socket pair and a real shared ring, the engine in a thread of this process.
#include "parascale/data/engine.h"

#include <gmock/gmock.h>

#include <csignal>
#include <optional>
#include <thread>
#include <vector>

#include "parascale/data/options.h"
#include "parascale/data/tests/samples.h"
#include "parascale/protocol/messages.h"
#include "parascale/protocol/region.h"
#include "parascale/protocol/slot.h"
#include "tests/support/matchers.h"

namespace parascale::data {
namespace {

using namespace testing;  // NOLINT: builders of archives
using parascale::testing::is_error;
using parascale::testing::is_ok;
using ::testing::HasSubstr;

class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto ends = protocol::make_socket_pair().value();
    agent_.emplace(std::move(ends.first));
    engine_ = std::jthread([this, socket = std::move(ends.second)]() mutable {
      outcome_ = run_engine(protocol::Channel(std::move(socket)), real_file_system());
    });
  }
  void TearDown() override {
    agent_->close();
    engine_ = {};  // joins
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
  }

  Json receive() {
    auto frame = agent_->receive();
    EXPECT_THAT(frame, is_ok());
    return frame.ok() && *frame ? std::move((*frame)->message) : Json::object({{"type", "closed"}});
  }
  Json receive(std::string_view type) {
    Json message = receive();
    while (message.get<std::string>("type").value() == "progress") {
      message = receive();
    }
    EXPECT_EQ(message.get<std::string>("type").value(), type) << message.dump();
    return message;
  }
  void greet(const std::string& version = std::string(protocol::kProtocolVersion)) {
    const Json hello = receive("hello");
    EXPECT_EQ(hello.get<std::string>("role").value(), "engine");
    EXPECT_EQ(hello.get<std::int64_t>("pid").value(), getpid());
    EXPECT_EQ(hello.get<std::string>("protocol").value(), protocol::kProtocolVersion);
    ASSERT_THAT(agent_->send(Json::object({{"type", "hello"}, {"protocol", version}, {"role", "agent"}})), is_ok());
  }
  static DataOptions synthetic() {
    DataOptions options;
    options.type = DatasetType::synthetic;
    options.synthetic.samples = 640;
    options.recipe.size = 4;
    options.threads = 2;
    return options;
  }
  void open(const DataOptions& options, Json splits, std::uint32_t slots = 4, std::uint32_t capacity = 8) {
    const std::uint64_t side = options.recipe.size;
    layout_ = protocol::make_slot_layout(
                  {{.name = "pixel_values", .dtype = Dtype::f32, .sample_shape = {options.recipe.channels, side, side}},
                   {.name = "labels", .dtype = Dtype::i64, .sample_shape = {}}},
                  slots, capacity)
                  .value();
    region_ = protocol::Region::make("batches", layout_.region_bytes()).value();
    ASSERT_THAT(agent_->send(Json::object({{"type", "open"},
                                           {"options", options.to_json()},
                                           {"layout", layout_.to_json()},
                                           {"splits", std::move(splits)},
                                           {"descriptors", 1}}),
                             {region_.fd()}),
                is_ok());
  }
  void fill(std::uint32_t slot, std::string split, std::uint64_t first, std::uint32_t count) {
    ASSERT_THAT(agent_->send(protocol::Fill{
                    .slot = slot, .split = std::move(split), .step = Step{first + 1}, .first = first, .count = count}
                                 .to_json()),
                is_ok());
  }

  std::optional<protocol::Channel> agent_;
  protocol::SlotLayout layout_;
  protocol::Region region_;
  Status outcome_;
  std::jthread engine_;
};

TEST_F(EngineTest, lives_from_hello_to_bye) {
  greet();
  open(synthetic(), Json::array({"train"}));
  const Json opened = receive("opened");
  const auto summary = DatasetSummary::from_json(opened.find("splits")->get<Json>("train").value());
  ASSERT_THAT(summary, is_ok());
  EXPECT_EQ(summary->samples, 640U);
  EXPECT_EQ(summary->fingerprint.size(), 32U);
  for (std::uint32_t slot = 0; slot < 4; ++slot) {
    fill(slot, "train", slot * 8, 8);
  }
  for (std::uint32_t slot = 0; slot < 4; ++slot) {
    const Json message = receive("filled");
    const auto filled = protocol::Filled::from_json(message);
    ASSERT_THAT(filled, is_ok());
    EXPECT_EQ(filled->slot, slot);
    EXPECT_EQ(filled->step, Step{slot * 8 + 1});
    EXPECT_EQ(filled->valid, 8U);
    EXPECT_EQ(filled->split, "train");
    EXPECT_GT(filled->times_ns.at("total"), 0);
    EXPECT_GT(filled->cpu_ns, 0);
    const auto view = protocol::read_slot(region_.bytes().subspan(slot * layout_.slot_bytes, layout_.slot_bytes));
    ASSERT_THAT(view, is_ok());
    EXPECT_EQ(fmt::format("{:016x}", view->header.content_hash), filled->batch_hash);
  }
  ASSERT_THAT(agent_->send(Json::object({{"type", "stop"}, {"reason", "done"}})), is_ok());
  const Json bye = receive("bye");
  EXPECT_EQ(bye.get<std::uint64_t>("slots").value(), 4U);
  EXPECT_EQ(bye.get<std::uint64_t>("reads").value(), 32U);
  EXPECT_GT(bye.get<double>("cpu_seconds").value(), 0.0);
  engine_ = {};
  EXPECT_THAT(outcome_, is_ok());
}

TEST_F(EngineTest, reads_shards_and_reports_failures) {
  const TemporaryFolder folder("engine-shards");
  folder.write("v.tar", make_shard(0, 20, [](std::uint32_t id) { return id == 3 ? Damage::zero_bytes : Damage::none; }));
  DataOptions options;
  options.validation = {folder.path("v.tar")};
  options.recipe.size = 8;
  greet();
  open(options, Json::array({"validation"}));
  receive("opened");
  fill(0, "validation", 0, 8);
  const auto filled = protocol::Filled::from_json(receive("filled")).value();
  EXPECT_EQ(filled.valid, 7U);
  ASSERT_EQ(filled.failures.size(), 1U);
  EXPECT_EQ(filled.failures[0].id, SampleId{3});
  EXPECT_EQ(filled.failures[0].reason, "not a png");
  EXPECT_GT(filled.times_ns.at("decode"), 0);
}

TEST_F(EngineTest, ends_quietly_when_the_agent_is_gone) {
  greet();
  agent_->close();
  engine_ = {};
  EXPECT_THAT(outcome_, is_ok());
}

TEST_F(EngineTest, refuses_another_major_version) {
  greet("99.0");
  const Json error = receive("error");
  EXPECT_EQ(error.get<std::string>("class").value(), "version");
  EXPECT_EQ(error.get<std::string>("code").value(), "PS411");
  engine_ = {};
  EXPECT_THAT(outcome_, is_error(Code::version_mismatch));
}

TEST_F(EngineTest, reports_missing_data_before_it_ends) {
  DataOptions options;
  options.train = {"/nowhere/train-*.tar"};
  greet();
  open(options, Json::array({"train"}));
  const Json error = receive("error");
  EXPECT_EQ(error.get<std::string>("code").value(), "PS201");
  EXPECT_THAT(error.get<std::string>("message").value(), HasSubstr("/nowhere/train-*.tar"));
  EXPECT_EQ(receive().get<std::string>("type").value(), "closed");
  engine_ = {};
  EXPECT_THAT(outcome_, is_error(Code::data_not_found));
}

TEST_F(EngineTest, refuses_messages_out_of_turn) {
  greet();
  fill(0, "train", 0, 8);
  EXPECT_EQ(receive("error").get<std::string>("code").value(), "PS407");
}

TEST_F(EngineTest, refuses_a_ring_smaller_than_its_layout) {
  greet();
  const auto layout =
      protocol::make_slot_layout({{.name = "pixel_values", .dtype = Dtype::f32, .sample_shape = {1, 4, 4}}}, 64, 64).value();
  region_ = protocol::Region::make("batches", 4096).value();
  ASSERT_THAT(agent_->send(Json::object({{"type", "open"},
                                         {"options", synthetic().to_json()},
                                         {"layout", layout.to_json()},
                                         {"splits", Json::array({"train"})},
                                         {"descriptors", 1}}),
                           {region_.fd()}),
              is_ok());
  EXPECT_EQ(receive("error").get<std::string>("code").value(), "PS407");
}

TEST_F(EngineTest, answers_unknown_requests_and_ignores_unknown_notifications) {
  greet();
  ASSERT_THAT(agent_->send(Json::object({{"type", "weather"}})), is_ok());
  ASSERT_THAT(agent_->send(Json::object({{"type", "weather"}, {"id", 7}})), is_ok());
  EXPECT_EQ(receive("unsupported").get<std::int64_t>("id").value(), 7);
}

}  // namespace
}  // namespace parascale::data
