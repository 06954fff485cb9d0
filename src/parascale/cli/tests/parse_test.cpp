#include "parascale/cli/command_line.h"

#include "tests/support/matchers.h"

namespace parascale::cli {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<ParsedLine> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "parascale");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

/// The parsed command, which must be a `T`.
template <typename T>
T command(const std::vector<const char*>& arguments) {
  const auto line = parse(arguments);
  PS_CHECK(line.ok(), line.ok() ? "" : line.error().message());
  PS_CHECK(line->command.has_value() && std::holds_alternative<T>(*line->command), "the line names this command");
  return std::get<T>(*line->command);
}

TEST(ParseTest, EveryCommandHasItsName) {
  struct Case {
    std::vector<const char*> arguments;
    const char* name;
    std::size_t index;
  };
  const std::vector<Case> cases = {
      {{"config", "validate", "a.yaml"}, "config validate", 0},
      {{"config", "show", "a.yaml"}, "config show", 1},
      {{"plan", "a.yaml"}, "plan", 2},
      {{"train", "a.yaml"}, "train", 3},
      {{"infer", "--checkpoint", "c", "--input", "i"}, "infer", 4},
      {{"checkpoint", "validate", "c"}, "checkpoint validate", 5},
      {{"report", "runs/a"}, "report", 6},
      {{"doctor"}, "doctor", 7},
      {{"smoke"}, "smoke", 8},
      {{"data-engine"}, "data-engine", 9},
  };
  EXPECT_EQ(cases.size(), std::variant_size_v<Command>);
  for (const auto& [arguments, name, index] : cases) {
    const auto line = parse(arguments);
    ASSERT_THAT(line, is_ok()) << name;
    EXPECT_EQ(line->name, name);
    ASSERT_TRUE(line->command.has_value()) << name;
    EXPECT_EQ(line->command->index(), index) << name;
    EXPECT_FALSE(line->json);
    EXPECT_FALSE(line->quiet);
  }
}

TEST(ParseTest, MistakesAreUsageErrorsWithARemedy) {
  const std::vector<std::vector<const char*>> lines = {
      {},
      {"trian", "a.yaml"},
      {"config"},
      {"config", "validate"},
      {"config", "fix", "a.yaml"},
      {"plan"},
      {"plan", "a.yaml", "b.yaml"},
      {"plan", "a.yaml", "--frobnicate"},
      {"train", "a.yaml", "--resume-step", "minus"},
      {"train", "a.yaml", "--resume-step", "-1"},
      {"train", "a.yaml", "--set"},
      {"infer", "--input", "x"},
      {"infer", "--checkpoint", "c"},
      {"infer", "--checkpoint", "c", "--input", "i", "--top-k", "0"},
      {"infer", "--checkpoint", "c", "--input", "i", "--top-k", "1001"},
      {"infer", "--checkpoint", "c", "--input", "i", "--batch-size", "0"},
      {"checkpoint"},
      {"checkpoint", "validate"},
      {"report"},
      {"doctor", "--require"},
  };
  for (const auto& arguments : lines) {
    const auto line = parse(arguments);
    std::string text;
    for (const char* argument : arguments) {
      text += std::string(argument) + " ";
    }
    ASSERT_THAT(line, is_error(Code::usage)) << text;
    EXPECT_THAT(line.error().helps(), ::testing::Not(IsEmpty())) << text;
  }
}

TEST(ParseTest, AConfigIsAnArgumentOrAnOption) {
  EXPECT_EQ(command<PlanCommand>({"plan", "a.yaml"}).config.path, "a.yaml");
  EXPECT_EQ(command<PlanCommand>({"plan", "--config", "a.yaml"}).config.path, "a.yaml");
  EXPECT_EQ(command<TrainCommand>({"train", "--plan", "plan.json"}).config.path, "");
  EXPECT_EQ(command<TrainCommand>({"train", "--plan", "plan.json"}).plan, "plan.json");
}

