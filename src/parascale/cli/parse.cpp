#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "parascale/base/text.h"
#include "parascale/base/version.h"
#include "parascale/cli/command_line.h"

namespace parascale::cli {

namespace {

/// One application object with everything it fills in.
struct Line {
  CLI::App app{"ParaScale: one config for every back end; config -> plan -> run -> evidence.", "parascale"};
  ParsedLine parsed;
  ConfigValidateCommand validate;
  ConfigShowCommand show;
  PlanCommand plan;
  TrainCommand train;
  InferCommand infer;
  CheckpointValidateCommand checkpoint;
  ReportCommand report;
  DoctorCommand doctor;
  SmokeCommand smoke;
  int local_rank = 0;
};

void add_common(CLI::App& command, Line& line) {
  command.add_flag("--json", line.parsed.json, "machine output: JSON only on standard output");
  command.add_flag("-q,--quiet", line.parsed.quiet, "no status and progress lines");
}

void add_config(CLI::App& command, ConfigSource& config, bool required) {
  auto* option = command.add_option("--config,config", config.path, "YAML or JSON config file");
  if (required) {
    option->required();
  }
  command.add_option("--set", config.overrides, "override one setting: path=value (repeatable)")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
}

void add_output(CLI::App& command, std::string& output, const std::string& what) {
  command.add_option("--output", output, what)->type_name("FILE");
}

void declare_config(Line& line) {
  auto* config = line.app.add_subcommand("config", "Check and show configurations");
  config->require_subcommand(1);
  auto* validate = config->add_subcommand("validate", "Report every mistake of a config, with place and remedy");
  validate->footer("example: parascale config validate configs/quickstart/digits_vit.yaml");
  add_config(*validate, line.validate.config, true);
  add_output(*validate, line.validate.output, "write the JSON payload here");
  add_common(*validate, line);
  auto* show = config->add_subcommand("show", "Show the resolved settings");
  show->footer("example: parascale config show configs/quickstart/digits_vit.yaml --origins");
  add_config(*show, line.show.config, true);
  show->add_flag("--origins", line.show.origins, "where each value comes from and what it replaced");
  show->add_flag("--all", line.show.all, "defaults too");
  add_common(*show, line);
}

void declare_plan(Line& line) {
  auto* plan = line.app.add_subcommand("plan", "Show what a run would do, without starting anything");
  plan->footer("example: parascale plan configs/quickstart/digits_vit.yaml --output plan.json");
  add_config(*plan, line.plan.config, true);
  add_output(*plan, line.plan.output, "write the plan here; `train --plan` runs exactly that");
  add_common(*plan, line);
}

void declare_train(Line& line) {
  auto* train = line.app.add_subcommand("train", "Plan and run a training job");
  train->footer(
      "examples:\n"
      "  parascale train configs/quickstart/digits_vit.yaml\n"
      "  parascale train configs/quickstart/digits_vit.yaml --resume auto\n"
      "  parascale train --plan plan.json\n"
      "The first SIGTERM or Ctrl-C finishes the step and commits; a second ends at once.");
  add_config(*train, line.train.config, false);
  train->add_option("--plan", line.train.plan, "run exactly this plan instead of a config")->type_name("FILE");
  train->add_flag("--dry-run", line.train.dry_run, "plan only");
  train->add_option("--resume", line.train.resume, "`auto`, or a run, checkpoint root or step directory")->type_name("auto|DIR");
  train->add_option("--resume-step", line.train.resume_step, "resume from this step")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  add_output(*train, line.train.output, "write the result's JSON payload here");
  add_common(*train, line);
}

void declare_infer(Line& line) {
  auto* infer = line.app.add_subcommand("infer", "Classify pictures with a checkpoint");
  infer->footer("example: parascale infer --checkpoint runs/digits-vit/best --input examples/digits_png");
  infer
      ->add_option("--checkpoint", line.infer.checkpoint,
                   "step directory, root, run, `<run>/best`, or a Hugging Face model directory")
      ->required();
  infer->add_option("--input", line.infer.inputs, "picture, directory or pattern (repeatable)")
      ->required()
      ->type_name("FILE|DIR|GLOB");
  infer->add_option("--top-k", line.infer.top_k, "classes to list")->check(CLI::Range(1, 1000));
  infer->add_option("--batch-size", line.infer.batch_size, "pictures per forward pass")->check(CLI::Range(1, 4096));
  add_output(*infer, line.infer.output, "write one JSON object a line here");
  add_common(*infer, line);
}

void declare_others(Line& line) {
  auto* checkpoint = line.app.add_subcommand("checkpoint", "Verify checkpoints");
  checkpoint->require_subcommand(1);
  auto* validate = checkpoint->add_subcommand("validate", "Verify every byte of a checkpoint against its manifest");
  validate->footer("example: parascale checkpoint validate runs/digits-vit");
  validate->add_option("--checkpoint,checkpoint", line.checkpoint.checkpoint, "root, run, step directory or manifest.json")
      ->required();
  add_output(*validate, line.checkpoint.output, "write the JSON payload here");
  add_common(*validate, line);
  auto* report = line.app.add_subcommand("report", "Write evidence.json, report.html and TensorBoard files of a run again");
  report->footer("example: parascale report runs/digits-vit");
  report->add_option("run", line.report.run_dir, "run directory")->required();
  add_common(*report, line);
  auto* doctor = line.app.add_subcommand("doctor", "Say what this machine has and whether it suffices");
  doctor->footer("example: parascale doctor --strict --require torch");
  doctor->add_flag("--strict", line.doctor.strict, "require core and torch");
  doctor->add_option("--require", line.doctor.require, "core, torch, distributed, cuda, deepspeed, npu (repeatable)")
      ->type_name("CAP")
      ->allow_extra_args(false);
  add_output(*doctor, line.doctor.output, "write the JSON payload here");
  add_common(*doctor, line);
  auto* smoke = line.app.add_subcommand("smoke", "Try the whole line on a small job: plan, train, validate, resume, infer");
  smoke->footer("example: parascale smoke --config configs/quickstart/digits_vit.yaml");
  add_config(*smoke, line.smoke.config, false);
  add_output(*smoke, line.smoke.output, "write the report here (default runs/server_smoke_report.json)");
  smoke->add_flag("--skip-real", line.smoke.skip_real, "only doctor and plan");
  add_common(*smoke, line);
  auto* engine = line.app.add_subcommand("data-engine", "the data-engine child of a run");
  engine->group("");
}

std::optional<Command> chosen(Line& line) {
  const auto got = [&](std::initializer_list<const char*> names) {
    CLI::App* app = &line.app;
    std::string full;
    for (const char* name : names) {
      if (!app->got_subcommand(name)) {
        return false;
      }
      app = app->get_subcommand(name);
      full += full.empty() ? name : fmt::format(" {}", name);
    }
    line.parsed.name = full;
    return true;
  };
  if (got({"config", "validate"})) {
    return line.validate;
  }
  if (got({"config", "show"})) {
    return line.show;
  }
  if (got({"plan"})) {
    return line.plan;
  }
  if (got({"train"})) {
    return line.train;
  }
  if (got({"infer"})) {
    return line.infer;
  }
  if (got({"checkpoint", "validate"})) {
    return line.checkpoint;
  }
  if (got({"report"})) {
    return line.report;
  }
  if (got({"doctor"})) {
    return line.doctor;
  }
  if (got({"smoke"})) {
    return line.smoke;
  }
  if (got({"data-engine"})) {
    return DataEngineCommand{};
  }
  return std::nullopt;
}

/// A first word that is no command, with the command that was most likely meant.
Status check_first_word(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-') {
    return {};
  }
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) {
      names.push_back(command->get_name());
    }
    if (command->get_name() == argv[1]) {
      return {};
    }
  }
  Error error(Code::usage, fmt::format("unknown command `{}`", argv[1]));
  error.note(fmt::format("commands: {}", join(names, ", ")));
  if (const auto meant = closest(argv[1], names)) {
    return std::move(error).help(fmt::format("did you mean `{}`?", *meant));
  }
  return std::move(error).help("see `parascale --help`");
}

}  // namespace

