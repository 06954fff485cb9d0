#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parascale/base/error.h"
#include "parascale/config/resolved_config.h"

namespace parascale::config {

/// Where a setting got its value, as far as the rules that compare settings need to know.
struct FieldState {
  bool failed = false;  ///< its value could not be read: rules that need it are silent
  bool explicitly_set = false;
  std::optional<Mark> mark;  ///< of the value in force, when it was given
};

/// What the rules see. `states` holds every known setting, `sections` the sections that were given.
struct CrossFieldInput {
  const ResolvedConfig& config;
  std::map<std::string, FieldState, std::less<>> states;
  std::map<std::string, Mark, std::less<>> sections;
};

/// Checks the rules between settings. Errors: cross_field and missing_setting, at the last given setting of those involved; the
/// others are named in notes with their places. *thread-safe*
std::vector<Error> check_cross_fields(const CrossFieldInput& input);

}  // namespace parascale::config
