#include <fmt/core.h>

#include "parascale/cli/context.h"

namespace parascale::cli {

int plan(Context& context, const PlanCommand& command) {
  int exit = 0;
  const auto planned = plan_or_report(context, command.config, exit);
  if (!planned) {
    return exit;
  }
  if (const Status delivered = deliver(context, planned->plan.to_json(), command.output); !delivered.ok()) {
    return report_error(context, delivered.error());
  }
  if (!context.json()) {
    context.console.data(plan::plan_text(planned->plan));
    context.console.data(
        fmt::format("~ changed by the planner     {}, 0 errors. Nothing was started.\n",
                    planned->plan.changes.size() == 1 ? "1 change" : fmt::format("{} changes", planned->plan.changes.size())));
    context.console.next(command.output.empty() ? fmt::format("parascale train {}", command.config.path)
                                                : fmt::format("parascale train --plan {}", command.output));
  }
  return 0;
}

}  // namespace parascale::cli
