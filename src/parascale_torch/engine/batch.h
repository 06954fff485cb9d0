#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "parascale/base/result.h"
#include "parascale/protocol/slot.h"
#include "parascale_torch/models/vit/vit_config.h"

namespace parascale::native {

/// The valid rows of a batch slot as tensors over the shared memory itself; padding rows are left out. Lives as long as the slot
/// is not released.
struct Batch {
  at::Tensor pixels;                     ///< f32 [valid, channels, size, size]
  std::span<const std::int64_t> labels;  ///< valid labels in [0, num_labels); empty when the slot carries none
  std::span<const std::uint64_t> ids;    ///< valid sample ids
  std::int64_t valid = 0;
};

enum class Labels : std::uint8_t { required, optional };

/// Reads slot `index` of the ring. Errors: protocol_violation for a slot outside its bounds or tensors the model does not take;
/// label_invalid for a label outside the model's classes.
Result<Batch> read_batch(std::span<const std::byte> region, const protocol::SlotLayout& layout, std::uint32_t index,
                         const VitConfig& model, Labels labels);

}  // namespace parascale::native
