#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace parascale::native {

/// A tensor of a checkpoint that lies in rows [row, row + rows) of a leaf parameter's first dimension.
struct NamedPart {
  std::string name;  ///< as in saved files: `vit.encoder.layer.0.attention.attention.query.weight`
  std::int64_t row = 0;
  std::int64_t rows = 0;
};

/// A leaf of the model: what the optimizer updates at once. It may hold several tensors of the checkpoint, as contiguous row
/// ranges.
struct Parameter {
  std::string name;
  at::Tensor value;
  bool decay = true;  ///< in the weight decay group; norms, biases, positions and the class token are not
  std::vector<NamedPart> parts;

  /// The checkpoint group of optimizer settings: `decay` or `no_decay`.
  const char* group() const { return decay ? "decay" : "no_decay"; }
};

}  // namespace parascale::native
