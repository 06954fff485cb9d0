#include "parascale_torch/engine/worker.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <thread>

#include "tests/support/matchers.h"

namespace parascale::native {
namespace {

using parascale::testing::is_ok;
using protocol::Channel;
using protocol::Frame;
using protocol::Region;

Json plan() {
  return Json::object({{"model", Json::object({{"model_type", "vit"},
                                               {"image_size", 8},
                                               {"patch_size", 4},
                                               {"num_channels", 1},
                                               {"hidden_size", 32},
                                               {"num_hidden_layers", 2},
                                               {"num_attention_heads", 4},
                                               {"intermediate_size", 48},
                                               {"num_labels", 5}})},
                       {"optimizer", Json::object({{"type", "adamw"}, {"weight_decay", 0.1}})},
                       {"training", Json::object({{"label_smoothing", 0.1}, {"grad_clip_norm", 1.0}})},
                       {"threads", Json::object({{"intra_op", 1}})}});
}

/// The agent's side of one rank whose worker runs in a thread of the test.
class Rank {
 public:
  Rank() {
    auto ends = protocol::make_socket_pair();
    channel_ = Channel(std::move(ends->first));
    worker_ =
        std::jthread([this, end = std::move(ends->second)]() mutable { exit_code_ = Worker(Channel(std::move(end)), 0).run(); });
    layout_ = *protocol::make_slot_layout({{.name = "pixel_values", .dtype = Dtype::f32, .sample_shape = {1, 8, 8}},
                                           {.name = "labels", .dtype = Dtype::i64, .sample_shape = {}}},
                                          3, 8);
    results_layout_ = protocol::make_results_layout(3, 8, 5);
    batches_ = std::move(Region::make("batches", layout_.region_bytes())).value();
    pulse_ = std::move(Region::make("pulse", protocol::kPulseBytes)).value();
    results_ = std::move(Region::make("results", results_layout_.region_bytes())).value();
  }
  ~Rank() { channel_.close(); }

  Channel& channel() { return channel_; }
  const Region& results() const { return results_; }
  const protocol::ResultsLayout& results_layout() const { return results_layout_; }
  protocol::Pulse pulse() const { return protocol::read_pulse(pulse_.bytes()); }

  /// A worker may end while messages are still on their way; what it says last is seen by `expect`.
  void send(const Json& message) { (void)channel_.send(message); }
  void send_region(const std::string& name, const Region& region, Json layout = {}) {
    ASSERT_THAT(channel_.send(Json::object({{"type", "region"},
                                            {"name", name},
                                            {"bytes", region.size()},
                                            {"layout", std::move(layout)},
                                            {"descriptors", 1}}),
                              {region.fd()}),
                is_ok());
  }
  Json expect(const std::string& type) {
    auto frame = channel_.receive();
    EXPECT_THAT(frame, is_ok());
    if (!frame.ok() || !frame->has_value()) {
      ADD_FAILURE() << "the worker closed the socket instead of sending `" << type << "`";
      return {};
    }
    EXPECT_EQ((*frame)->type(), type) << (*frame)->message.dump();
    return (*frame)->message;
  }
  int exit_code() {
    worker_.join();
    return exit_code_;
  }

  Json start() {
    expect("hello");
    send(Json::object({{"type", "hello"}, {"protocol", "1.7"}, {"role", "agent"}}));
    send_region("batches", batches_, layout_.to_json());
    send_region("pulse", pulse_);
    send_region("results", results_, results_layout_.to_json());
    send(Json::object({{"type", "init"}, {"plan", plan()}, {"plan_hash", "00"}, {"seed", "42"}}));
    return expect("ready");
  }

  void fill(std::uint32_t slot, std::uint32_t valid, float shift = 0.0F, std::int64_t label_shift = 0) {
    protocol::SlotWriter writer(layout_, batches_.bytes(), slot);
    writer.begin(0, Step{1}, 0, 8);
    for (std::uint32_t row = 0; row < valid; ++row) {
      const auto pixels = writer.row(0, row);
      for (std::size_t i = 0; i < 64; ++i) {
        const float value = shift + static_cast<float>((row * 13 + i * 7) % 11) / 11.0F;
        std::memcpy(pixels.data() + i * sizeof value, &value, sizeof value);
      }
      const std::int64_t label = static_cast<std::int64_t>(row % 5) + label_shift;
      std::memcpy(writer.row(1, row).data(), &label, sizeof label);
      writer.set_id(row, SampleId{1000 + row});
    }
    writer.finish(valid);
  }

  void send_step(std::uint64_t t, std::vector<std::uint32_t> slots, double planned, bool audit = false) {
    send(Json::object({{"type", "step"},
                       {"t", t},
                       {"lr", 1e-3},
                       {"micros", slots.size()},
                       {"planned", Json::object({{"loss", planned}})},
                       {"policy", Json::object({{"nonfinite", "stop"}})},
                       {"flags", Json::object({{"audit", audit}, {"profile", false}})}}));
    std::uint32_t k = 0;
    for (const auto slot : slots) {
      send(Json::object({{"type", "micro"}, {"t", t}, {"k", k++}, {"slot", slot}}));
    }
    send(Json::object({{"type", "finish"}, {"t", t}, {"denominators", Json::object({{"loss", planned}})}}));
  }

