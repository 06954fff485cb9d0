#include "parascale/config/report.h"

#include "tests/support/matchers.h"

namespace parascale::config {
namespace {

using ::testing::HasSubstr;

LoadOutcome load(const std::string& text, std::vector<std::string> overrides = {}) {
  return load_config_text({.text = text, .name = "c.yaml", .overrides = std::move(overrides)});
}

const std::string kText = "schema_version: 1\ntraining: {max_steps: 10}\nruntime: {run_dir: my runs}\n";

TEST(ReportTest, ShowsWhatWasGiven) {
  const auto outcome = load(kText, {"training.max_steps=20", "training.lr=0.1"});
  ASSERT_TRUE(outcome.config);
  EXPECT_EQ(show_text(*outcome.config, {}),
            "schema_version                    1\n"
            "parascale.training.learning_rate  0.1\n"
            "training.max_steps                20\n"
            "runtime.run_dir                   \"my runs\"\n");
  EXPECT_EQ(show_text(*outcome.config, {.origins = true}),
            "schema_version                    1          c.yaml:1:17\n"
            "parascale.training.learning_rate  0.1        --set (given as `training.lr`)\n"
            "training.max_steps                20         --set (was 10 at c.yaml:2:23)\n"
            "runtime.run_dir                   \"my runs\"  c.yaml:3:20\n");
}

TEST(ReportTest, ShowsAllThatIsUsed) {
  const auto outcome = load(kText);
  const std::string all = show_text(*outcome.config, {.origins = true, .all = true});
  EXPECT_THAT(all, HasSubstr("\ntraining.epochs "));
  EXPECT_THAT(all, ::testing::Not(HasSubstr("zero_stage")));
  EXPECT_EQ(std::ranges::count(all, '\n'), std::ssize(show_json(*outcome.config, {.all = true}).find("settings")->items()));
}

TEST(ReportTest, JsonTwinHoldsTheHistoryOnlyWhenAsked) {
  const auto outcome = load(kText);
  const Json plain = show_json(*outcome.config, {});
  EXPECT_EQ(plain.find("format_version")->to_int64(), 1);
  ASSERT_EQ(plain.find("settings")->items().size(), 3U);
  EXPECT_FALSE(plain.find("settings")->items()[0].contains("history"));
  EXPECT_TRUE(show_json(*outcome.config, {.origins = true}).find("settings")->items()[0].contains("history"));
}

TEST(ReportTest, Summary) {
  const auto outcome = load(kText);
  ASSERT_TRUE(outcome.config);
  const auto used = show_json(*outcome.config, {.all = true}).find("settings")->items().size();
  EXPECT_EQ(summary_text(*outcome.config), "c.yaml is valid: 3 settings given, " + std::to_string(used - 3) + " defaults");
}

TEST(ReportTest, ValidationPayload) {
  const Json good = validation_json(load(kText), "c.yaml");
  EXPECT_EQ(good.dump(),
            R"({"format_version":1,"mode":"config_validate","config":"c.yaml","validation":{"ok":true,"schema_version":1,)"
            R"("current_schema_version":1,"legacy":false,"migration_required":false},"errors":[],"warnings":[]})");
  const Json legacy = validation_json(load("training: {max_steps: 1}\n"), "c.yaml");
  EXPECT_EQ(legacy.find("validation")->dump(),
            R"({"ok":true,"schema_version":0,"current_schema_version":1,"legacy":true,"migration_required":true})");
  EXPECT_EQ(legacy.find("warnings")->items().size(), 1U);
  const Json bad = validation_json(load(kText + "x: 1\n"), "c.yaml");
  EXPECT_EQ(bad.find("validation")->find("ok")->to_bool(), false);
  ASSERT_EQ(bad.find("errors")->items().size(), 1U);
  EXPECT_THAT(
      bad.find("errors")->items()[0].dump(),
      HasSubstr(
          R"("code":"PS103","kind":"unknown_key","message":"unknown key `x`","file":"c.yaml","line":4,"column":1,"length":1)"));
}

TEST(ReportTest, RendersAllErrors) {
  const auto outcome = load(kText + "x: 1\n");
  EXPECT_EQ(render_all(outcome.errors, "c.yaml"),
            "error[PS103]: unknown key `x`\n --> c.yaml:4:1\n  |\n4 | x: 1\n  | ^\n"
            "   = help: remove it; `parascale config show --all` lists every setting\n"
            "\n1 error in c.yaml; nothing was started (exit 2)\n");
}

}  // namespace
}  // namespace parascale::config
