#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parascale/base/error.h"
#include "parascale/config/marked_node.h"

namespace parascale::config {

/// Seam for environment variables: returns the value of a name, or nothing when it is not defined.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// The variables of this process.
Environment process_environment();
/// Fixed variables, for tests.
Environment fixed_environment(std::map<std::string, std::string> variables);

/// Puts `${NAME}` in all string values of the tree, in place; keys stay as they are. What is put in is not looked at again. A
/// plain scalar with a variable keeps both readings: a setting that wants a number reads it as one, every other as a string.
///
/// Returns one undefined_variable error per place, with the place of the variable; also for `${...}` that holds no name.
std::vector<Error> expand_variables(MarkedNode& node, const SourceText& source, const Environment& environment);

}  // namespace parascale::config
