#include "parascale/run/resume.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "parascale/base/text.h"
#include "parascale/run/schedule.h"

namespace parascale::run {

namespace {

/// Members of the plan that decide what a step computes: a resumed run must have the same.
constexpr std::array<std::string_view, 18> kMustMatch = {"model",
                                                         "preprocessor",
                                                         "workload.name",
                                                         "batch.per_rank",
                                                         "batch.accumulation",
                                                         "batch.global",
                                                         "batch.fields",
                                                         "data.drop_last",
                                                         "data.train_fingerprint",
                                                         "data.validation_fingerprint",
                                                         "data.steps_per_epoch",
                                                         "data.options.recipe",
                                                         "data.options.affine",
                                                         "data.options.seed",
                                                         "optimizer.type",
                                                         "training.seed",
                                                         "backend.world_size",
                                                         "backend.precision"};
/// Members whose change is worth a line: they change what later steps do, on purpose.
constexpr std::array<std::string_view, 6> kMayDiffer = {"optimizer",    "schedule",       "training",
                                                        "backend.name", "backend.worker", "threads.intra_op"};

const Json* at_path(const Json& json, std::string_view path) {
  const Json* value = &json;
  for (const auto& part : split(path, '.')) {
    value = value != nullptr ? value->find(part) : nullptr;
  }
  return value;
}

std::string shown(const Json* value) {
  const std::string text = value == nullptr ? "absent" : value->dump();
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

Result<std::vector<std::string>> compare_plans(const Json& stored, const Json& now) {
  const auto differs = [&](std::string_view path) {
    const Json* a = at_path(stored, path);
    const Json* b = at_path(now, path);
    return a == nullptr || b == nullptr ? a != b : a->canonical() != b->canonical();
  };
  Error refused(Code::resume_refused, "the checkpoint was made by a run that differs in what a step computes");
  for (const auto path : kMustMatch) {
    if (differs(path)) {
      refused.note(fmt::format("{}: checkpoint {}, now {}", path, shown(at_path(stored, path)), shown(at_path(now, path))));
    }
  }
  if (!refused.notes().empty()) {
    return std::move(refused).help("resume with the run's own config, or start a new run with `model.init_from`");
  }
  std::vector<std::string> changes;
  for (const auto path : kMayDiffer) {
    if (differs(path)) {
      changes.push_back(fmt::format("{}: checkpoint {}, now {}", path, shown(at_path(stored, path)), shown(at_path(now, path))));
    }
  }
  return changes;
}

const std::string* find_text(const checkpoint::OpenedCheckpoint& opened, const std::string& path) {
  const auto found = opened.texts.find(path);
  return found != opened.texts.end() ? &found->second : nullptr;
}

Result<StartPoint> start_from(checkpoint::OpenedCheckpoint opened, const plan::RuntimePlan& plan) {
  const std::string* state_json = find_text(opened, "training/state.json");
  const std::string* plan_json = find_text(opened, "training/plan.json");
  if (!opened.manifest || state_json == nullptr || plan_json == nullptr) {
    return Error(Code::resume_refused, fmt::format("`{}` holds weights but no training state", opened.directory))
        .help("start a new run from these weights with `model.init_from`");
  }
  PS_ASSIGN(const Json state, parse_json(*state_json, "training/state.json"));
  PS_ASSIGN(const Json stored, parse_json(*plan_json, "training/plan.json"));
  StartPoint start;
  PS_ASSIGN(start.step.value, state.get<std::uint64_t>("step"));
  PS_ASSIGN(const bool evaluated, state.get<bool>("evaluated"));
  start.evaluation_owed = !evaluated && evaluates_after(plan, start.step);
  if (const Json* best = state.find("best"); best != nullptr && !best->is_null()) {
    Best value;
    PS_ASSIGN(value.step.value, best->get<std::uint64_t>("step"));
    PS_ASSIGN(value.value, best->get<double>("value"));
    PS_ASSIGN(const auto metric, best->get<std::string>("metric"));
    if (metric == plan.schedule.evaluation_metric) {
      start.best = value;
    }
  }
  PS_ASSIGN(start.changes, compare_plans(stored, plan.to_json()));
  start.source = std::move(opened);
  return start;
}

Result<StartPoint> start_from_directory(const std::string& directory, const plan::RuntimePlan& plan) {
  PS_ASSIGN(auto opened, checkpoint::open_for_load(real_file_system(), directory));
  return start_from(std::move(opened), plan);
}

Result<StartPoint> start_newest(const plan::RuntimePlan& plan) {
  PS_ASSIGN(auto newest, checkpoint::find_newest_verified(real_file_system(), plan.checkpoint.root));
  if (newest.found) {
    PS_ASSIGN(auto start, start_from_directory(newest.found->path, plan));
    start.skipped = std::move(newest.skipped);
    return start;
  }
  if (newest.skipped.empty()) {
    return StartPoint{};  // nothing was committed yet: a supervisor that always says `--resume auto` starts here
  }
  Error error(Code::checkpoint_not_found, fmt::format("no checkpoint in `{}` verifies", plan.checkpoint.root));
  for (const auto& skipped : newest.skipped) {
    error.note(fmt::format("{}: {}", skipped.path, skipped.reason.message()));
  }
  return std::move(error).help("look at `parascale checkpoint validate`; to start over, choose another `runtime.run_dir`");
}

}  // namespace

bool improves(const std::string& metric, double value, double best) { return metric == "loss" ? value < best : value > best; }

Status check_fresh(const ResumeRequest& request, const RunPaths& paths) {
  if (request.mode == ResumeRequest::Mode::fresh && holds_run(paths)) {
    return Error(Code::run_exists, fmt::format("`{}` already holds a run", paths.directory))
        .help("go on with it: `--resume auto`")
        .help("or start beside it: `--set runtime.run_dir=<another directory>`");
  }
  return {};
}

Result<StartPoint> find_start(const ResumeRequest& request, const plan::RuntimePlan& plan) {
  switch (request.mode) {
    case ResumeRequest::Mode::fresh:
      return StartPoint{};
    case ResumeRequest::Mode::newest:
      return start_newest(plan);
    case ResumeRequest::Mode::step:
      return start_from_directory(join_path(plan.checkpoint.root, checkpoint::step_directory_name(request.step)), plan);
    case ResumeRequest::Mode::reference: {
      PS_ASSIGN(auto resolved, checkpoint::resolve_reference(real_file_system(), request.reference));
      PS_ASSIGN(auto start, start_from_directory(resolved.directory, plan));
      start.skipped = std::move(resolved.skipped);
      return start;
    }
  }
  return StartPoint{};
}

std::string state_text(const plan::RuntimePlan& plan, Step step, bool evaluated, const std::optional<Best>& best) {
  Json best_json;
  if (best) {
    best_json = Json::object({{"step", best->step.value}, {"value", best->value}, {"metric", plan.schedule.evaluation_metric}});
  }
  return Json::object({{"format_version", 1},
                       {"step", step.value},
                       {"samples", samples_after(plan, step)},
                       {"epoch", epochs_after(plan, step)},
                       {"seed", plan.training.seed},
                       {"evaluated", evaluated},
                       {"best", std::move(best_json)}})
             .dump_pretty() +
         "\n";
}

}  // namespace parascale::run
