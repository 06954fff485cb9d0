#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace parascale::native {

/// Sums over the rows of a batch.
struct ClassificationSums {
  double loss = 0.0;  ///< cross-entropy
  std::int64_t top1 = 0;
  std::int64_t top5 = 0;
};

/// Cross-entropy with label smoothing (target (1 - s) * onehot + s / classes) of logits [rows, classes], computed in double.
///
/// With `gradient`, a tensor like logits, writes d(loss sum / denominator) / d logits. Ranks count equal logits by class index,
/// as a stable top-k does; a row whose own logit is not a number counts as wrong.
ClassificationSums classification_sums(const at::Tensor& logits, std::span<const std::int64_t> labels, double label_smoothing,
                                       at::Tensor* gradient = nullptr, double denominator = 1.0);

}  // namespace parascale::native
