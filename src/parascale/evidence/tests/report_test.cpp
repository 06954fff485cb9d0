#include "parascale/evidence/report.h"

#include <fstream>
#include <sstream>

#include <fmt/core.h>

#include "parascale/evidence/evidence.h"
#include "parascale/evidence/html.h"
#include "tests/support/matchers.h"

namespace parascale::evidence {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;
using ::testing::HasSubstr;

class FixedClock final : public Clock {
 public:
  std::int64_t monotonic_ns() const override { return 0; }
  std::int64_t wall_ns() const override { return 1'796'083'405'000'000'000; }
};

/// Writes the records of a run of two attempts: 40 steps straight, killed; resumed from step 16, then to 60.
class RunDirectory {
 public:
  explicit RunDirectory(const std::string& name) : path_(::testing::TempDir() + "evidence_" + name) {
    EXPECT_THAT(remove_tree(real_file_system(), path_), is_ok());
    EXPECT_THAT(make_directories(real_file_system(), path_), is_ok());
  }
  const std::string& path() const { return path_; }

  void event(std::string name, std::uint32_t attempt, Json details, std::optional<Step> step = {}) {
    const run::EventRecord record{.name = std::move(name),
                                  .wall_ns = 1'796'000'000'000'000'000 + attempt,
                                  .attempt = attempt,
                                  .step = step,
                                  .details = std::move(details)};
    append("events.jsonl", record.to_line() + "\n");
  }
  void start(std::uint32_t attempt, std::string_view run_name, Json more = Json::object()) {
    Json details =
        Json::object({{"format_version", "1.0"}, {"version", "0.3.0"}, {"host", "node-a"}, {"run", run_name}, {"mode", "train"}});
    for (const auto& [key, value] : more.members()) {
      details[key] = value;
    }
    event("started", attempt, std::move(details));
  }
  void train(std::uint64_t step, std::uint32_t attempt, double step_seconds) {
    run::MetricsRecord record{
        .step = Step{step},
        .attempt = attempt,
        .epoch = static_cast<double>(step) / 10.0,
        .samples = step * 32,
        .lr = 0.001,
        .loss = 3.0 / static_cast<double>(step),
        .grad_norm = 1.0,
        .replaced = step == 20 ? 1U : 0U,
        .batch_size = 32,
        .terms = {{"loss", 96.0 / static_cast<double>(step), 32.0}},
        .timing = {.step_time_seconds = step_seconds, .dataloader_wait_ms = 1.0, .elapsed_seconds = static_cast<double>(step)},
        .memory = {.peak_memory_bytes = 1000 + step}};
    run::derive_rates(record);
    append("metrics.jsonl", record.to_line() + "\n");
  }
  void evaluate(std::uint64_t step, std::uint32_t attempt, double top1) {
    const run::MetricsRecord record{
        .kind = run::MetricsKind::eval,
        .step = Step{step},
        .attempt = attempt,
        .loss = 1.0 - top1,
        .left_out = 1,
        .terms = {{"loss", 99.0 * (1.0 - top1), 99.0}, {"top1", 99.0 * top1, 99.0}, {"top5", 99.0, 99.0}}};
    append("metrics.jsonl", record.to_line() + "\n");
  }
  void append(const std::string& name, const std::string& text) {
    std::ofstream(join_path(path_, name), std::ios::app | std::ios::binary) << text;
  }
  std::string read(const std::string& name) const { return read_file(real_file_system(), join_path(path_, name)).value(); }