Result<ParsedLine> parse_command_line(int argc, const char* const* argv) {
  Line line;
  line.app.set_version_flag("--version", fmt::format("parascale {}", kVersion));
  line.app.add_option("--local_rank,--local-rank", line.local_rank, "accepted for launchers that inject it; ignored")->group("");
  line.app.require_subcommand(1);
  line.app.footer("`parascale COMMAND --help` shows options and examples.");
  declare_config(line);
  declare_plan(line);
  declare_train(line);
  declare_infer(line);
  declare_others(line);
  PS_TRY(check_first_word(line.app, argc, argv));
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.parsed.text = line.app.help();
    return std::move(line.parsed);
  } catch (const CLI::CallForAllHelp&) {
    line.parsed.text = line.app.help("", CLI::AppFormatMode::All);
    return std::move(line.parsed);
  } catch (const CLI::CallForVersion&) {
    line.parsed.text = fmt::format("parascale {}\n", kVersion);
    return std::move(line.parsed);
  } catch (const CLI::ParseError& fault) {
    std::string message = fault.what();
    if (!message.empty()) {
      message.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(message.front())));
    }
    return Error(Code::usage, message).help("see `parascale --help`");
  }
  line.parsed.command = chosen(line);
  return std::move(line.parsed);
}

}  // namespace parascale::cli
