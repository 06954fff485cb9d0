#pragma once

#include <string_view>

#include "parascale/base/json.h"
#include "parascale/config/marked_node.h"

namespace parascale::config {

/// Gives a plain (unquoted) text its value by the core schema of YAML 1.2 (section 10.3.2): null, true/false, decimal, 0o and 0x
/// integers, floats with .inf and .nan; everything else is a string. `yes`, `on`, `~x` are strings, `010` is ten. Integers beyond
/// 64 bits become floats.
Json plain_scalar(std::string_view text);

/// Turns a node into JSON: quoted scalars are strings, plain ones by `plain_scalar`. Non-finite numbers stay (and are written as
/// null).
Json to_json(const MarkedNode& node);

}  // namespace parascale::config
