#include <fmt/core.h>
#include <unistd.h>

#include "parascale/base/text.h"
#include "parascale/cli/context.h"
#include "parascale/cli/train_view.h"
#include "parascale/evidence/evidence.h"
#include "parascale/workloads/workloads.h"

namespace parascale::cli {

namespace {

/// The plan to run and the config document that goes with it (empty when only a plan is at hand).
struct Job {
  plan::RuntimePlan plan;
  std::string config_document;
};

Result<Job> read_plan(Context& context, const std::string& path) {
  auto text = read_file(context.files, path, 64ULL << 20);
  if (!text.ok()) {
    return text.error()
        .wrap(Code::plan_invalid, fmt::format("the plan `{}` cannot be read", path))
        .help("make one with `parascale plan CONFIG --output FILE`");
  }
  PS_ASSIGN(const Json json, parse_json(*text, path));
  PS_ASSIGN(auto plan, plan::RuntimePlan::from_json(json));
  PS_TRY(plan::check_fit(plan, machine(context)));
  Job job{.plan = std::move(plan)};
  // The run directory keeps the config the plan was made from, unless it belongs to another run.
  const run::RunPaths paths{job.plan.run_dir};
  if (context.files.exists(paths.config())) {
    PS_ASSIGN(job.config_document, read_file(context.files, paths.config()));
  }
  return job;
}

run::ResumeRequest resume_request(const TrainCommand& command) {
  if (command.resume_step) {
    return {.mode = run::ResumeRequest::Mode::step, .step = Step{*command.resume_step}};
  }
  if (command.resume == "auto") {
    return {.mode = run::ResumeRequest::Mode::newest};
  }
  if (!command.resume.empty()) {
    return {.mode = run::ResumeRequest::Mode::reference, .reference = command.resume};
  }
  return {};
}

std::string capability_level(const plan::RuntimePlan& plan) {
  for (const auto& record : workloads::workload_records()) {
    if (record.name == plan.workload.name) {
      return record.capability_level;
    }
  }
  return "interface_ready";
}

Json metrics_history(Context& context, const run::RunPaths& paths) {
  Json history = Json::array();
  if (auto metrics = run::read_metrics(context.files, paths.metrics()); metrics.ok()) {
    for (const auto& record : run::effective_metrics(metrics->records)) {
      if (record.kind == run::MetricsKind::train) {
        if (auto json = parse_json(record.to_line(), "metrics.jsonl"); json.ok()) {
          history.push_back(std::move(json).value());
        }
      }
    }
  }
  return history;
}

/// The payload of `train` with the original's keys.
Json payload(Context& context, const Job& job, const run::RunPaths& paths, const run::TrainOutcome& outcome,
             const evidence::Evidence& evidence) {
  const plan::RuntimePlan& plan = job.plan;
  const bool synthetic = plan.data.options.type == data::DatasetType::synthetic;
  Json history = metrics_history(context, paths);
  const double seconds = std::chrono::duration<double>(outcome.wall_time).count();
  auto validation = outcome.last_checkpoint.empty() ? Result<checkpoint::Validation>(Error(Code::checkpoint_not_found, "none"))
                                                    : checkpoint::validate(context.files, outcome.last_checkpoint);
  Json evidence_json = evidence.to_json();
  return Json::object(
      {{"format_version", 1},
       {"mode", "train"},
       {"dry_run", false},
       {"runtime_status", synthetic ? "synthetic" : "real_local"},
       {"capability_level", capability_level(plan)},
       {"synthetic", synthetic},
       {"mock", plan.backend.worker == "fake"},
       {"workload", plan.workload.name},
       {"data_type", data::dataset_type_name(plan.data.options.type)},
       {"backend", plan.backend.name},
       {"optimizer",
        Json::object(
            {{"type", plan.optimizer.type}, {"state_schema_version", 1}, {"trainable_params", plan.workload.parameters}})},
       {"completed", outcome.completed},
       {"global_step", outcome.step.value},
       {"evaluation",
        [&] {
          Json metrics = Json::object();
          for (const auto& [name, value] : outcome.evaluation) {
            metrics[name] = value;
          }
          return metrics;
        }()},
       {"last_metrics", history.items().empty() ? Json() : history.items().back()},
       {"metrics_history", std::move(history)},
       {"train_device", plan.device.kind},
       {"elapsed_seconds", seconds},
       {"steps_per_second", seconds > 0.0 ? static_cast<double>(outcome.step.value) / seconds : 0.0},
       {"checkpoint", outcome.last_checkpoint.empty() ? Json() : Json(join_path(outcome.last_checkpoint, "manifest.json"))},
       {"checkpoint_validation", validation.ok() ? *validation->to_json().find("validation") : Json()},
       {"plan_hash", plan.hash()},
       {"config_artifacts",
        Json::object({{"run_dir", paths.directory}, {"resolved_config", paths.config()}, {"plan", paths.plan()}})},
       {"evidence", std::move(evidence_json)}});
}

int dry_run(Context& context, const TrainCommand& command, const Job& job) {
  Json json = job.plan.to_json();
  json["dry_run"] = true;
  json["capability_level"] = "dry_run";
  if (const Status delivered = deliver(context, json, command.output); !delivered.ok()) {
    return report_error(context, delivered.error());
  }
  if (!context.json()) {
    context.console.data(plan::plan_text(job.plan) + "dry run: nothing was started\n");
  }
  return 0;
}

int run_job(Context& context, const TrainCommand& command, const Job& job) {
  const run::RunPaths paths{job.plan.run_dir};
  TrainView view(context.console, job.plan);
  const auto outcome = run::train({.plan = job.plan,
                                   .paths = paths,
                                   .config_document = job.config_document,
                                   .programs = programs(context, job.plan.backend.worker),
                                   .resume = resume_request(command),
                                   .sinks = {&view}});
  if (!outcome.ok()) {
    const int exit = report_error(context, outcome.error());
    const Code code = outcome.error().code();
    if (code != Code::run_exists && code != Code::run_locked && run::holds_run(paths)) {
      (void)evidence::write_evidence(paths.directory, context.files, real_clock());  // best effort: the failure has been reported
    }
    return exit;
  }
  const auto evidence = evidence::write_evidence(paths.directory, context.files, real_clock());
  if (!evidence.ok()) {
    return report_error(context, evidence.error());
  }
  if (context.json() || !command.output.empty()) {
    if (const Status delivered = deliver(context, payload(context, job, paths, *outcome, evidence->evidence), command.output);
        !delivered.ok()) {
      return report_error(context, delivered.error());
    }
  }
  if (!context.json()) {
    context.console.data(evidence->text);
    context.console.next(outcome->completed
                             ? fmt::format("parascale infer --checkpoint {}/best --input <pictures>", paths.directory)
                             : fmt::format("parascale train --plan {} --resume auto", paths.plan()));
  }
  return 0;
}

}  // namespace

int train(Context& context, const TrainCommand& command) {
  if (command.config.path.empty() == command.plan.empty()) {
    return report_error(context, Error(Code::usage, command.plan.empty() ? "neither a config nor a plan is given"
                                                                         : "a config and a plan are given")
                                     .help("parascale train CONFIG, or parascale train --plan FILE"));
  }
  if (!command.plan.empty() && !command.config.overrides.empty()) {
    return report_error(context, Error(Code::usage, "a plan and overrides are given: a plan runs as it is")
                                     .help("make another plan: `parascale plan CONFIG --set ... --output FILE`"));
  }
  if (!command.resume.empty() && command.resume_step) {
    return report_error(context, Error(Code::usage, "--resume and --resume-step are both given").help("give one of them"));
  }
  Job job;
  if (!command.plan.empty()) {
    auto read = read_plan(context, command.plan);
    if (!read.ok()) {
      return report_error(context, read.error());
    }
    job = std::move(read).value();
  } else {
    int exit = 0;
    auto planned = plan_or_report(context, command.config, exit);
    if (!planned) {
      return exit;
    }
    job = {.plan = std::move(planned->plan), .config_document = planned->config.to_json().dump_pretty() + "\n"};
  }
  return command.dry_run ? dry_run(context, command, job) : run_job(context, command, job);
}

}  // namespace parascale::cli
