#include <cstdlib>

#include "parascale/base/text.h"
#include "parascale/cli/context.h"
#include "parascale/data/data.h"
#include "parascale/protocol/protocol.h"

namespace parascale::cli {

int data_engine(Context& context, const DataEngineCommand&) {
  const char* text = std::getenv(protocol::kWorkerFdVariable);
  const auto fd = parse_int64(text != nullptr ? text : "");
  if (!fd) {
    return report_error(context,
                        Error(Code::usage, "the data engine is started by a run, not by hand").help("parascale train CONFIG"));
  }
  const Status status = data::run_engine(protocol::Channel(UniqueFd(static_cast<int>(*fd))), context.files);
  return status.ok() ? 0 : report_error(context, status.error());
}

}  // namespace parascale::cli
