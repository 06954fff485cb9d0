#include "parascale/checkpoint/options.h"

#include "parascale/base/text.h"

namespace parascale::checkpoint {

Json CheckpointOptions::to_json() const {
  return Json::object({{"root", root}, {"interval_steps", interval_steps}, {"keep_last", keep_last}, {"keep_best", keep_best}});
}

Result<CheckpointOptions> CheckpointOptions::from_json(const Json& json) {
  const CheckpointOptions defaults;
  CheckpointOptions options;
  PS_ASSIGN(options.root, json.get<std::string>("root"));
  PS_ASSIGN(options.interval_steps, json.get_or<std::uint64_t>("interval_steps", defaults.interval_steps));
  PS_ASSIGN(options.keep_last, json.get_or<std::uint64_t>("keep_last", defaults.keep_last));
  PS_ASSIGN(options.keep_best, json.get_or<bool>("keep_best", defaults.keep_best));
  return options;
}

}  // namespace parascale::checkpoint