  /// Sends the arena that holds the whole state and returns the assignment.
  Json share_arena(const Json& ready) {
    Json assign = Json::array();
    std::uint64_t offset = 0;
    for (const auto& tensor : ready.find("state")->items()) {
      std::uint64_t bytes = 4;
      for (const auto& size : tensor.find("global_shape")->items()) {
        bytes *= *size.to_uint64();
      }
      assign.push_back(Json::object({{"name", *tensor.find("name")}, {"slice", nullptr}, {"offset", offset}, {"bytes", bytes}}));
      offset += bytes;
    }
    arena_ = std::move(Region::make("snapshot", offset)).value();
    arena_bytes_ = offset;
    send_region("snapshot", arena_);
    return assign;
  }
  std::string snapshot(const Json& assign, std::uint64_t t) {
    send(Json::object({{"type", "snapshot"}, {"t", t}, {"mode", "arena"}, {"assign", assign}}));
    const Json ready = expect("snapshot_ready");
    EXPECT_EQ(ready.find("pieces")->items().size(), assign.items().size());
    const void* raw = arena_.bytes().data();
    return std::string(static_cast<const char*>(raw), arena_bytes_);
  }

 private:
  Channel channel_{UniqueFd()};
  int exit_code_ = -1;
  protocol::SlotLayout layout_;
  protocol::ResultsLayout results_layout_;
  Region batches_, pulse_, results_, arena_;
  std::uint64_t arena_bytes_ = 0;
  std::jthread worker_;
};

TEST(Worker, lives_a_normal_life) {
  Rank rank;
  const Json ready = rank.start();
  const auto& state = ready.find("state")->items();
  // 2 layers of 16 saved tensors and 8 outside them, twice more as moments, and the step counter
  EXPECT_EQ(state.size(), 3U * (2 * 16 + 8) + 1);
  rank.fill(0, 8);
  rank.fill(1, 3);
  rank.send_step(1, {0, 1}, 11, true);
  EXPECT_EQ(rank.expect("release").find("slot")->to_int64(), 0);
  EXPECT_EQ(rank.expect("release").find("slot")->to_int64(), 1);
  const Json done = rank.expect("step_done");
  const Json& loss = done.find("terms")->items()[0];
  EXPECT_EQ(loss.find("weight")->to_double(), 11.0);
  EXPECT_NEAR(*loss.find("sum")->to_double() / 11.0, std::log(5.0), 0.2);
  EXPECT_FALSE(done.contains("audit"));
  EXPECT_GT(*done.find("times")->find("backward")->to_int64(), 0);
  EXPECT_EQ(rank.pulse().samples_done, 11U);

  rank.send(Json::object({{"type", "eval"}, {"id", 4}, {"weights", "live"}, {"slot", 1}, {"last", true}}));
  const Json eval = rank.expect("eval_done");
  EXPECT_EQ(eval.find("id")->to_int64(), 4);
  EXPECT_EQ(eval.find("rows")->to_int64(), 3);
  EXPECT_EQ(eval.find("sums")->find("top5")->to_double(), 3.0);
  rank.expect("release");
  auto view = protocol::read_results(rank.results_layout(), rank.results().bytes(), 1);
  ASSERT_THAT(view, is_ok());
  EXPECT_THAT(view->ids, ::testing::ElementsAre(1000U, 1001U, 1002U));
  const std::vector<float> evaluated(view->values.begin(), view->values.end());

  rank.send(Json::object({{"type", "infer"}, {"id", "q1"}, {"slot", 1}}));
  EXPECT_EQ(rank.expect("result").get<std::string>("id").value_or(""), "q1");
  rank.expect("release");
  EXPECT_THAT(std::vector<float>(view->values.begin(), view->values.end()), ::testing::ElementsAreArray(evaluated));

  rank.send(Json::object({{"type", "a_request_of_version_1_9"}, {"id", 77}}));
  EXPECT_EQ(rank.expect("unsupported").find("id")->to_int64(), 77);
  rank.send(Json::object({{"type", "a_notification_of_version_1_9"}}));
  rank.send(Json::object({{"type", "probe"}, {"shape", Json::array({8})}}));
  rank.expect("unsupported");
  rank.send(Json::object({{"type", "stop"}, {"reason", "done"}}));
  EXPECT_EQ(rank.expect("bye").find("summary")->find("steps")->to_int64(), 1);
  EXPECT_EQ(rank.exit_code(), Worker::kDone);
}

TEST(Worker, resumes_bit_for_bit_from_a_snapshot) {
  Rank rank;
  const Json assign = rank.share_arena(rank.start());
  rank.fill(0, 8);
  rank.fill(1, 8, 0.5F);
  const auto step = [](Rank& r, std::uint64_t t) {
    r.send_step(t, {0, 1}, 16);
    r.expect("release");
    r.expect("release");
    return r.expect("step_done").find("terms")->dump();
  };
  step(rank, 1);
  step(rank, 2);
  const std::string middle = rank.snapshot(assign, 2);
  const std::string straight = step(rank, 3);
  const std::string end = rank.snapshot(assign, 3);
  EXPECT_NE(middle, end);

  const std::string path = ::testing::TempDir() + "/worker_test_state.bin";
  std::ofstream(path, std::ios::binary) << middle;
  Rank resumed;
  const Json again = resumed.share_arena(resumed.start());
  resumed.fill(0, 8);
  resumed.fill(1, 8, 0.5F);
  Json tensors = Json::array();
  for (const auto& entry : assign.items()) {
    tensors.push_back(Json::object(
        {{"name", *entry.find("name")}, {"file", path}, {"offset", *entry.find("offset")}, {"bytes", *entry.find("bytes")}}));
  }
  resumed.send(Json::object({{"type", "load"}, {"tensors", tensors}, {"strict", true}}));
  const Json loaded = resumed.expect("loaded");
  for (const char* list : {"missing", "unexpected", "mismatched"}) {
    EXPECT_TRUE(loaded.find(list)->items().empty()) << list;
  }
  EXPECT_EQ(resumed.snapshot(again, 2), middle);
  EXPECT_EQ(step(resumed, 3), straight);
  EXPECT_EQ(resumed.snapshot(again, 3), end);
}

TEST(Worker, reports_tensors_that_do_not_fit) {
  Rank rank;
  const Json ready = rank.start();
  const Json& first = *ready.find("state")->items()[0].find("name");
  rank.send(Json::object(
      {{"type", "load"},
       {"tensors", Json::array({Json::object({{"name", first}, {"file", "/nowhere"}, {"offset", 0}, {"bytes", 1}}),
                                Json::object({{"name", "stranger"}, {"file", "/nowhere"}, {"offset", 0}, {"bytes", 4}})})},
       {"strict", true}}));
  const Json loaded = rank.expect("loaded");
  EXPECT_EQ(loaded.find("mismatched")->items(), Json::Array{first});
  EXPECT_EQ(loaded.find("unexpected")->items(), Json::Array{Json("stranger")});
  EXPECT_EQ(loaded.find("missing")->items().size(), ready.find("state")->items().size() - 1);
}

TEST(Worker, sees_new_bytes_in_a_slot_that_is_rewritten) {
  Rank rank;
  rank.start();
  const auto loss = [&] {
    rank.send(Json::object({{"type", "eval"}, {"id", 1}, {"slot", 0}}));
    const double sum = *rank.expect("eval_done").find("sums")->find("loss")->to_double();
    rank.expect("release");
    return sum;
  };
  rank.fill(0, 8);
  const double before = loss();
  EXPECT_EQ(loss(), before);
  rank.fill(0, 8, 3.0F);
  EXPECT_NE(loss(), before);
}

TEST(Worker, ends_with_an_error_frame) {
  struct Case {
    const char* error_class;
    std::function<void(Rank&)> provoke;
  };
  const std::vector<Case> cases = {
      {"nan",
       [](Rank& r) {
         r.fill(0, 8, std::numeric_limits<float>::infinity());
         r.send_step(1, {0}, 8);
       }},
      {"data",
       [](Rank& r) {
         r.fill(0, 8, 0.0F, 3);
         r.send_step(1, {0}, 8);
       }},
      {"internal",
       [](Rank& r) {
         r.fill(0, 8);
         r.send_step(1, {9}, 8);
       }},
      {"internal", [](Rank& r) { r.send(Json::object({{"type", "finish"}, {"t", 1}})); }},
      {"internal", [](Rank& r) { r.send(Json::object({{"type", "step"}, {"t", "one"}})); }},
      {"internal",
       [](Rank& r) {
         r.send(Json::object({{"type", "snapshot"},
                              {"t", 1},
                              {"assign", Json::array({Json::object({{"name", "classifier.bias"}, {"offset", 0}})})}}));
       }},
      {"internal", [](Rank& r) { r.send(Json::object({{"type", "region"}, {"name", "batches"}, {"bytes", 4096}})); }},
  };
  for (const auto& item : cases) {
    Rank rank;
    rank.start();
    item.provoke(rank);
    const Json error = rank.expect("error");
    EXPECT_EQ(error.get<std::string>("class").value_or(""), item.error_class) << error.dump();
    EXPECT_NE(error.get<std::string>("message").value_or(""), "");
    EXPECT_EQ(rank.exit_code(), Worker::kFailed);
  }
}

TEST(Worker, refuses_another_major_version) {
  Rank rank;
  rank.expect("hello");
  rank.send(Json::object({{"type", "hello"}, {"protocol", "2.0"}}));
  EXPECT_THAT(rank.expect("error").get<std::string>("message").value_or(""), ::testing::HasSubstr("2.0"));
  EXPECT_EQ(rank.exit_code(), Worker::kVersionMismatch);
}

TEST(Worker, ends_quietly_when_the_agent_is_gone) {
  Rank rank;
  rank.start();
  rank.channel().close();
  EXPECT_EQ(rank.exit_code(), Worker::kDone);
}

}  // namespace
}  // namespace parascale::native
