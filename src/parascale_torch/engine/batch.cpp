#include "parascale_torch/engine/batch.h"

#include <ATen/ops/from_blob.h>
#include <fmt/core.h>

namespace parascale::native {

namespace {

Error violation(std::string message) { return Error(Code::protocol_violation, std::move(message)); }

Result<at::Tensor> read_pixels(const protocol::SlotTensor& tensor, const VitConfig& model, std::int64_t valid) {
  const auto channels = static_cast<std::uint64_t>(model.num_channels);
  const auto size = static_cast<std::uint64_t>(model.image_size);
  const bool fits = tensor.dtype == Dtype::f32 && tensor.shape.size() == 4 && tensor.shape[1] == channels &&
                    tensor.shape[2] == size && tensor.shape[3] == size;
  if (!fits) {
    return violation(fmt::format("tensor `pixel_values` is not F32 [N, {}, {}, {}]", channels, size, size));
  }
  // The mapping is read-only; no operator writes to its inputs here.
  void* memory = const_cast<std::byte*>(tensor.bytes.data());
  return at::from_blob(memory, {valid, model.num_channels, model.image_size, model.image_size}, at::TensorOptions(at::kFloat));
}

Result<std::span<const std::int64_t>> read_labels(const protocol::SlotView& view, const VitConfig& model, std::size_t valid) {
  const protocol::SlotTensor* tensor = view.find("labels");
  if (tensor == nullptr || tensor->dtype != Dtype::i64 || tensor->shape.size() != 1) {
    return violation("the slot has no tensor `labels` of I64 [N]");
  }
  const void* memory = tensor->bytes.data();
  const std::span<const std::int64_t> labels(static_cast<const std::int64_t*>(memory), valid);
  for (std::size_t row = 0; row < valid; ++row) {
    if (labels[row] < 0 || labels[row] >= model.num_labels) {
      return Error(Code::label_invalid,
                   fmt::format("sample {} has label {}; the model has {} classes", view.ids[row], labels[row], model.num_labels));
    }
  }
  return labels;
}

}  // namespace

Result<Batch> read_batch(std::span<const std::byte> region, const protocol::SlotLayout& layout, std::uint32_t index,
                         const VitConfig& model, Labels labels) {
  if (index >= layout.slot_count || region.size() < layout.region_bytes()) {
    return violation(fmt::format("slot {} lies outside the ring of {} slots", index, layout.slot_count));
  }
  PS_ASSIGN(const auto view, protocol::read_slot(region.subspan(index * layout.slot_bytes, layout.slot_bytes)));
  if (view.header.kind != static_cast<std::uint32_t>(protocol::SlotKind::tensors)) {
    return violation(fmt::format("slot {} carries no ready tensors", index));
  }
  const protocol::SlotTensor* pixels = view.find("pixel_values");
  if (pixels == nullptr) {
    return violation(fmt::format("slot {} has no tensor `pixel_values`", index));
  }
  Batch batch;
  batch.valid = view.header.valid_count;
  batch.ids = view.ids.first(view.header.valid_count);
  PS_ASSIGN(batch.pixels, read_pixels(*pixels, model, batch.valid));
  if (labels == Labels::required) {
    PS_ASSIGN(batch.labels, read_labels(view, model, view.header.valid_count));
  }
  return batch;
}

}  // namespace parascale::native
