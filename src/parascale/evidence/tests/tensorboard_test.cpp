#include "parascale/evidence/tensorboard.h"

#include <cstring>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "parascale/base/hash.h"
#include "parascale/evidence/crc32c.h"

namespace parascale::evidence {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    out += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return out;
}

// Bytes that the protobuf classes and the RecordWriter of tensorboard 2.21.0 write for the same three events.
TEST(TensorBoardFileTest, BytesEqualThoseOfTheReferenceWriter) {
  TensorBoardFile file(1.5);
  const std::vector<TensorBoardScalar> scalars = {{"train/loss", 0.5F}, {"train/lr", 0.0015F}};
  file.add(2.25, 300, scalars);
  file.add_text(3.0, 0, "run/labels", "FAKE WORKER");
  EXPECT_EQ(
      hex(file.bytes()),
      "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c3200000000000000241956ec0900000000000002"
      "4010ac022a240a110a0a747261696e2f6c6f7373150000003f0a0f0a08747261696e2f6c7215a69bc43a06d27d483a000000000000001295eae20900"
      "000000000008402a2f0a2d0a0a72756e2f6c6162656c7342150807120412020801420b46414b4520574f524b45524a080a060a0474657874150715d6");
}

TEST(TensorBoardFileTest, EveryRecordCarriesValidChecksums) {
  TensorBoardFile file(1.0);
  for (std::uint64_t step = 1; step <= 300; ++step) {
    const std::vector<TensorBoardScalar> scalars = {{"x", static_cast<float>(step)}};
    file.add(1.0, step, scalars);
  }
  std::string_view rest = file.bytes();
  std::size_t records = 0;
  while (!rest.empty()) {
    std::uint64_t length = 0;
    std::uint32_t length_crc = 0, payload_crc = 0;
    ASSERT_GE(rest.size(), 16U);
    std::memcpy(&length, rest.data(), 8);
    std::memcpy(&length_crc, rest.data() + 8, 4);
    ASSERT_GE(rest.size(), 16 + length);
    std::memcpy(&payload_crc, rest.data() + 12 + length, 4);
    EXPECT_EQ(length_crc, masked_crc32c(as_bytes(rest.substr(0, 8))));
    EXPECT_EQ(payload_crc, masked_crc32c(as_bytes(rest.substr(12, length))));
    rest.remove_prefix(16 + length);
    ++records;
  }
  EXPECT_EQ(records, 301U);
}

run::EventRecord start(std::string_view host) {
  return {.name = "started", .wall_ns = 1'796'083'405'000'000'000, .details = Json::object({{"host", Json(host)}})};
}

TEST(TensorBoardTest, FileNameIsStableAndSafe) {
  const std::vector<run::EventRecord> events = {start("../node a")};
  EXPECT_EQ(tensorboard_file_name(events), "events.out.tfevents.1796083405.___node_a");
  EXPECT_EQ(tensorboard_file_name({}), "events.out.tfevents.0000000000.localhost");
}

TEST(TensorBoardTest, LabelsBecomePartOfEveryTag) {
  run::MetricsRecord record;
  record.step = Step{1};
  record.loss = 1.0;
  const std::vector<run::EventRecord> events = {start("a")};
  const std::vector<run::MetricsRecord> metrics = {record};
  EXPECT_THAT(tensorboard_bytes(metrics, events), HasSubstr("train/loss"));
  const std::vector<std::string> labels = {"FAKE WORKER", "SYNTHETIC DATA"};
  const std::string labelled = tensorboard_bytes(metrics, events, labels);
  EXPECT_THAT(labelled, HasSubstr("fake_worker_synthetic_data/train/loss"));
  EXPECT_THAT(labelled, HasSubstr("FAKE WORKER, SYNTHETIC DATA"));
  EXPECT_THAT(tensorboard_bytes(metrics, events), Not(HasSubstr("fake")));
}

}  // namespace
}  // namespace parascale::evidence
