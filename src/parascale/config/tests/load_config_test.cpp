#include "parascale/config/load_config.h"

#include <fmt/core.h>

#include <fstream>

#include "parascale/config/report.h"
#include "tests/support/matchers.h"

namespace parascale::config {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Enough to be valid, on one line: line 1 of every text below.
const std::string kBase = "schema_version: 1\ntraining: {workload: vit_classifier, max_steps: 10}\ndata: {type: synthetic}\n";

LoadOutcome load(const std::string& text, std::vector<std::string> overrides = {},
                 std::map<std::string, std::string> variables = {}) {
  return load_config_text({.text = text,
                           .name = "c.yaml",
                           .overrides = std::move(overrides),
                           .environment = fixed_environment(std::move(variables))});
}

/// `PS107 3:9`, or `PS113 -` without a place.
std::string brief(const Error& error) {
  return error.mark() ? fmt::format("{} {}:{}", code_text(error.code()), error.mark()->line, error.mark()->column)
                      : code_text(error.code()) + " -";
}

std::vector<std::string> briefs(const std::vector<Error>& errors) {
  std::vector<std::string> out;
  for (const Error& error : errors) {
    out.push_back(brief(error));
  }
  return out;
}

/// The one error of a text, rendered.
std::string only_error(const std::string& text, std::vector<std::string> overrides = {}) {
  const auto outcome = load(text, std::move(overrides));
  EXPECT_FALSE(outcome.config) << text;
  EXPECT_THAT(outcome.errors, SizeIs(1)) << render_all(outcome.errors, "c.yaml");
  return outcome.errors.empty() ? std::string() : render(outcome.errors.front());
}

ResolvedConfig valid(const std::string& text, std::vector<std::string> overrides = {},
                     std::map<std::string, std::string> variables = {}) {
  auto outcome = load(text, std::move(overrides), std::move(variables));
  EXPECT_TRUE(outcome.config) << render_all(outcome.errors, "c.yaml");
  return outcome.config ? *std::move(outcome.config) : ResolvedConfig{};
}

TEST(LoadConfigTest, QuickstartIsValid) {
  const auto outcome = load_config({.path = "configs/quickstart/digits_vit.yaml"});
  ASSERT_TRUE(outcome.config) << render_all(outcome.errors, "digits");
  EXPECT_THAT(outcome.warnings, IsEmpty());
  const ResolvedConfig& config = *outcome.config;
  EXPECT_EQ(config.run_name, "digits-vit");
  EXPECT_EQ(config.training.batch_size, 64);
  EXPECT_EQ(config.training.learning_rate, 1.5e-3);
  EXPECT_EQ(config.training.max_steps, 2500);
  EXPECT_EQ(config.training.lr_schedule.type, "cosine");
  EXPECT_EQ(config.training.evaluation.interval, 500);
  EXPECT_EQ(config.training.checkpoint_keep_last, 3);
  EXPECT_EQ(config.training.grad_clip_norm, 1.0);
  EXPECT_TRUE(config.loader.dataloader_drop_last);
  EXPECT_EQ(config.model.hidden_size, 96);
  EXPECT_THAT(config.data.train, ElementsAre("examples/data/digits/train-*.tar"));
  EXPECT_THAT(config.data.recipe.mean, ElementsAre(0.5));
  EXPECT_EQ(config.data.affine.scale, (std::array{0.9, 1.1}));
  EXPECT_EQ(config.optimizer.betas, (std::array{0.9, 0.999}));
  EXPECT_EQ(config.runtime.device, "cpu");
  EXPECT_FALSE(config.loader.dataloader_num_workers);
}

TEST(LoadConfigTest, SevenMistakesOfDifferentKindsAreAllFound) {
  const std::string text =
      "schema_version: 1\n"
      "parascale:\n"
      "  backend: {training_backend: native_dpp}\n"  // 3: unknown value
      "  training:\n"
      "    batch_size: 0\n"                       // 5: out of bounds
      "    gradient_accumulation_steps: \"7\"\n"  // 6: wrong type
      "    precision: fp32\n"
      "training:\n"
      "  workload: vit_classifier\n"
      "  max_step: 100\n"  // 10: unknown key
      "  epochs: 3\n"
      "model: {image_size: 28, patch_size: 8}\n"  // 12: cross-field
      "data:\n"
      "  type: wds\n"
      "  train: ${DIGITS}/train-*.tar\n"  // 15: undefined variable
      "  type: wds\n";                    // 16: duplicate
  const auto outcome = load(text);
  EXPECT_FALSE(outcome.config);
  EXPECT_THAT(briefs(outcome.errors),
              ElementsAre("PS104 3:31", "PS107 5:17", "PS106 6:34", "PS103 10:3", "PS108 12:37", "PS109 15:10", "PS105 16:3"));
  for (const Error& error : outcome.errors) {
    EXPECT_THAT(error.helps(), ::testing::Not(IsEmpty())) << render(error);
    EXPECT_EQ(exit_code(error.kind()), 2);
    EXPECT_EQ(error.mark()->file, "c.yaml");
  }
  const std::string rendered = render_all(outcome.errors, "c.yaml");
  EXPECT_THAT(
      rendered,
      HasSubstr(
          "error[PS104]: unknown backend `native_dpp`\n --> c.yaml:3:31\n  |\n3 |   backend: {training_backend: native_dpp}\n"
          "  |                               ^^^^^^^^^^\n"));
  EXPECT_THAT(rendered, HasSubstr("   = help: did you mean `native_ddp`?\n"));
  EXPECT_THAT(rendered, HasSubstr("   = help: did you mean `max_steps`?\n"));
  EXPECT_THAT(rendered, HasSubstr("   = help: remove the quotes: `7`\n"));
  EXPECT_TRUE(rendered.ends_with("\n\n7 errors in c.yaml; nothing was started (exit 2)\n"));
}

TEST(LoadConfigTest, WrongTypesSayWhatIsThereAndWhatIsWanted) {
  EXPECT_THAT(only_error(kBase + "runtime: {slots: many}\n"),
              AllOf(HasSubstr("`runtime.slots` is a string, not an integer: `many`"), HasSubstr("4:18"),
                    HasSubstr("give an integer of at least 1 and at most 64")));
  EXPECT_THAT(only_error(kBase + "runtime: {slots: 4.0}\n"), HasSubstr("is a number, not an integer"));
  EXPECT_THAT(only_error(kBase + "runtime: {slots: true}\n"), HasSubstr("is a boolean, not an integer"));
  EXPECT_THAT(only_error(kBase + "runtime: {slots: }\n"),
              AllOf(HasSubstr("`runtime.slots` is empty"), HasSubstr("the default is `4`")));
  EXPECT_THAT(only_error(kBase + "runtime:\n  slots:\n    - 1\n"),
              AllOf(HasSubstr("is a list, not an integer"), HasSubstr("c.yaml:5:3")));
  EXPECT_THAT(only_error(kBase + "runtime: {run_dir: 7}\n"), HasSubstr("quote it to make it a string: `\"7\"`"));
  EXPECT_THAT(only_error(kBase + "runtime: 7\n"), HasSubstr("the section `runtime` is one value, not a mapping"));
  EXPECT_THAT(only_error(kBase + "model: {qkv_bias: yes}\n"), HasSubstr("write `true`: `yes` and `on` are strings"));
  EXPECT_THAT(only_error(kBase + "model: {qkv_bias: \"true\"}\n"), HasSubstr("remove the quotes: `true`"));
  EXPECT_THAT(only_error(kBase + "optimizer: {betas: [0.9]}\n"),
              AllOf(HasSubstr("not a list of two numbers"), HasSubstr("4:20")));
  EXPECT_THAT(only_error(kBase + "optimizer: {betas: [0.9, x]}\n"), AllOf(HasSubstr("not a number: `x`"), HasSubstr("4:26")));
  EXPECT_THAT(only_error(kBase + "optimizer: {type: null}\n"), HasSubstr("is empty"));
  EXPECT_THAT(only_error("- 1\n"), HasSubstr("the config is a list, not a mapping"));
}

TEST(LoadConfigTest, BoundsAreCheckedForValuesAndItems) {
  EXPECT_THAT(only_error(kBase + "optimizer: {eps: 0}\n"), HasSubstr("give a number greater than 0"));
  EXPECT_THAT(only_error(kBase + "optimizer: {betas: [0.9, 1.0]}\n"), AllOf(HasSubstr("PS107"), HasSubstr("4:26")));
  EXPECT_THAT(only_error(kBase + "optimizer: {weight_decay: .inf}\n"), HasSubstr("PS107"));
  EXPECT_THAT(only_error(kBase + "optimizer: {weight_decay: .nan}\n"), HasSubstr("PS107"));
  EXPECT_THAT(only_error(kBase + "parascale: {seed: 99999999999999999999}\n"), HasSubstr("give an integer of 64 bits"));
  EXPECT_THAT(only_error(kBase + "parascale: {strategy_memory_margin: 0}\n"), HasSubstr("greater than 0 and at most 1"));
  EXPECT_EQ(valid(kBase + "parascale: {strategy_memory_margin: 1}\n").training.strategy_memory_margin, 1.0);
  EXPECT_EQ(valid(kBase + "parascale: {seed: 1e6}\n").training.seed, 1'000'000);
}

TEST(LoadConfigTest, UnknownKeysGetTheLikelyOne) {
  EXPECT_THAT(only_error(kBase + "optimiser: {type: adamw}\n"),
              AllOf(HasSubstr("unknown key `optimiser`"), HasSubstr("4:1"), HasSubstr("did you mean `optimizer`?")));
  EXPECT_THAT(only_error(kBase + "optimizer: {wieght_decay: 0.1}\n"),
              AllOf(HasSubstr("unknown key `wieght_decay` in `optimizer`"), HasSubstr("did you mean `weight_decay`?")));
  EXPECT_THAT(only_error(kBase + "runtime: {max_steps: 5}\n"), HasSubstr("`max_steps` stands elsewhere: `training.max_steps`"));
  EXPECT_THAT(only_error(kBase + "runtime: {zzzzzzzzzz: 5}\n"),
              AllOf(HasSubstr("known here: device, accelerator, worker"), HasSubstr("config show --all")));
  EXPECT_THAT(only_error(kBase + "runtime.slots: 5\n"), HasSubstr("write it nested"));
  EXPECT_THAT(only_error(kBase + "parascale: {batchsize: 4}\n"), HasSubstr("did you mean `batch_size`?"));
}

TEST(LoadConfigTest, NamesAndTheirAliases) {
  EXPECT_EQ(valid("training: {workload: tiny_clip, max_steps: 1}\n").training.workload, "clip_contrastive");
  EXPECT_EQ(valid("training: {workload: torch_tiny_mlp, max_steps: 1}\n").training.workload, "tiny");
  EXPECT_EQ(valid(kBase + "runtime: {accelerator: gpu}\n").runtime.device, "cuda");
  for (const char* backend : {"native", "native_ddp", "fsdp", "deepspeed", "ascend_native", "auto"}) {
    EXPECT_EQ(valid(kBase + fmt::format("parascale: {{training_backend: {}}}\n", backend)).backend.training_backend, backend);
  }
  for (const char* worker : {"auto", "cpp", "python", "fake"}) {
    EXPECT_EQ(valid(kBase + fmt::format("runtime: {{worker: {}}}\n", worker)).runtime.worker, worker);
  }
  EXPECT_EQ(valid(kBase + "parascale: {precision: bf16}\n").training.precision, "bf16");
  EXPECT_THAT(only_error("training: {workload: vit_clasifier, max_steps: 1}\n"), HasSubstr("did you mean `vit_classifier`?"));
}

TEST(LoadConfigTest, LayeredFlatAndAliasFormsAreOneSetting) {
  for (const char* text : {"parascale: {training: {batch_size: 8}}\n", "parascale: {batch_size: 8}\n",
                           "parascale: {backend: {}, batch_size: 8}\n"}) {
    EXPECT_EQ(valid(kBase + text).training.batch_size, 8) << text;
  }
  const std::string with_aliases =
      "training: {workload: vit_classifier, max_steps: 10, lr: 0.1, gradient_accumulation_steps: 2, checkpoint_interval: 7}\n"
      "data: {type: synthetic, batch_size: 8, num_workers: 2}\n";
  const ResolvedConfig config = valid(with_aliases);
  EXPECT_EQ(config.training.batch_size, 8);
  EXPECT_EQ(config.training.learning_rate, 0.1);
  EXPECT_EQ(config.training.gradient_accumulation_steps, 2);
  EXPECT_EQ(config.training.checkpoint_save_interval, 7);
  EXPECT_EQ(config.loader.dataloader_num_workers, 2);
}

TEST(LoadConfigTest, OneSettingUnderTwoNames) {
  EXPECT_EQ(valid(kBase + "parascale: {learning_rate: 1e-3}\noptimizer: {lr: 0.001}\n").training.learning_rate, 1e-3);
  const std::string error = only_error(kBase + "parascale: {learning_rate: 0.001}\noptimizer: {lr: 0.002}\n");
  EXPECT_THAT(
      error,
      AllOf(
          HasSubstr(
              "error[PS112]: `parascale.learning_rate` and `optimizer.lr` are one setting with two values: `0.001` and `0.002`"),
          HasSubstr("c.yaml:5:17"), HasSubstr("first given at c.yaml:4:28"),
          HasSubstr("the canonical name is `parascale.training.learning_rate`")));
}

TEST(LoadConfigTest, NotBuiltSettingsMayOnlyHaveTheirDefault) {
  valid(kBase +
        "parascale: {parallel: {tensor_parallel_size: 1}, backend: {zero_stage: 0, fsdp_min_num_params: 1e8}, quantization: "
        "{enabled: false}}\n");
  EXPECT_THAT(only_error(kBase + "parascale: {parallel: {tensor_parallel_size: 2}}\n"),
              AllOf(HasSubstr("PS110"), HasSubstr("4:46"), HasSubstr("note: tensor and pipeline parallelism"),
                    HasSubstr("its default `1`")));
  EXPECT_THAT(only_error(kBase + "optimizer: {type: four_bit_adamw}\n"),
              AllOf(HasSubstr("PS110"), HasSubstr("optimizer is known but not built yet: `four_bit_adamw`")));
  EXPECT_THAT(only_error(kBase + "lora: {rank: 8}\n"), AllOf(HasSubstr("PS110"), HasSubstr("vlm_lora")));
  EXPECT_THAT(only_error(kBase + "parascale: {fsdp_cpu_offload: true}\n"), HasSubstr("PS110"));
  EXPECT_THAT(only_error(kBase + "parascale: {parallel: {tensor_parallel_size: 0}}\n"), HasSubstr("PS107"));
  // Options of a back end that is asked for are the planner's business.
  valid(kBase + "parascale: {training_backend: fsdp, fsdp_cpu_offload: true}\n");
}

TEST(LoadConfigTest, DeadSettingsWarn) {
  const auto outcome = load(kBase +
                            "parascale: {resolution_buckets: [[224, 224]]}\nhardware_profile: {num_gpus: 8}\ndeepspeed_config: "
                            "{zero: 1}\nruntime: {local_rank: 3}\n");
  ASSERT_TRUE(outcome.config) << render_all(outcome.errors, "c.yaml");
  EXPECT_THAT(briefs(outcome.warnings), ElementsAre("PS111 4:33", "PS111 5:19", "PS111 6:19", "PS111 7:23"));
  EXPECT_THAT(outcome.config->warnings, SizeIs(4));
  const auto deepspeed = load(
      kBase + "parascale: {training_backend: deepspeed}\ndeepspeed_config: {zero_optimization: {stage: 2}, x: [1, \"2\"]}\n");
  ASSERT_TRUE(deepspeed.config);
  EXPECT_THAT(deepspeed.warnings, IsEmpty());
  EXPECT_EQ(deepspeed.config->find("parascale.backend.deepspeed_config")->value.dump(),
            R"({"zero_optimization":{"stage":2},"x":[1,"2"]})");
}

TEST(LoadConfigTest, SchemaVersions) {
  const auto legacy = load("training: {max_steps: 1}\n");
  ASSERT_TRUE(legacy.config);
  EXPECT_THAT(briefs(legacy.warnings), ElementsAre("PS114 -"));
  EXPECT_THAT(briefs(load("schema_version: 0\ntraining: {max_steps: 1}\n").warnings), ElementsAre("PS114 1:17"));
  EXPECT_THAT(only_error("schema_version: 2\ntraining: {max_steps: 1}\n"),
              AllOf(HasSubstr("PS114"), HasSubstr("1:17"), HasSubstr("supported: 0 to 1")));
  EXPECT_THAT(only_error("schema_version: -1\ntraining: {max_steps: 1}\n"), HasSubstr("PS114"));
  EXPECT_THAT(only_error("schema_version: true\ntraining: {max_steps: 1}\n"), HasSubstr("PS106"));
  EXPECT_THAT(only_error("schema_version: \"1\"\ntraining: {max_steps: 1}\n"), HasSubstr("PS106"));
}

TEST(LoadConfigTest, VariablesInStringValues) {
  const std::string text = kBase +
                           "runtime: {run_dir: \"${ROOT}/${NAME}\"}\n"
                           "model: {label_names: [\"${NAME}\", b]}\n"
                           "parascale: {seed: \"${SEED}\"}\n";
  EXPECT_THAT(briefs(load(text).errors), ElementsAre("PS109 4:21", "PS109 4:29", "PS109 5:24", "PS109 6:20"));
  const std::string plain =
      kBase + "runtime:\n  run_dir: ${ROOT}/${NAME}\nparascale:\n  seed: ${SEED}\n  batch_size: 4 # ${COMMENT}\n";
  const auto config = valid(plain, {}, {{"ROOT", "/r"}, {"NAME", "${ROOT}"}, {"SEED", "7"}});
  EXPECT_EQ(config.runtime.run_dir, "/r/${ROOT}") << "what was put in is not expanded again";
  EXPECT_EQ(config.training.seed, 7);
  EXPECT_EQ(valid(plain, {}, {{"ROOT", "1"}, {"NAME", "2"}, {"SEED", "7"}}).runtime.run_dir, "1/2");
  EXPECT_EQ(valid(kBase + "runtime:\n  run_dir: ${N}\n", {}, {{"N", "12"}}).runtime.run_dir, "12") << "a string stays a string";
  EXPECT_THAT(only_error(kBase + "runtime:\n  run_dir: ${A:-b}\n"),
              AllOf(HasSubstr("PS109"), HasSubstr("does not hold the name of a variable: `A:-b`")));
  const auto quoted = load(kBase + "parascale: {seed: \"${SEED}\"}\n", {}, {{"SEED", "7"}});
  EXPECT_THAT(briefs(quoted.errors), ElementsAre("PS106 4:19"));
  EXPECT_THAT(briefs(load("${X}: 1\n" + kBase).errors), Contains("PS103 1:1")) << "keys are not expanded";
}

TEST(LoadConfigTest, OverridesWinAndKeepTheHistory) {
  const auto config = valid(kBase + "parascale: {batch_size: 64}\n",
                            {"data.batch_size=16", "training.batch_size=8", "data.train=[a.tar, 'b c.tar']"});
  EXPECT_EQ(config.training.batch_size, 8);
  EXPECT_EQ(config.override_count, 3U);
  EXPECT_THAT(config.data.train, ElementsAre("a.tar", "b c.tar"));
  const ResolvedField& field = *config.find("parascale.training.batch_size");
  EXPECT_EQ(field.source, "--set");
  EXPECT_TRUE(field.explicitly_set);
  ASSERT_THAT(field.history, SizeIs(4));
  EXPECT_EQ(field.history[0].source, "default");
  EXPECT_EQ(field.history[0].value, Json(32));
  EXPECT_EQ(field.history[1].source, "c.yaml:4:25");
  EXPECT_EQ(field.history[1].value, Json(64));
  EXPECT_EQ(field.history[1].priority, 40);
  EXPECT_EQ(field.history[2].value, Json(16));
  EXPECT_EQ(field.history[3].priority, 90);
  EXPECT_EQ(field.history[3].reason, "given as `training.batch_size`");
}

TEST(LoadConfigTest, OverridesTakeSectionsNullAndVariables) {
  EXPECT_EQ(valid(kBase, {"model={hidden_size: 64, num_attention_heads: 4}"}).model.hidden_size, 64);
  EXPECT_EQ(valid(kBase, {"training.max_steps=null", "training.epochs=1.5"}).training.epochs, 1.5);
  EXPECT_EQ(valid(kBase, {"runtime.run_dir=${R}/x"}, {{"R", "/r"}}).runtime.run_dir, "/r/x");
  EXPECT_EQ(valid(kBase, {"runtime.run_dir=a=b"}).runtime.run_dir, "a=b");
  EXPECT_EQ(valid(kBase + "runtime: {run_dir: x}\n", {"runtime.run_dir="}).runtime.run_dir, "");
}

TEST(LoadConfigTest, OverrideMistakes) {
  EXPECT_THAT(only_error(kBase, {"training.max_steps"}),
              AllOf(HasSubstr("error[PS115]: an override has no `=`: `training.max_steps`"), HasSubstr("--set:1:1")));
  EXPECT_THAT(only_error(kBase, {"=3"}), HasSubstr("PS115"));
  EXPECT_THAT(only_error(kBase, {"training..lr=3"}), HasSubstr("PS115"));
  EXPECT_THAT(only_error(kBase, {"data.train=*.tar"}),
              AllOf(HasSubstr("PS115"), HasSubstr("--set:1:12"), HasSubstr("1 | data.train=*.tar\n  |            ^"),
                    HasSubstr("quote")));
  EXPECT_THAT(only_error(kBase, {"data.train=[a"}), HasSubstr("PS115"));
  EXPECT_THAT(only_error(kBase, {"training.lr=fast"}), AllOf(HasSubstr("PS106"), HasSubstr("--set:1:13"), HasSubstr("^^^^")));
  EXPECT_THAT(only_error(kBase, {"training.max_stepz=3"}),
              AllOf(HasSubstr("PS103"), HasSubstr("did you mean `training.max_steps`?")));
  EXPECT_THAT(only_error(kBase, {"trainin.max_steps=3"}),
              AllOf(HasSubstr("unknown key `trainin`"), HasSubstr("did you mean `training`?")));
  EXPECT_THAT(only_error(kBase, {"max_steps=3"}), HasSubstr("`max_steps` stands elsewhere: `training.max_steps`"));
  EXPECT_THAT(only_error(kBase, {"deepspeed_config.zero=3"}), HasSubstr("give it as a whole"));
  // The file's mistakes come first, then those of overrides in their order.
  const auto outcome = load(kBase + "runtime: {slots: 0}\n", {"training.lr=0", "x=1"});
  EXPECT_THAT(briefs(outcome.errors), ElementsAre("PS107 4:18", "PS107 1:13", "PS103 1:1"));
}

struct Contradiction {
  const char* text;
  const char* place;
  const char* message;
};

TEST(LoadConfigTest, ContradictionsBetweenSettings) {
  const Contradiction contradictions[] = {
      {"training: {workload: vit_classifier, max_steps: 10, epochs: 2}\ndata: {type: synthetic}\n", "PS108 1:61", "given twice"},
      {"training: {workload: vit_classifier}\ndata: {type: synthetic}\n", "PS113 1:1",
       "`training.max_steps` or `training.epochs`"},
      {"data: {type: synthetic}\n", "PS113 -", "`training.max_steps` or `training.epochs`"},
      {"training: {workload: vit_classifier, max_steps: 10, lr_schedule: {warmup_steps: 11}}\ndata: {type: synthetic}\n",
       "PS108 1:81", "11 of 10 steps"},
      {"training: {max_steps: 1}\nmodel: {hidden_size: 100}\n", "PS108 2:22", "100 and 12"},
      {"training: {max_steps: 1}\nmodel: {patch_size: 15}\n", "PS108 2:21", "224 and 15"},
      {"training: {max_steps: 1}\noptimizer: {type: sgd, nesterov: true}\n", "PS108 2:34", "needs a momentum"},
      {"training: {max_steps: 1}\noptimizer: {momentum: 0.9}\n", "PS108 2:23", "`adamw` has no `momentum`"},
      {"training: {max_steps: 1}\noptimizer: {type: sgd, eps: 1e-6}\n", "PS108 2:29", "`sgd` has no `eps`"},
      {"training: {max_steps: 1}\ndata: {recipe: {mean: [0.5, 0.5]}}\n", "PS108 2:23", "2 values for 3 channels"},
      {"training: {max_steps: 1}\ndata: {recipe: {std: []}}\n", "PS108 2:22", "0 values for 3 channels"},
      {"training: {max_steps: 1}\ndata: {recipe: {size: 28}}\n", "PS108 2:23", "28 and 224 pixels"},
      {"training: {max_steps: 1}\ndata: {augment: {affine: {scale: [1.1, 0.9]}}}\n", "PS108 2:34", "1.1 and 0.9"},
      {"training: {max_steps: 1}\nmodel: {label_names: [a, b, c]}\n", "PS108 2:22", "3 names for 2 classes"},
      {"training: {workload: vit_classifier, max_steps: 1}\ndata: {type: wds}\n", "PS113 2:1", "`data.train`"},
      {"training: {workload: vit_classifier, max_steps: 1}\n", "PS113 -", "`data.train`"},
      {"training: {workload: vit_classifier, max_steps: 1}\ndata: {type: coco}\n", "PS108 2:14",
       "cannot read the data type `coco`"},
      {"training: {workload: vit_classifier, max_steps: 1}\nmodel: {type: tiny_clip}\ndata: {train: a}\n", "PS108 2:15",
       "cannot train the model `tiny_clip`"},
      {"training: {max_steps: 9, evaluation: {interval: 3}}\ndata: {train: a}\n", "PS108 1:49", "`data.validation`"},
  };
  for (const Contradiction& expected : contradictions) {
    const auto outcome = load(expected.text);
    ASSERT_THAT(briefs(outcome.errors), ElementsAre(expected.place)) << expected.text << render_all(outcome.errors, "c.yaml");
    EXPECT_THAT(outcome.errors[0].message(), HasSubstr(expected.message)) << expected.text;
    EXPECT_THAT(outcome.errors[0].helps(), SizeIs(1)) << expected.text;
  }
  EXPECT_THAT(only_error("training: {max_steps: 1}\nmodel: {num_attention_heads: 5}\nruntime: {}\n", {"model.hidden_size=96"}),
              AllOf(HasSubstr("PS108"), HasSubstr("given at --set:1:19")));
}

TEST(LoadConfigTest, AMistakeIsNotReportedTwice) {
  // What could not be read takes part in no rule between settings.
  EXPECT_THAT(briefs(load("training: {max_steps: x}\n").errors), ElementsAre("PS106 1:23"));
  EXPECT_THAT(briefs(load(kBase + "model: {hidden_size: 100, num_attention_heads: x}\n").errors), ElementsAre("PS106 4:48"));
  EXPECT_THAT(briefs(load("a: [\n").errors), ElementsAre(::testing::StartsWith("PS102 ")));
}

TEST(LoadConfigTest, FilesThatCannotBeRead) {
  const std::string directory = ::testing::TempDir() + "config_files";
  ASSERT_THAT(make_directories(real_file_system(), directory), testing::is_ok());
  std::ofstream(directory + "/digits_vit.yaml") << kBase;
  const auto absent = load_config({.path = directory + "/digit_vit.yaml"});
  EXPECT_THAT(briefs(absent.errors), ElementsAre("PS101 -"));
  EXPECT_THAT(absent.errors[0].helps(), ElementsAre(fmt::format("did you mean `{}/digits_vit.yaml`?", directory)));
  EXPECT_THAT(briefs(load_config({.path = directory}).errors), ElementsAre("PS101 -"));
  std::ofstream(directory + "/large.yaml") << "a: " << std::string(2 << 20, 'x');
  EXPECT_THAT(briefs(load_config({.path = directory + "/large.yaml"}).errors), ElementsAre("PS101 -"));
  std::ofstream(directory + "/digits_vit.json") << "{\"schema_version\": 1,\n \"training\": {\"max_steps\": 0}}";
  EXPECT_THAT(briefs(load_config({.path = directory + "/digits_vit.json"}).errors), ElementsAre("PS107 2:28"));
  EXPECT_TRUE(load_config({.path = directory + "/digits_vit.yaml"}).config);
}

TEST(LoadConfigTest, WorksWithoutAFile) {
  const auto outcome =
      load_config({.overrides = {"training.max_steps=3", "data.type=synthetic"}, .environment = fixed_environment({})});
  ASSERT_TRUE(outcome.config) << render_all(outcome.errors, "");
  EXPECT_THAT(outcome.warnings, IsEmpty());
  EXPECT_EQ(outcome.config->config_path, "");
  EXPECT_EQ(outcome.config->run_name, "default");
}

}  // namespace
}  // namespace parascale::config
