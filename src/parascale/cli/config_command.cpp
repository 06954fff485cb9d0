#include "parascale/cli/context.h"

namespace parascale::cli {

int config_validate(Context& context, const ConfigValidateCommand& command) {
  const auto outcome = config::load_config({.path = command.config.path, .overrides = command.config.overrides});
  for (const auto& warning : outcome.warnings) {
    context.console.warning(warning);
  }
  if (context.json() || !command.output.empty()) {
    if (const Status delivered = deliver(context, config::validation_json(outcome, command.config.path), command.output);
        !delivered.ok()) {
      return report_error(context, delivered.error());
    }
  }
  if (!outcome.config) {
    return report_errors(context, outcome.errors, command.config.path);
  }
  if (!context.json() && command.output.empty()) {
    context.console.data(config::summary_text(*outcome.config) + "\n");
  }
  return 0;
}

int config_show(Context& context, const ConfigShowCommand& command) {
  const auto config = load_or_report(context, command.config);
  if (!config) {
    return exit_code(ErrorKind::config);
  }
  const config::ShowOptions options{.origins = command.origins, .all = command.all};
  context.console.data(context.json() ? config::show_json(*config, options).dump_pretty() + "\n"
                                      : config::show_text(*config, options));
  return 0;
}

}  // namespace parascale::cli
