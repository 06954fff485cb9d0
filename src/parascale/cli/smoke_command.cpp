#include <fmt/core.h>
#include <poll.h>

#include <chrono>
#include <functional>

#include "parascale/base/clock.h"
#include "parascale/base/text.h"
#include "parascale/cli/context.h"

namespace parascale::cli {

namespace {

constexpr std::string_view kDefaultConfig = "configs/quickstart/digits_vit.yaml";
constexpr std::string_view kDefaultReport = "runs/server_smoke_report.json";
constexpr std::string_view kRunDir = "runs/smoke";

/// The line of a log that names the error, or its last line.
std::string first_error(const std::string& log_path) {
  const auto lines = run::log_tail(log_path, 50);
  for (const auto& line : lines) {
    if (line.starts_with("error[")) {
      return line;
    }
  }
  return lines.empty() ? "it said nothing" : lines.back();
}

/// Runs commands of this very program as children, one after another, and notes what each did.
class Smoke {
 public:
  Smoke(Context& context, const SmokeCommand& command) : context_(context), command_(command) {}

  bool step(const std::string& name, std::vector<std::string> arguments) {
    if (failed_) {
      steps_[name] = Json::object({{"ok", false}, {"skipped", true}, {"reason", "an earlier step failed"}});
      return false;
    }
    context_.console.status("Smoke", name);
    const std::int64_t begun = real_clock().monotonic_ns();
    const std::string result_path = join_path(std::string(kRunDir), fmt::format("smoke-{}.json", name));
    const std::string log_path = join_path(std::string(kRunDir), fmt::format("smoke-{}.log", name));
    arguments.insert(arguments.end(), {"--output", result_path});
    auto child = run::ChildProcess::spawn({.program = context_.program, .arguments = std::move(arguments), .log_path = log_path});
    Json entry = Json::object({{"ok", false}});
    if (!child.ok()) {
      entry["error_type"] = error_type(child.error().kind());
      entry["error"] = child.error().message();
    } else {
      const run::ExitStatus status = child->wait_or_kill(std::chrono::minutes(30));
      entry["ok"] = status.clean();
      if (auto text = read_file(context_.files, result_path); status.clean() && text.ok()) {
        entry["result"] = result_path;
      }
      if (!status.clean()) {
        exit_ = status.code != 0 ? status.code : exit_code(ErrorKind::run);
        entry["error_type"] = "command_failed";
        entry["error"] = fmt::format("{}: {}", status.text(), first_error(log_path));
        entry["log"] = log_path;
      }
    }
    entry["elapsed_seconds"] = static_cast<double>(real_clock().monotonic_ns() - begun) * 1e-9;
    const bool ok = entry.find("ok")->to_bool().value_or(false);
    if (!ok) {
      failed_ = name;
      context_.console.error(
          Error(Code::step_failed, fmt::format("smoke step `{}` failed: {}", name, *entry.find("error")->to_string()))
              .note(fmt::format("log: {}", log_path)));
    }
    steps_[name] = std::move(entry);
    return ok;
  }

  int finish(const std::string& config, double started_at) {
    const Json report = Json::object({{"format_version", 1},
                                      {"config", config},
                                      {"started_at_unix", started_at},
                                      {"steps", steps_},
                                      {"ok", !failed_.has_value()},
                                      {"finished_at_unix", static_cast<double>(real_clock().wall_ns()) * 1e-9}});
    const std::string path = command_.output.empty() ? std::string(kDefaultReport) : command_.output;
    if (const Status delivered = deliver(context_, report, path); !delivered.ok()) {
      return report_error(context_, delivered.error());
    }
    context_.console.data(context_.json() ? report.dump_pretty() + "\n" : path + "\n");
    return failed_ ? exit_ : 0;
  }

 private:
  Context& context_;
  const SmokeCommand& command_;
  Json steps_ = Json::object();
  std::optional<std::string> failed_;
  int exit_ = exit_code(ErrorKind::run);
};

}  // namespace

int smoke(Context& context, const SmokeCommand& command) {
  const double started_at = static_cast<double>(real_clock().wall_ns()) * 1e-9;
  const std::string config = command.config.path.empty() ? std::string(kDefaultConfig) : command.config.path;
  const std::string run_dir(kRunDir);
  if (const Status cleared = remove_tree(context.files, run_dir); !cleared.ok()) {
    return report_error(context, cleared.error());
  }
  if (const Status made = make_directories(context.files, run_dir); !made.ok()) {
    return report_error(context, made.error());
  }
  const std::string train_dir = join_path(run_dir, "run");
  std::vector<std::string> small = {"--config", config};
  const auto set = [&](std::vector<std::string>& arguments, const std::string& override) {
    arguments.insert(arguments.end(), {"--set", override});
  };
  for (const auto& override : command.config.overrides) {
    set(small, override);
  }
  for (const char* override : {"training.max_steps=12", "parascale.training.checkpoint_save_interval=4",
                               "training.lr_schedule.warmup_steps=2", "training.evaluation.interval=6"}) {
    set(small, override);
  }
  set(small, fmt::format("runtime.run_dir={}", train_dir));
  const auto with = [&](std::initializer_list<std::string> head, std::initializer_list<std::string> tail) {
    std::vector<std::string> arguments(head);
    arguments.insert(arguments.end(), small.begin(), small.end());
    arguments.insert(arguments.end(), tail);
    return arguments;
  };
  Smoke smoke(context, command);
  smoke.step("doctor", {"doctor", "--strict"});
  smoke.step("plan", with({"plan"}, {}));
  if (!command.skip_real) {
    smoke.step("train", with({"train"}, {}));
    smoke.step("checkpoint_validate", {"checkpoint", "validate", "--checkpoint", train_dir});
    smoke.step("resume", with({"train"}, {"--resume-step", "8"}));
    smoke.step("infer", {"infer", "--checkpoint", join_path(train_dir, "best"), "--input", "examples/digits_png"});
  }
  return smoke.finish(config, started_at);
}

}  // namespace parascale::cli
