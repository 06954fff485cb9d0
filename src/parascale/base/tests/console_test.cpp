#include "parascale/base/console.h"

#include <functional>

#include "parascale/base/json.h"
#include "tests/support/matchers.h"

namespace parascale {
namespace {

/// A clock that stands still until it is moved.
class FixedClock final : public Clock {
 public:
  std::int64_t monotonic_ns() const override { return now_ns; }
  std::int64_t wall_ns() const override { return 0; }
  std::int64_t now_ns = 1;
};

struct Printed {
  std::string out, err;
};

/// What a console without a terminal prints: both streams are files while `talk` runs.
Printed print(const Console::Options& options, const std::function<void(Console&)>& talk, const Clock& clock = real_clock()) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  {
    Console console(options, clock);
    talk(console);
  }
  Printed printed;
  printed.out = ::testing::internal::GetCapturedStdout();
  printed.err = ::testing::internal::GetCapturedStderr();
  return printed;
}

Error sample_error() { return Error(Code::unknown_key, "unknown key `a`").note("line one").help("remove it"); }

TEST(ConsoleTest, DataGoesToStdoutAndTalkToStderr) {
  const Printed printed = print({}, [](Console& console) {
    console.data("{\"a\":1}\n");
    console.status("Committed", "step 250");
    console.talk("plain\n");
    console.next("parascale train");
  });
  EXPECT_EQ(printed.out, "{\"a\":1}\n");
  EXPECT_EQ(printed.err, "   Committed step 250\nplain\n");  // no colour, and no `next:` without a terminal
}

TEST(ConsoleTest, QuietKeepsErrorsAndData) {
  const Printed printed = print({.quiet = true}, [](Console& console) {
    console.status("Committed", "step 250");
    console.progress("Training", "step 1");
    console.data("x\n");
    console.error(sample_error());
  });
  EXPECT_EQ(printed.out, "x\n");
  EXPECT_EQ(printed.err, "error[PS103]: unknown key `a`\n   = note: line one\n   = help: remove it\n");
}

TEST(ConsoleTest, ProgressIsOneLineAnIntervalWithoutATerminal) {
  FixedClock clock;
  const Printed printed = print(
      {},
      [&](Console& console) {
        for (int second = 0; second < 25; ++second) {
          console.progress("Training", "step " + std::to_string(second), std::chrono::seconds(10));
          clock.now_ns += 1'000'000'000;
        }
      },
      clock);
  EXPECT_EQ(printed.err, "    Training step 0\n    Training step 10\n    Training step 20\n");
}

TEST(ConsoleTest, WarningsAreMarkedAsSuch) {
  const Printed printed = print({}, [](Console& console) { console.warning(sample_error()); });
  EXPECT_TRUE(printed.err.starts_with("warning[PS103]: unknown key `a`\n")) << printed.err;
}

TEST(ConsoleTest, JsonModeEndsWithTheErrorEnvelope) {
  const Printed printed = print({.json = true, .command = "train"}, [](Console& console) { console.error(sample_error()); });
  EXPECT_EQ(printed.out, "");
  const std::string last = printed.err.substr(printed.err.rfind('\n', printed.err.size() - 2) + 1);
  const auto envelope = parse_json(last, "stderr");
  ASSERT_THAT(envelope, testing::is_ok());
  EXPECT_THAT(envelope->get<std::string>("status"), testing::is_ok_and_holds("error"));
  EXPECT_THAT(envelope->get<std::string>("error_type"), testing::is_ok_and_holds("config_error"));
  EXPECT_THAT(envelope->get<std::string>("message"), testing::is_ok_and_holds("unknown key `a`"));
  EXPECT_THAT(envelope->get<std::int64_t>("exit_code"), testing::is_ok_and_holds(2));
  EXPECT_THAT(envelope->get<std::string>("command"), testing::is_ok_and_holds("train"));
}

TEST(ErrorEnvelopeTest, CarriesPlaceCausesNotesAndHelp) {
  const Error error = sample_error()
                          .at({.file = "a.yaml", .line = 3, .column = 5, .length = 1, .line_text = "  a: 1"})
                          .wrap(Code::config_unreadable, "the config cannot be used");
  const auto envelope = parse_json(error_envelope(error, "plan"), "envelope");
  ASSERT_THAT(envelope, testing::is_ok());
  EXPECT_EQ(
      envelope->find("details")->dump(),
      R"({"exception":"config_unreadable","code":"PS101","causes":["unknown key `a`"],"notes":["line one"],"help":["remove it"]})");
}

TEST(ErrorTest, EveryKindHasItsExitCodeAndName) {
  EXPECT_EQ(exit_code(ErrorKind::config), 2);
  EXPECT_EQ(exit_code(ErrorKind::dependency), 3);
  EXPECT_EQ(exit_code(ErrorKind::run), 4);
  EXPECT_EQ(exit_code(ErrorKind::checkpoint), 5);
  EXPECT_EQ(exit_code(ErrorKind::benchmark), 6);
  EXPECT_EQ(exit_code(ErrorKind::internal), 70);
  EXPECT_EQ(error_type(ErrorKind::run), "runtime_error");
  EXPECT_EQ(error_type(ErrorKind::dependency), "dependency_error");
}

TEST(ErrorTest, CodesReadBackFromTheirText) {
  for (const auto& entry : registered_codes()) {
    EXPECT_EQ(code_from_text(code_text(entry.code)), entry.code);
  }
  for (const char* text : {"", "PS", "PS000", "PS999999999999", "XX103", "ps103", "PS103 "}) {
    EXPECT_EQ(code_from_text(text), std::nullopt) << text;
  }
}

TEST(CheckTest, AFailedCheckExitsWith70AndSaysWhat) {
  EXPECT_EXIT(PS_CHECK(1 + 1 == 3, "sums are right"), ::testing::ExitedWithCode(70), "sums are right");
}

TEST(CheckTest, TheValueOfAFailedResultIsABug) {
  EXPECT_EXIT((void)Result<int>(sample_error()).value(), ::testing::ExitedWithCode(70), "unknown key");
}

}  // namespace
}  // namespace parascale
