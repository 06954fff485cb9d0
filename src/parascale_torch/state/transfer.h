#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "parascale/base/json.h"
#include "parascale/base/result.h"
#include "parascale_torch/state/inventory.h"

namespace parascale::native {

/// Copies the tensors that `assign` names ([{name, slice: null, offset}]) into the arena and returns the pieces ([{name, slice,
/// offset, bytes}]).
///
/// Errors: protocol_violation for an unknown name, a slice, an offset outside the arena, or two tensors that overlap.
Result<Json> copy_to_arena(const StateInventory& inventory, const Json& assign, std::span<std::byte> arena);

/// What `load` found; names.
struct LoadReport {
  std::vector<std::string> missing;     ///< in the inventory, not in the list
  std::vector<std::string> unexpected;  ///< in the list, not in the inventory
  std::vector<std::string> mismatched;  ///< sizes differ
};

/// Reads tensors ([{name, file, offset, bytes}]) straight into live memory. The agent has verified the files before.
///
/// With `strict` nothing is read unless all three lists are empty; otherwise what fits is read.
/// Errors: io_failed; protocol_violation for a malformed entry or a file that ends early.
Result<LoadReport> load_tensors(const StateInventory& inventory, const Json& tensors, bool strict);

}  // namespace parascale::native
