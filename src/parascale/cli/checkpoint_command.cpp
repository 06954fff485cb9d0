#include "parascale/checkpoint/checkpoint.h"
#include "parascale/cli/context.h"

namespace parascale::cli {

int checkpoint_validate(Context& context, const CheckpointValidateCommand& command) {
  const auto validation = checkpoint::validate(context.files, command.checkpoint);
  if (!validation.ok()) {
    return report_error(context, validation.error());
  }
  if (context.json() || !command.output.empty()) {
    if (const Status delivered = deliver(context, validation->to_json(), command.output); !delivered.ok()) {
      return report_error(context, delivered.error());
    }
  }
  if (!context.json()) {
    context.console.data(validation->to_text());
  }
  const Status status = validation->status();
  return status.ok() ? 0 : report_error(context, status.error());
}

}  // namespace parascale::cli
