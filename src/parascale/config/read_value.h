#pragma once

#include <optional>
#include <vector>

#include "parascale/config/marked_node.h"
#include "parascale/config/setting.h"

namespace parascale::config {

/// A value in the form of its setting (aliases of names replaced, integers and numbers apart), or the reasons why there is none.
/// Neither: an undefined variable, reported before.
struct ReadValue {
  std::optional<Json> value;
  std::vector<Error> errors;
};

/// Reads what stands in `node` as `setting`; `key` is the place shown for containers and missing values.
/// Errors: wrong_type, out_of_bounds, unknown_value, each at the value or list item concerned. *thread-safe*
ReadValue read_value(const Setting& setting, const MarkedNode& node, const SourceText& source, const Place& key);

/// Returns the mark of a value: its own place, or the key's for block containers and missing values.
Mark value_mark(const MarkedNode& node, const SourceText& source, const Place& key);

}  // namespace parascale::config