 private:
  std::string path_;
};

Json sample(std::uint64_t id, std::uint64_t replacement) {
  return Json::object({{"split", "train"}, {"id", id}, {"reason", "png: truncated"}, {"replacement", replacement}});
}

void write_two_attempts(RunDirectory& run, std::string_view name = "two-attempts") {
  run.start(1, name);
  for (std::uint64_t step = 1; step <= 40; ++step) {
    run.train(step, 1, 0.010);
  }
  run.event("sample_failed", 1, sample(7, 70), Step{20});
  run.evaluate(20, 1, 0.5);
  run.event("eval", 1, Json::object({{"metric", "top1"}}), Step{20});
  run.event("checkpoint_committed", 1,
            Json::object({{"path", "checkpoints/step-00000016"}, {"bytes", 100}, {"reason", "interval"}}), Step{16});
  run.event("checkpoint_committed", 1, Json::object({{"path", "checkpoints/step-00000020"}, {"best", true}}), Step{20});
  run.append("metrics.jsonl", R"({"kind":"train","step":41,"att)");  // killed here
  run.append("metrics.jsonl", "\n");
  run.start(2, name, Json::object({{"resumed_from", Json::object({{"step", 16}})}}));
  for (std::uint64_t step = 17; step <= 60; ++step) {
    run.train(step, 2, 0.020);
  }
  run.event("sample_failed", 2, sample(7, 70), Step{20});
  run.event("sample_failed", 2, sample(7, 71), Step{50});
  run.event("sample_failed", 2, sample(9, 90), Step{51});
  run.evaluate(20, 2, 0.5);
  run.evaluate(40, 2, 0.875);
  run.evaluate(60, 2, 0.875);
  run.event("checkpoint_committed", 2, Json::object({{"path", "checkpoints/step-00000020"}, {"best", true}}), Step{20});
  run.event("checkpoint_committed", 2, Json::object({{"path", "checkpoints/step-00000040"}, {"best", true}}), Step{40});
  run.event("checkpoint_removed", 2, Json::object({{"path", "checkpoints/step-00000016"}}), Step{16});
  run.event(
      "finished", 2,
      Json::object({{"outcome", "completed"},
                    {"seconds", 2.0},
                    {"cpu_seconds", Json::object({{"agent", 1.0}, {"engine", 2.0}, {"workers", 10.0}, {"evaluation", 3.0}})}}),
      Step{60});
}

TEST(BuildEvidenceTest, TwoAttemptsAmountToOneRun) {
  RunDirectory run("two");
  write_two_attempts(run);
  const auto built = build_evidence(real_file_system(), run.path());
  ASSERT_THAT(built, is_ok());
  const Evidence& evidence = *built;
  EXPECT_EQ(evidence.run_name, "two-attempts");
  EXPECT_EQ(evidence.outcome, "completed");
  EXPECT_EQ(evidence.runtime_status, "real_local");
  EXPECT_EQ(evidence.capability_level, "single_node_verified");
  EXPECT_EQ(evidence.steps, 60U);
  EXPECT_EQ(evidence.samples, 60U * 32U);
  EXPECT_EQ(evidence.cut_lines, 1U);
  ASSERT_EQ(evidence.attempts.size(), 2U);
  EXPECT_EQ(evidence.attempts[0].outcome, "interrupted");
  EXPECT_EQ(evidence.attempts[0].last_step, Step{40});
  EXPECT_EQ(evidence.attempts[1].resumed_from, Step{16});
  EXPECT_EQ(evidence.attempts[1].first_step, Step{17});
  // Steps 17 to 40 count once, as the second attempt measured them: 16 x 10 ms, 44 x 20 ms; a tenth of each attempt is warm-up.
  EXPECT_EQ(evidence.window.warmup_steps_effective, 1U + 4U);
  EXPECT_EQ(evidence.window.measured_steps, 15U + 40U);
  EXPECT_DOUBLE_EQ(evidence.step_time_ms.p50, 20.0);
  EXPECT_DOUBLE_EQ(evidence.step_time_ms.min, 10.0);
  EXPECT_NEAR(evidence.data_wait_share.value(), 0.055 / (0.15 + 0.80 + 0.055), 1e-12);
  EXPECT_NEAR(evidence.overall_images_per_second.value(), 55.0 * 32.0 / 1.005, 1e-9);
  EXPECT_EQ(evidence.replaced_samples, 1U);
  EXPECT_EQ(evidence.left_out_samples, 3U);
  EXPECT_EQ(evidence.peak_memory_bytes, 1060U);
  EXPECT_DOUBLE_EQ(evidence.cpu_seconds.value().training(), 10.0);
  EXPECT_FALSE(evidence.cpu_seconds_complete);  // the killed attempt reported none
}

TEST(BuildEvidenceTest, BestEvaluationIsTheEarlierOfATie) {
  RunDirectory run("best");
  write_two_attempts(run);
  const auto built = build_evidence(real_file_system(), run.path());
  ASSERT_THAT(built, is_ok());
  ASSERT_EQ(built->evaluations.size(), 3U);
  ASSERT_TRUE(built->best_evaluation.has_value());
  EXPECT_EQ(built->evaluations[*built->best_evaluation].step, Step{40});
  EXPECT_EQ(built->metric, "top1");
  EXPECT_EQ(built->evaluations[2].metrics, (std::vector<std::pair<std::string, double>>{{"top1", 0.875}, {"top5", 1.0}}));
  EXPECT_EQ(built->evaluations[2].evaluated, 99U);
}

TEST(BuildEvidenceTest, LedgerAndCheckpointsCountRepeatedStepsOnce) {
  RunDirectory run("ledger");
  write_two_attempts(run);
  const auto built = build_evidence(real_file_system(), run.path());
  ASSERT_THAT(built, is_ok());
  ASSERT_EQ(built->failed_samples.size(), 2U);
  EXPECT_EQ(built->failed_samples[0].id, 7U);
  EXPECT_EQ(built->failed_samples[0].occurrences, 2U);  // steps 20 (twice, by the resume) and 50
  EXPECT_EQ(built->failed_samples[0].replacement, 70U);
  EXPECT_EQ(built->failed_samples[1].occurrences, 1U);
  ASSERT_EQ(built->checkpoints.size(), 3U);
  EXPECT_TRUE(built->checkpoints[0].removed);
  EXPECT_EQ(built->checkpoints[1].attempt, 2U);
  EXPECT_FALSE(built->checkpoints[1].best);
  EXPECT_TRUE(built->checkpoints[2].best);
}

TEST(BuildEvidenceTest, StepsThatAResumeGaveUpAreNoResult) {
  RunDirectory run("abandoned");
  run.start(1, "abandoned");
  for (std::uint64_t step = 1; step <= 30; ++step) {
    run.train(step, 1, 0.01);
  }
  run.evaluate(30, 1, 0.99);
  run.start(2, "abandoned", Json::object({{"resumed_from", Json::object({{"step", 10}})}}));
  run.train(11, 2, 0.01);
  const auto built = build_evidence(real_file_system(), run.path());
  ASSERT_THAT(built, is_ok());
  EXPECT_EQ(built->steps, 11U);
  EXPECT_TRUE(built->evaluations.empty());
}

TEST(BuildEvidenceTest, LossAsMetricIsBestWhenLow) {
  RunDirectory run("loss");
  run.start(1, "loss");
  run.evaluate(10, 1, 0.5);
  run.evaluate(20, 1, 0.75);
  run.evaluate(30, 1, 0.25);
  run.event("eval", 1, Json::object({{"metric", "loss"}}), Step{10});
  const auto built = build_evidence(real_file_system(), run.path());
  ASSERT_THAT(built, is_ok());
  EXPECT_EQ(built->evaluations.at(built->best_evaluation.value()).step, Step{20});
}

TEST(BuildEvidenceTest, RefusesWhatIsNoRun) {
  const RunDirectory run("empty");
  EXPECT_THAT(build_evidence(real_file_system(), run.path()), is_error(Code::path_not_found));
}

TEST(BuildEvidenceTest, ARunThatDiedBeforeItsFirstStepHasEvidence) {
  RunDirectory run("early");
  run.start(1, "early");
  run.event("failure", 1,
            Json::object({{"code", "PS401"}, {"message", "a process could not be started"}, {"notes", Json::array({"note"})}}));
  run.event("warning", 1, Json::object({{"code", "PS321"}, {"message", "more threads than cores"}}));
  run.event("finished", 1, Json::object({{"outcome", "failed"}}));
  const auto written = write_evidence(run.path(), real_file_system(), FixedClock());
  ASSERT_THAT(written, is_ok());
  EXPECT_EQ(written->evidence.steps, 0U);
  ASSERT_EQ(written->evidence.failures.size(), 1U);
  EXPECT_EQ(written->evidence.failures[0].notes, std::vector<std::string>{"note"});
  ASSERT_EQ(written->evidence.warnings.size(), 1U);
  EXPECT_EQ(written->evidence.warnings[0].code, "PS321");
  EXPECT_NE(run.read("report.html").find("more threads than cores"), std::string::npos);
  EXPECT_THAT(written->text, HasSubstr("PS401"));
  EXPECT_NE(run.read("report.html").find("a process could not be started"), std::string::npos);
}

TEST(WriteEvidenceTest, JsonHasTheEnvelope) {
  RunDirectory run("json");
  write_two_attempts(run);
  run.append("config.resolved.json", R"({"format_version":1,"fields":[],"warnings":[{"message":"w"}]})");
  run.append("plan.json", R"({"format_version":1,"hash":"abc","backend":{"name":"native"}})");
  ASSERT_THAT(write_evidence(run.path(), real_file_system(), FixedClock()), is_ok());
  const Json json = parse_json(run.read("evidence.json"), "evidence.json").value();
  EXPECT_EQ(json.members().front().first, "format_version");
  for (const char* key : {"mode", "dry_run", "runtime_status", "capability_level", "mock", "synthetic"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json.find("measurement_window")->dump(),
            R"({"warmup_steps_effective":5,"measured_steps":55,"warmup_excluded_from_metrics":true})");
  EXPECT_EQ(json.find("resolved_config")->dump(), R"({"available":true,"warning_count":1,"error_count":0})");
  EXPECT_EQ(json.find("config_artifacts")->find("plan")->dump(), R"({"path":"plan.json","format_version":1,"hash":"abc"})");
  EXPECT_EQ(json.find("result")->find("best")->find("step")->to_uint64(), 40U);
  EXPECT_EQ(json.find("samples")->find("ledger")->items().size(), 2U);
}

TEST(WriteEvidenceTest, CallingItAgainChangesNothing) {
  RunDirectory run("again");
  write_two_attempts(run);
  ASSERT_THAT(write_evidence(run.path(), real_file_system(), FixedClock()), is_ok());
  const std::string json = run.read("evidence.json"), html = run.read("report.html");
  ASSERT_THAT(write_evidence(run.path(), real_file_system(), FixedClock()), is_ok());
  EXPECT_EQ(run.read("evidence.json"), json);
  EXPECT_EQ(run.read("report.html"), html);
  EXPECT_EQ(real_file_system().list(join_path(run.path(), "tensorboard")).value().size(), 1U);
}

TEST(WriteEvidenceTest, ReportIsSelfContainedAndEscaped) {
  RunDirectory run("html");
  write_two_attempts(run, "<script>alert(1)</script>");
  run.event("failure", 2, Json::object({{"code", "PS406"}, {"message", "<img src=x onerror=alert(1)>"}}), Step{3});
  ASSERT_THAT(write_evidence(run.path(), real_file_system(), FixedClock()), is_ok());
  const std::string html = run.read("report.html");
  const auto holds = [&](std::string_view text) {
    return html.find(text) != std::string::npos;
  };  // a matcher would print the whole page
  for (const char* unwanted : {"<script", "<img", "http://", "https://", " src=\"", "@import", "url(", "FAKE WORKER"}) {
    EXPECT_FALSE(holds(unwanted)) << unwanted;
  }
  for (const char* wanted : {"&lt;script&gt;alert(1)&lt;/script&gt;", "&lt;img src=x", "attempt 2", "Step time distribution",
                             "87.50%", "default-src 'none'"}) {
    EXPECT_TRUE(holds(wanted)) << wanted;
  }
}

TEST(WriteEvidenceTest, FakesAreLabelledEverywhere) {
  RunDirectory run("fake");
  run.start(1, "fake", Json::object({{"mock", true}, {"synthetic", true}, {"dry_run", true}}));
  run.train(1, 1, 0.01);
  const auto written = write_evidence(run.path(), real_file_system(), FixedClock());
  ASSERT_THAT(written, is_ok());
  EXPECT_EQ(written->evidence.runtime_status, "plan_only");
  for (const char* label : {"DRY RUN", "FAKE WORKER", "SYNTHETIC DATA"}) {
    EXPECT_THAT(written->text, HasSubstr(label));
    EXPECT_NE(run.read("report.html").find(label), std::string::npos) << label;
    EXPECT_THAT(run.read("tensorboard/" + tensorboard_file_name(written->evidence.events)), HasSubstr(label));
  }
  EXPECT_THAT(run.read("evidence.json"), HasSubstr("\"mock\": true"));
}

TEST(SummaryTest, FitsEightyColumns) {
  RunDirectory run("summary");
  write_two_attempts(run);
  const Evidence evidence = build_evidence(real_file_system(), run.path()).value();
  const std::string text = summary_text(
      evidence, {.evidence = "runs/a/evidence.json", .report = "runs/a/report.html", .tensorboard = "runs/a/tensorboard"});
  EXPECT_EQ(text,
            "two-attempts completed: 60 steps, 1,920 samples in 2.0 s (2 attempts)\n"
            "\n"
            "  result       top1 0.8750      best of 3 evaluations, at step 40, top5 1.000\n"
            "  train loss   0.1051           mean of the last 50 steps\n"
            "  throughput   1,524 images/s   median, wait for data included\n"
            "  step time    20.00 ms         median; p90 20.00, p99 20.00\n"
            "  data wait    5.47%            of step time\n"
            "  cpu time     at least 10 s    10 workers + 2 engine + 1 agent - 3 evaluation\n"
            "  checkpoints  2 kept           last step 40, best step 40\n"
            "  samples      1 replaced       3 left out of evaluation, 2 in the ledger\n"
            "  evidence     runs/a/evidence.json\n"
            "  report       runs/a/report.html\n"
            "  tensorboard  runs/a/tensorboard\n");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80U) << line;
  }
}

TEST(EscapeHtmlTest, EscapesMarkupQuotesAndControls) {
  EXPECT_EQ(escape_html("<a href=\"x\">'&'</a>\n"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;\n");
  EXPECT_EQ(escape_html(std::string_view("\x01\x1b", 2)), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace parascale::evidence
