#include "parascale/protocol/messages.h"

#include <cmath>
#include <limits>

#include "parascale/protocol/frame.h"
#include "tests/support/matchers.h"

namespace parascale::protocol {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;

/// Writes, parses as a peer would, reads, and writes again: both texts must be equal.
template <typename Message>
void expect_round_trip(const Message& message) {
  const std::string text = message.to_json().dump();
  const auto parsed = parse_json(text, "message");
  ASSERT_THAT(parsed, is_ok());
  const auto read = Message::from_json(*parsed);
  ASSERT_THAT(read, is_ok()) << text;
  EXPECT_EQ(read->to_json().dump(), text);
}

TEST(MessagesTest, EveryMessageReadsBack) {
  expect_round_trip(
      Hello{.protocol = "1.0", .role = "cpp", .pid = 7, .torch = "2.13.0", .capabilities = Json::object({{"amp", true}})});
  expect_round_trip(StateEntry{.name = "vit.layernorm.weight",
                               .kind = "param",
                               .dtype = Dtype::bf16,
                               .global_shape = {3, 4},
                               .trainable = true,
                               .group = "no_decay",
                               .alias_of = "other"});
  expect_round_trip(StateEntry{.name = "step", .kind = "moment", .dtype = Dtype::i64});
  expect_round_trip(StepDone{.step = Step{3},
                             .terms = {{"loss", 144.0, 64.0}},
                             .grad_norm = 0.1,
                             .skipped = true,
                             .times_ns = {{"forward", 12}, {"wait", 0}},
                             .rss_bytes = 5,
                             .peak_bytes = 6,
                             .no_grad = {"a", "b"}});
  expect_round_trip(Fill{.slot = 1,
                         .split = "train",
                         .step = Step{1ULL << 40},
                         .micro_step = 2,
                         .rank = Rank{1},
                         .epoch = 3,
                         .first = 1ULL << 50,
                         .count = 9});
  expect_round_trip(Filled{.slot = 1,
                           .split = "train",
                           .step = Step{2},
                           .micro_step = 3,
                           .valid = 4,
                           .replaced = 2,
                           .failures = {{.id = SampleId{7}, .reason = "truncated", .replacement = SampleId{8}},
                                        {.id = SampleId{9}, .reason = "no bytes"}},
                           .times_ns = {{"decode", 5}},
                           .batch_hash = "00ff",
                           .cpu_ns = 11});
  expect_round_trip(WorkerError{
      .error_class = "nan", .phase = "backward", .step = 5, .micro_step = 1, .message = "loss is nan", .stack = "a\nb"});
}

TEST(MessagesTest, UnknownMembersAreIgnored) {
  Json json = Fill{.split = "train", .count = 1}.to_json();
  json["later"] = Json::object({{"x", 1}});
  EXPECT_THAT(Fill::from_json(json), is_ok());
}

TEST(MessagesTest, MissingAndWrongMembersAreErrors) {
  for (const char* member : {"slot", "split", "first", "count"}) {
    Json json = Fill{.split = "train", .count = 1}.to_json();
    json[member] = Json::array();
    EXPECT_THAT(Fill::from_json(json), is_error(Code::json_invalid)) << member;
    json.erase(member);
    EXPECT_THAT(Fill::from_json(json), is_error(Code::json_invalid)) << member;
  }
  Json entry = StateEntry{.name = "w", .kind = "param", .global_shape = {2}}.to_json();
  entry["dtype"] = "F17";
  EXPECT_THAT(StateEntry::from_json(entry), is_error(Code::protocol_violation));
  entry["dtype"] = "F32";
  entry["global_shape"] = Json::array({"2"});
  EXPECT_THAT(StateEntry::from_json(entry), is_error(Code::protocol_violation));
  Json done = StepDone{.step = Step{1}}.to_json();
  done["times"] = Json::object({{"forward", "fast"}});
  EXPECT_THAT(StepDone::from_json(done), is_error(Code::protocol_violation));
  done = StepDone{.step = Step{1}, .terms = {{"loss", 1.0, 1.0}}}.to_json();
  done.find("terms")->mutable_items()[0].erase("weight");
  EXPECT_THAT(StepDone::from_json(done), is_error(Code::json_invalid));
}

TEST(MessagesTest, AStepThatIsNotFiniteCanBeReported) {
  // Policy `skip` goes on after such a step, so its numbers must arrive.
  const StepDone done{.step = Step{1},
                      .terms = {{"loss", std::numeric_limits<double>::infinity(), 64.0}},
                      .grad_norm = std::nan(""),
                      .skipped = true};
  const auto read = StepDone::from_json(parse_json(done.to_json().dump(), "message").value());
  ASSERT_THAT(read, is_ok());
  EXPECT_TRUE(std::isnan(read->terms.at(0).sum));
  EXPECT_EQ(read->terms.at(0).weight, 64.0);
  EXPECT_TRUE(std::isnan(read->grad_norm));
}

TEST(MessagesTest, TimesMayCarryTheirUnit) {
  Json done = StepDone{.step = Step{1}}.to_json();
  done["times"] = Json::object({{"forward_ns", 12}});
  EXPECT_EQ(StepDone::from_json(done).value().times_ns.at("forward"), 12);
}

TEST(MessagesTest, OnlyTheMajorVersionMustAgree) {
  EXPECT_THAT(check_version({.protocol = "1.0"}), is_ok());
  EXPECT_THAT(check_version({.protocol = "1.99"}), is_ok());
  for (const char* version : {"2.0", "0.9", "", "one", "10.0"}) {
    EXPECT_THAT(check_version({.protocol = version}), is_error(Code::version_mismatch)) << version;
  }
}

TEST(MessagesTest, ARegionAnnouncesOneDescriptor) {
  EXPECT_EQ(region_message("batches", 4096, Json::object({{"slot_count", 1}})).dump(),
            R"({"type":"region","name":"batches","bytes":4096,"layout":{"slot_count":1},"descriptors":1})");
}

TEST(DtypeTest, NamesReadBackAndSizesAreExact) {
  for (std::uint32_t i = 0; i <= static_cast<std::uint32_t>(Dtype::f6_e3m2); ++i) {
    const auto dtype = static_cast<Dtype>(i);
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(dtype_from_name("f32"), std::nullopt);
  const auto bytes = [](Dtype dtype, std::vector<std::uint64_t> shape) { return tensor_bytes(dtype, shape); };
  EXPECT_EQ(bytes(Dtype::f32, {}), 4U);
  EXPECT_EQ(bytes(Dtype::f32, {2, 3}), 24U);
  EXPECT_EQ(bytes(Dtype::f32, {3, 0}), 0U);
  EXPECT_EQ(bytes(Dtype::f32, {UINT64_MAX, 0}), std::nullopt);  // a size that no tensor has is none beside a zero either
  EXPECT_EQ(bytes(Dtype::f4, {3}), std::nullopt);               // one and a half bytes
  EXPECT_EQ(bytes(Dtype::f4, {4}), 2U);
  EXPECT_EQ(bytes(Dtype::u8, {1ULL << 60}), 1ULL << 60);
  EXPECT_EQ(bytes(Dtype::u8, {1ULL << 61}), std::nullopt);
  EXPECT_EQ(bytes(Dtype::u8, {1ULL << 32, 1ULL << 32}), std::nullopt);
}

}  // namespace
}  // namespace parascale::protocol
