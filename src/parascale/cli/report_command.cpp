#include "parascale/cli/context.h"
#include "parascale/evidence/evidence.h"

namespace parascale::cli {

int report(Context& context, const ReportCommand& command) {
  const auto evidence = evidence::write_evidence(command.run_dir, context.files, real_clock());
  if (!evidence.ok()) {
    return report_error(context, evidence.error());
  }
  context.console.data(context.json() ? evidence->evidence.to_json().dump_pretty() + "\n" : evidence->text);
  return 0;
}

}  // namespace parascale::cli
