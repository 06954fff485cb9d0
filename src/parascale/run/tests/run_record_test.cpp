#include "parascale/run/run_record.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>

#include "tests/support/matchers.h"

namespace parascale::run {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;
using parascale::testing::is_ok_and_holds;
using ::testing::HasSubstr;

MetricsRecord train_record(std::uint64_t step, std::uint32_t attempt = 1) {
  return {.kind = MetricsKind::train,
          .step = Step{step},
          .attempt = attempt,
          .epoch = 0.016,
          .samples = step * 64,
          .lr = 1.5e-3,
          .loss = 2.25,
          .grad_norm = 0.5,
          .replaced = 1,
          .batch_hash = 0x0123456789abcdefULL,
          .batch_size = 64,
          .gradient_accumulation_steps = 1,
          .terms = {{"loss", 144.0, 64.0}},
          .timing = {.step_time_seconds = 0.0125, .dataloader_wait_ms = 0.25},
          .memory = {.peak_memory_bytes = 1U << 20},
          .rates = {.images_per_second = 5120.0}};
}

std::string write_temp(const std::string& name, const std::string& content) {
  const std::string path = ::testing::TempDir() + "run_record_" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(MetricsRecordTest, LineIsStable) {
  EXPECT_EQ(
      train_record(3).to_line(),
      R"({"kind":"train","step":3,"attempt":1,"epoch":0.016,"samples":192,"lr":0.0015,"loss":2.25,"grad_norm":0.5,"skipped":false,)"
      R"("replaced":1,"left_out":0,"batch_hash":"0123456789abcdef","batch_size":64,"gradient_accumulation_steps":1,)"
      R"("terms":{"loss":{"sum":144.0,"weight":64.0}},"timing":{"step_time_seconds":0.0125,"dataloader_wait_ms":0.25},)"
      R"("memory":{"peak_memory_bytes":1048576},"rates":{"images_per_second":5120.0}})");
}

TEST(MetricsRecordTest, ReadsBackWhatItWrote) {
  const MetricsRecord record = train_record(7, 2);
  EXPECT_THAT(MetricsRecord::parse(record.to_line()), is_ok_and_holds(record));
  MetricsRecord eval;
  eval.kind = MetricsKind::eval;
  eval.terms = {{"top1", 971.0, 1000.0}, {"odd \"name\"\n", 1.0, 0.0}};
  eval.left_out = 3;
  EXPECT_THAT(MetricsRecord::parse(eval.to_line()), is_ok_and_holds(eval));
  EXPECT_DOUBLE_EQ(eval.term("top1")->mean(), 0.971);
  EXPECT_TRUE(std::isnan(eval.terms[1].mean()));
  EXPECT_EQ(eval.term("top5"), nullptr);
}

TEST(MetricsRecordTest, NonFiniteIsNullAndReadsAsNan) {
  MetricsRecord record = train_record(1);
  record.loss = std::numeric_limits<double>::infinity();
  record.grad_norm.reset();
  EXPECT_THAT(record.to_line(), HasSubstr("\"loss\":null,\"skipped\""));
  const auto read = MetricsRecord::parse(record.to_line());
  ASSERT_THAT(read, is_ok());
  EXPECT_TRUE(std::isnan(read->loss.value()));
  EXPECT_FALSE(read->grad_norm.has_value());
}

TEST(MetricsRecordTest, IgnoresUnknownMembersAndRefusesWrongOnes) {
  EXPECT_THAT(MetricsRecord::parse(R"({"kind":"train","step":1,"attempt":1,"later":{"x":1}})"), is_ok());
  for (const char* line :
       {R"({"kind":"test","step":1,"attempt":1})", R"({"kind":"train","attempt":1})", R"({"kind":"train","step":-1,"attempt":1})",
        R"({"kind":"train","step":1,"attempt":1,"loss":"low"})", R"({"kind":"train","step":1,"attempt":1,"batch_hash":"xyz"})",
        R"({"kind":"train","step":1,"attempt":1,"terms":{"loss":{"sum":1}}})", "[]", "7", "{"}) {
    EXPECT_THAT(MetricsRecord::parse(line), is_error(Code::json_invalid)) << line;
  }
}

TEST(MetricsRecordTest, ComparableLeavesOutWhatDependsOnTheMachine) {
  MetricsRecord other = train_record(3, 2);
  other.timing = {.step_time_seconds = 9.0};
  other.memory = {};
  other.rates = {.tokens_per_second = 1.0};
  EXPECT_EQ(comparable(train_record(3).to_line()).value(), comparable(other.to_line()).value());
  other.loss = 2.2500000000000004;
  EXPECT_NE(comparable(train_record(3).to_line()).value(), comparable(other.to_line()).value());
  EXPECT_THAT(comparable("[1]"), is_error(Code::json_invalid));
}

TEST(MetricsRecordTest, DerivesRatesWithAndWithoutWait) {
  MetricsRecord record = train_record(1);
  record.timing = {.step_time_seconds = 0.04, .dataloader_wait_ms = 10.0};
  derive_rates(record);
  EXPECT_DOUBLE_EQ(record.rates.images_per_second.value(), 1600.0);
  EXPECT_DOUBLE_EQ(record.rates.end_to_end_images_per_second.value(), 1280.0);
  MetricsRecord untimed = train_record(1);
  untimed.timing = {};
  untimed.rates = {};
  derive_rates(untimed);
  EXPECT_EQ(untimed.rates, StepRates{});
}

TEST(EventRecordTest, LineIsStableAndReadsBack) {
  const EventRecord event{.name = "checkpoint_committed",
                          .monotonic_ns = 123'000'000'000,
                          .wall_ns = 1'790'000'000'000'000'001,
                          .attempt = 2,
                          .rank = Rank{0},
                          .step = Step{250},
                          .details = Json::object({{"path", Json("checkpoints/step-00000250")}})};
  EXPECT_EQ(event.to_line(),
            R"({"event":"checkpoint_committed","attempt":2,"wall":"2026-09-21T14:13:20.000Z","wall_ns":1790000000000000001,)"
            R"("monotonic_ns":123000000000,"step":250,"rank":0,"details":{"path":"checkpoints/step-00000250"}})");
  EXPECT_THAT(EventRecord::parse(event.to_line()), is_ok_and_holds(event));
  EXPECT_THAT(EventRecord::parse(R"({"attempt":1})"), is_error(Code::json_invalid));
}

TEST(ReadRecordsTest, DropsACutLastLineAndCountsIt) {
  const std::string full = train_record(1).to_line() + "\n" + train_record(2).to_line() + "\n";
  const std::string cut = train_record(3).to_line();
  for (std::size_t length = 1; length < cut.size(); ++length) {
    const auto read = read_metrics(real_file_system(), write_temp("cut", full + cut.substr(0, length)));
    ASSERT_THAT(read, is_ok()) << length;
    EXPECT_EQ(read->records.size(), 2U) << length;
    EXPECT_EQ(read->cut_lines, 1U) << length;
  }
  const auto whole = read_metrics(real_file_system(), write_temp("cut", full + cut));  // only the line feed is missing
  ASSERT_THAT(whole, is_ok());
  EXPECT_EQ(whole->records.size(), 3U);
  EXPECT_EQ(whole->cut_lines, 0U);
}

TEST(ReadRecordsTest, DropsZeroBytesThatAPowerLossLeft) {
  const auto read =
      read_metrics(real_file_system(), write_temp("zeros", train_record(1).to_line() + "\n" + std::string(300, '\0')));
  ASSERT_THAT(read, is_ok());
  EXPECT_EQ(read->records.size(), 1U);
  EXPECT_EQ(read->cut_lines, 1U);
}

TEST(ReadRecordsTest, DropsACutLineBeforeALaterAttempt) {
  const std::string cut = train_record(2).to_line().substr(0, 50);
  const auto read = read_metrics(real_file_system(), write_temp("resumed", train_record(1).to_line() + "\n" + cut + "\n" +
                                                                               train_record(2, 2).to_line() + "\n"));
  ASSERT_THAT(read, is_ok());
  EXPECT_EQ(read->records.size(), 2U);
  EXPECT_EQ(read->cut_lines, 1U);
}

TEST(ReadRecordsTest, RefusesOtherRubbishWithTheLineNumber) {
  const std::string good = train_record(1).to_line() + "\n";
  const std::string path = write_temp("rubbish", good + "hello\n" + train_record(2).to_line() + "\n");
  const auto read = read_metrics(real_file_system(), path);
  ASSERT_THAT(read, is_error(Code::json_invalid));
  EXPECT_THAT(render(read.error()), HasSubstr(path + ":2"));
  // The same attempt goes on after a broken line: no crash explains that.
  EXPECT_THAT(read_metrics(real_file_system(), write_temp("rubbish", good + good.substr(0, 40) + "\n" + good)),
              is_error(Code::json_invalid));
  EXPECT_THAT(read_metrics(real_file_system(), write_temp("rubbish", good + R"({"kind":"other"})")),
              is_error(Code::json_invalid));
  EXPECT_THAT(read_metrics(real_file_system(), ::testing::TempDir() + "no_such_file"), is_error(Code::io_failed));
}

TEST(ReadRecordsTest, EventsOfAnUnknownMajorVersionAreRefused) {
  const auto started = [](const char* version) {
    return EventRecord{.name = "started", .details = Json::object({{"format_version", Json(version)}})}.to_line() + "\n";
  };
  EXPECT_THAT(read_events(real_file_system(), write_temp("events", started("1.7"))), is_ok());
  EXPECT_THAT(read_events(real_file_system(), write_temp("events", started("2.0"))), is_error(Code::artifact_version));
}

TEST(ReadRecordsTest, SeparatorKeepsACutLineApart) {
  EXPECT_THAT(append_separator(real_file_system(), ::testing::TempDir() + "no_such_file"), is_ok_and_holds(""));
  EXPECT_THAT(append_separator(real_file_system(), write_temp("separator", "")), is_ok_and_holds(""));
  EXPECT_THAT(append_separator(real_file_system(), write_temp("separator", "{}\n")), is_ok_and_holds(""));
  EXPECT_THAT(append_separator(real_file_system(), write_temp("separator", "{}\n{\"ki")), is_ok_and_holds("\n"));
}

TEST(EffectiveMetricsTest, LastLineOfEachStepCounts) {
  MetricsRecord eval = train_record(2);
  eval.kind = MetricsKind::eval;
  const std::vector<MetricsRecord> records = {train_record(1), train_record(2),    eval,
                                              train_record(3), train_record(2, 2), train_record(3, 2)};
  const auto effective = effective_metrics(records);
  ASSERT_EQ(effective.size(), 4U);
  EXPECT_EQ(effective[0], train_record(1));
  EXPECT_EQ(effective[1], train_record(2, 2));
  EXPECT_EQ(effective[2], eval);
  EXPECT_EQ(effective[3], train_record(3, 2));
}

TEST(PercentilesTest, NearestRankOfTheSortedFiniteValues) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) {
    values.push_back(i);
  }
  values.push_back(std::numeric_limits<double>::quiet_NaN());
  const Percentiles result = percentiles_of(values);
  EXPECT_EQ(result.count, 100U);
  EXPECT_EQ(result.min, 1.0);
  EXPECT_EQ(result.p50, 50.0);
  EXPECT_EQ(result.p90, 90.0);
  EXPECT_EQ(result.p99, 99.0);
  EXPECT_EQ(result.max, 100.0);
  EXPECT_DOUBLE_EQ(result.mean, 50.5);
  EXPECT_EQ(percentiles_of({}).count, 0U);
  const std::vector<double> one = {4.0};
  EXPECT_EQ(percentiles_of(one).p99, 4.0);
}

}  // namespace
}  // namespace parascale::run