TEST(ParseTest, OverridesRepeatAndTakeOneValueEach) {
  const auto plan = command<PlanCommand>({"plan", "--set", "a.b=1", "--set", "c=[1, 2]", "a.yaml"});
  EXPECT_THAT(plan.config.overrides, ElementsAre("a.b=1", "c=[1, 2]"));
  EXPECT_EQ(plan.config.path, "a.yaml");
  EXPECT_THAT(command<PlanCommand>({"plan", "a.yaml", "--set=x="}).config.overrides, ElementsAre("x="));
}

TEST(ParseTest, TrainOptions) {
  const auto train =
      command<TrainCommand>({"train", "a.yaml", "--dry-run", "--resume", "auto", "--resume-step", "100", "--output", "o.json"});
  EXPECT_TRUE(train.dry_run);
  EXPECT_EQ(train.resume, "auto");
  EXPECT_EQ(train.resume_step, 100U);
  EXPECT_EQ(train.output, "o.json");
  EXPECT_EQ(command<TrainCommand>({"train", "a.yaml"}).resume_step, std::nullopt);
  EXPECT_EQ(command<TrainCommand>({"train", "a.yaml", "--resume-step", "0"}).resume_step, 0U);
}

TEST(ParseTest, InferOptions) {
  const auto infer =
      command<InferCommand>({"infer", "--checkpoint", "c", "--input", "a", "--input", "b", "--top-k", "3", "--batch-size", "7"});
  EXPECT_EQ(infer.checkpoint, "c");
  EXPECT_THAT(infer.inputs, ElementsAre("a", "b"));
  EXPECT_EQ(infer.top_k, 3U);
  EXPECT_EQ(infer.batch_size, 7U);
  EXPECT_THAT(command<InferCommand>({"infer", "--checkpoint", "c", "--input", "a", "b"}).inputs, ElementsAre("a", "b"));
}

TEST(ParseTest, OtherOptions) {
  const auto show = command<ConfigShowCommand>({"config", "show", "a.yaml", "--origins", "--all"});
  EXPECT_TRUE(show.origins && show.all);
  const auto doctor = command<DoctorCommand>({"doctor", "--strict", "--require", "torch", "--require", "cuda"});
  EXPECT_TRUE(doctor.strict);
  EXPECT_THAT(doctor.require, ElementsAre("torch", "cuda"));
  EXPECT_TRUE(command<SmokeCommand>({"smoke", "--skip-real"}).skip_real);
  EXPECT_EQ(command<CheckpointValidateCommand>({"checkpoint", "validate", "--checkpoint", "c"}).checkpoint, "c");
  EXPECT_EQ(command<ReportCommand>({"report", "runs/a"}).run_dir, "runs/a");
}

TEST(ParseTest, OutputModesBelongToTheCommand) {
  const auto line = parse({"plan", "a.yaml", "--json", "-q"});
  ASSERT_THAT(line, is_ok());
  EXPECT_TRUE(line->json);
  EXPECT_TRUE(line->quiet);
}

TEST(ParseTest, LaunchersMayInjectARank) {
  EXPECT_THAT(parse({"--local_rank=0", "train", "a.yaml"}), is_ok());
  EXPECT_THAT(parse({"--local-rank", "1", "train", "a.yaml"}), is_ok());
}

TEST(ParseTest, HelpAndVersionAreTextAndNoCommand) {
  for (const char* flag : {"--help", "-h", "--version"}) {
    const auto line = parse({flag});
    ASSERT_THAT(line, is_ok()) << flag;
    EXPECT_FALSE(line->command.has_value()) << flag;
  }
  EXPECT_THAT(parse({"--version"})->text, ::testing::MatchesRegex("parascale [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_THAT(parse({"--help"})->text,
              ::testing::AllOf(HasSubstr("train"), HasSubstr("doctor"), ::testing::Not(HasSubstr("data-engine"))));
  EXPECT_THAT(parse({"train", "--help"})->text, ::testing::AllOf(HasSubstr("--resume-step"), HasSubstr("SIGTERM")));
}

}  // namespace
}  // namespace parascale::cli
