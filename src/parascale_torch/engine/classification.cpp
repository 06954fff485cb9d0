#include "parascale_torch/engine/classification.h"

#include <ATen/Dispatch.h>

#include <cmath>
#include <vector>

#include "parascale/base/check.h"

namespace parascale::native {

namespace {

/// Classes that a stable descending sort puts before `label`.
template <typename T>
std::int64_t rank_of(const T* row, std::int64_t classes, std::int64_t label) {
  if (!(row[label] == row[label])) {
    return classes;
  }
  std::int64_t before = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    before += row[c] > row[label] || (row[c] == row[label] && c < label) ? 1 : 0;
  }
  return before;
}

/// Loss of one row; leaves the softmax in `probability`.
template <typename T>
double row_loss(const T* row, std::int64_t label, double smoothing, std::vector<double>& probability) {
  double top = static_cast<double>(row[0]);
  double total = 0.0;
  const std::size_t classes = probability.size();
  for (std::size_t c = 1; c < classes; ++c) {
    top = std::fmax(top, static_cast<double>(row[c]));
  }
  double logit_sum = 0.0;
  for (std::size_t c = 0; c < classes; ++c) {
    const double shifted = static_cast<double>(row[c]) - top;
    probability[c] = std::exp(shifted);
    total += probability[c];
    logit_sum += shifted;
  }
  for (double& p : probability) {
    p /= total;
  }
  const double log_total = std::log(total);
  const double own = log_total - (static_cast<double>(row[label]) - top);
  if (smoothing == 0.0) {
    return own;
  }
  const double mean = log_total - logit_sum / static_cast<double>(classes);
  return (1.0 - smoothing) * own + smoothing * mean;
}

template <typename T>
ClassificationSums sums_of(const at::Tensor& logits, std::span<const std::int64_t> labels, double smoothing, T* gradient,
                           double denominator) {
  const std::int64_t classes = logits.size(1);
  const T* values = logits.const_data_ptr<T>();
  std::vector<double> probability(static_cast<std::size_t>(classes));
  ClassificationSums sums;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::int64_t label = labels[i];
    const T* row = values + static_cast<std::int64_t>(i) * classes;
    sums.loss += row_loss(row, label, smoothing, probability);
    const std::int64_t rank = rank_of(row, classes, label);
    sums.top1 += rank < 1 ? 1 : 0;
    sums.top5 += rank < 5 ? 1 : 0;
    if (gradient != nullptr) {
      T* out = gradient + static_cast<std::int64_t>(i) * classes;
      for (std::int64_t c = 0; c < classes; ++c) {
        const double target = smoothing / static_cast<double>(classes) + (c == label ? 1.0 - smoothing : 0.0);
        out[c] = static_cast<T>((probability[static_cast<std::size_t>(c)] - target) / denominator);
      }
    }
  }
  return sums;
}

}  // namespace

ClassificationSums classification_sums(const at::Tensor& logits, std::span<const std::int64_t> labels, double label_smoothing,
                                       at::Tensor* gradient, double denominator) {
  PS_CHECK(logits.is_contiguous() && logits.dim() == 2 && logits.size(0) == static_cast<std::int64_t>(labels.size()),
           "there is one label per row of logits");
  if (logits.scalar_type() == at::kDouble) {
    return sums_of<double>(logits, labels, label_smoothing, gradient != nullptr ? gradient->mutable_data_ptr<double>() : nullptr,
                           denominator);
  }
  return sums_of<float>(logits, labels, label_smoothing, gradient != nullptr ? gradient->mutable_data_ptr<float>() : nullptr,
                        denominator);
}

}  // namespace parascale::native
