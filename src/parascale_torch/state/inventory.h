#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "parascale/base/json.h"
#include "parascale_torch/models/parameter.h"

namespace parascale::native {

/// One tensor of the rank's state under its saved name; `value` is a contiguous view of live memory.
struct StateTensor {
  std::string name;
  std::string kind;  ///< `param` or `moment`
  at::Tensor value;
  bool trainable = false;
  std::string group;  ///< `decay`, `no_decay`, or empty

  std::span<std::byte> bytes() const;
};

/// Everything a checkpoint holds of this rank, in a fixed order. *thread-compatible*
class StateInventory {
 public:
  /// Adds the named parts of `parameter`, each with `prefix` before its name; `storage` has the parameter's shape.
  void add_parts(const Parameter& parameter, const at::Tensor& storage, std::string_view prefix, std::string_view kind);
  void add(StateTensor tensor);

  const std::vector<StateTensor>& tensors() const { return tensors_; }
  const StateTensor* find(std::string_view name) const;
  std::uint64_t bytes(std::string_view kind) const;
  /// The member `state` of `ready`.
  Json to_json() const;

 private:
  std::vector<StateTensor> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace parascale::native
