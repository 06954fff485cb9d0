#include "parascale_torch/state/inventory.h"

#include <fmt/core.h>

#include "parascale/base/check.h"
#include "parascale/protocol/dtype.h"

namespace parascale::native {

namespace {

Dtype dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return Dtype::f32;
    case at::kDouble:
      return Dtype::f64;
    case at::kLong:
      return Dtype::i64;
    case at::kBFloat16:
      return Dtype::bf16;
    case at::kHalf:
      return Dtype::f16;
    default:
      break;
  }
  PS_CHECK(false, "a state tensor has a dtype that checkpoints know");
}

}  // namespace

std::span<std::byte> StateTensor::bytes() const { return {static_cast<std::byte*>(value.mutable_data_ptr()), value.nbytes()}; }

void StateInventory::add_parts(const Parameter& parameter, const at::Tensor& storage, std::string_view prefix,
                               std::string_view kind) {
  for (const auto& part : parameter.parts) {
    add({.name = fmt::format("{}{}", prefix, part.name),
         .kind = std::string(kind),
         .value = storage.detach().narrow(0, part.row, part.rows),
         .trainable = kind == "param",
         .group = parameter.group()});
  }
}

void StateInventory::add(StateTensor tensor) {
  PS_CHECK(tensor.value.is_contiguous(), "a state tensor is contiguous");
  const bool fresh = index_.emplace(tensor.name, tensors_.size()).second;
  PS_CHECK(fresh, "state names are unique");
  tensors_.push_back(std::move(tensor));
}

const StateTensor* StateInventory::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found != index_.end() ? &tensors_[found->second] : nullptr;
}

std::uint64_t StateInventory::bytes(std::string_view kind) const {
  std::uint64_t sum = 0;
  for (const auto& tensor : tensors_) {
    sum += tensor.kind == kind ? tensor.value.nbytes() : 0;
  }
  return sum;
}

Json StateInventory::to_json() const {
  Json state = Json::array();
  for (const auto& tensor : tensors_) {
    state.push_back(Json::object({{"name", tensor.name},
                                  {"kind", tensor.kind},
                                  {"dtype", dtype_name(dtype_of(tensor.value))},
                                  {"global_shape", Json::array_of(tensor.value.sizes())},
                                  {"slice", nullptr},
                                  {"trainable", tensor.trainable},
                                  {"group", tensor.group.empty() ? Json() : Json(tensor.group)},
                                  {"alias_of", nullptr}}));
  }
  return state;
}

}  // namespace parascale::native
