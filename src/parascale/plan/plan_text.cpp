#include <fmt/core.h>

#include "parascale/base/text.h"
#include "parascale/plan/planner.h"

namespace parascale::plan {

namespace {

class Table {
 public:
  void row(std::string_view name, std::string_view value, std::string_view third = {}, std::string_view fourth = {},
           bool changed = false) {
    std::string line =
        fmt::format("{} {:<12} {:<18}{}", changed ? '~' : ' ', name, value, third.empty() && fourth.empty() ? "" : " ");
    line += fourth.empty() ? std::string(third) : fmt::format("{:<18} {}", third, fourth);
    line.erase(line.find_last_not_of(' ') + 1);
    out_ += line + "\n";
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

std::string memory_parts(const RuntimePlan& plan) {
  std::vector<std::string> parts;
  for (const auto& component : plan.memory) {
    if (component.bytes >= (1ULL << 20)) {
      parts.push_back(fmt::format("{} {}", component.name, component.bytes >> 20));
    }
  }
  return join(parts, ", ");
}

std::string schedule_text(const LrPlan& lr) {
  std::string out = fmt::format("{} {}", lr.type, lr.peak);
  if (lr.warmup_steps > 0) {
    out += fmt::format(", warm-up {}", lr.warmup_steps);
  }
  return out;
}

}  // namespace

std::string plan_text(const RuntimePlan& plan) {
  std::string source = plan.config_path.empty() ? "defaults" : plan.config_path;
  if (plan.override_count > 0) {
    source += fmt::format(" + {}", format_count(plan.override_count, "override"));
  }
  Table table;
  const auto ranks = format_count(plan.backend.world_size, "rank");
  table.row("backend", plan.backend.name, fmt::format("{}, {}", ranks, plan.device.kind),
            fmt::format("worker {}", plan.backend.worker));
  table.row("precision", plan.backend.precision);
  table.row("batch", fmt::format("{} global", plan.batch.global(plan.backend.world_size)),
            fmt::format("{} x {} x {} accumulation", ranks, plan.batch.per_rank, plan.batch.accumulation));
  table.row("model", plan.workload.name, fmt::format("{} parameters", format_thousands(plan.workload.parameters)));
  table.row("data", fmt::format("{} train", format_thousands(plan.data.train_samples)),
            fmt::format("{} validation", format_thousands(plan.data.validation_samples)),
            fmt::format("{} an epoch", format_count(plan.data.steps_per_epoch, "step")));
  table.row("optimizer", plan.optimizer.type, schedule_text(plan.schedule.lr));
  table.row("steps", format_thousands(plan.schedule.max_steps),
            plan.data.validation_samples == 0        ? std::string("no evaluation")
            : plan.schedule.evaluation_interval == 0 ? std::string("evaluation at end")
                                                     : fmt::format("evaluation every {}", plan.schedule.evaluation_interval),
            plan.schedule.evaluation_metric);
  table.row("checkpoint", fmt::format("every {}", plan.checkpoint.interval_steps),
            fmt::format("keep {} and best", plan.checkpoint.keep_last), plan.checkpoint.root);
  table.row("threads", fmt::format("{} intra-op", plan.threads.intra_op), fmt::format("{} engine", plan.threads.engine),
            fmt::format("{} cores", plan.threads.cores));
  table.row("memory", fmt::format("{}/rank", format_bytes(plan.memory_bytes_per_rank())), "estimate, MiB", memory_parts(plan));
  for (const auto& change : plan.changes) {
    table.row(change.path, change.planned, fmt::format("asked {}", change.asked),
              change.code.empty() ? change.reason : fmt::format("{} ({})", change.reason, change.code), true);
  }
  std::string out = fmt::format("Plan {} for {} ({})\n\n{}", plan.hash().substr(0, 6), plan.name, source, table.take());
  for (const auto& warning : plan.warnings) {
    out += fmt::format("! {}\n", warning);
  }
  return out;
}

}  // namespace parascale::plan
