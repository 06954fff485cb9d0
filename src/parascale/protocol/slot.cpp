#include "parascale/protocol/slot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "parascale/base/hash.h"

namespace parascale::protocol {

namespace {

constexpr std::uint64_t kMaxSlotBytes = 1ULL << 36;
constexpr std::uint64_t kMaxRegionBytes = 1ULL << 40;

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

Error violation(std::string message) { return Error(Code::protocol_violation, std::move(message)); }

std::uint64_t row_bytes(const TensorField& field) { return tensor_bytes(field.dtype, field.sample_shape).value_or(0); }

template <typename T>
void store(std::span<std::byte> slot, std::size_t offset, const T& value) {
  std::memcpy(slot.data() + offset, &value, sizeof value);
}

template <typename T>
T load(std::span<const std::byte> slot, std::size_t offset) {
  T value;
  std::memcpy(&value, slot.data() + offset, sizeof value);
  return value;
}

}  // namespace

Result<SlotLayout> make_slot_layout(std::vector<TensorField> fields, std::uint32_t slot_count, std::uint32_t capacity) {
  if (fields.empty() || fields.size() > kMaxTensors || slot_count == 0 || capacity == 0) {
    return violation(fmt::format("a slot needs 1 to {} tensors, slots and samples", kMaxTensors));
  }
  SlotLayout layout{.slot_count = slot_count, .capacity = capacity};
  std::uint64_t offset = sizeof(SlotHeader) + kMaxTensors * sizeof(TensorDescriptor);
  layout.ids_offset_bytes = align_up(offset, kSlotAlign);
  offset = layout.ids_offset_bytes + std::uint64_t{capacity} * sizeof(std::uint64_t);
  for (const auto& field : fields) {
    if (field.name.empty() || field.name.size() >= kTensorNameBytes || field.sample_shape.size() + 1 > kMaxTensorRank) {
      return violation(fmt::format("tensor `{}` exceeds the limits of a slot", field.name));
    }
    const auto bytes = tensor_bytes(field.dtype, field.sample_shape);
    if (!bytes || *bytes == 0 || dtype_bits(field.dtype) < 8 || *bytes > kMaxSlotBytes / capacity) {
      return violation(fmt::format("tensor `{}` has a size that no slot can hold", field.name));
    }
    offset = align_up(offset, kSlotAlign);
    layout.field_offsets.push_back(offset);
    offset += *bytes * capacity;
  }
  layout.slot_bytes = align_up(offset, 4096);
  if (slot_count > kMaxRegionBytes / layout.slot_bytes) {
    return violation(fmt::format("{} slots of {} bytes are larger than {}", slot_count, layout.slot_bytes, kMaxRegionBytes));
  }
  if (layout.slot_bytes > kMaxSlotBytes) {
    return violation(fmt::format("a slot of {} bytes is larger than {}", layout.slot_bytes, kMaxSlotBytes));
  }
  layout.fields = std::move(fields);
  return layout;
}

Json SlotLayout::to_json() const {
  Json tensors = Json::array();
  for (const auto& field : fields) {
    tensors.push_back(Json::object(
        {{"name", field.name}, {"dtype", dtype_name(field.dtype)}, {"sample_shape", Json::array_of(field.sample_shape)}}));
  }
  return Json::object(
      {{"slot_count", slot_count}, {"capacity", capacity}, {"slot_bytes", slot_bytes}, {"tensors", std::move(tensors)}});
}

Result<SlotLayout> SlotLayout::from_json(const Json& json) {
  PS_ASSIGN(const auto slot_count, json.get<std::uint32_t>("slot_count"));
  PS_ASSIGN(const auto capacity, json.get<std::uint32_t>("capacity"));
  PS_ASSIGN(const auto slot_bytes, json.get<std::uint64_t>("slot_bytes"));
  PS_ASSIGN(const Json tensors, json.get<Json>("tensors"));
  std::vector<TensorField> fields;
  for (const auto& tensor : tensors.items()) {
    TensorField field;
    PS_ASSIGN(field.name, tensor.get<std::string>("name"));
    PS_ASSIGN(const auto dtype, tensor.get<std::string>("dtype"));
    const auto known = dtype_from_name(dtype);
    if (!known) {
      return violation(fmt::format("tensor `{}` has unknown dtype `{}`", field.name, dtype));
    }
    field.dtype = *known;
    PS_ASSIGN(const Json shape, tensor.get<Json>("sample_shape"));
    for (const auto& size : shape.items()) {
      const auto value = size.to_uint64();
      if (!value) {
        return violation(fmt::format("tensor `{}` has a size that is no number", field.name));
      }
      field.sample_shape.push_back(*value);
    }
    fields.push_back(std::move(field));
  }
  PS_ASSIGN(auto layout, make_slot_layout(std::move(fields), slot_count, capacity));
  if (layout.slot_bytes != slot_bytes) {
    return violation(fmt::format("slots of {} bytes were announced as {}", layout.slot_bytes, slot_bytes));
  }
  return layout;
}

SlotWriter::SlotWriter(const SlotLayout& layout, std::span<std::byte> region, std::uint32_t index) : layout_(layout) {
  PS_CHECK(index < layout.slot_count && region.size() >= layout.region_bytes(), "the slot lies inside its region");
  slot_ = region.subspan(index * layout.slot_bytes, layout.slot_bytes);
  store(slot_, offsetof(SlotHeader, slot), index);
}

void SlotWriter::begin(std::uint64_t epoch, Step step, std::uint32_t micro_step, std::uint32_t sample_count) {
  PS_CHECK(sample_count > 0 && sample_count <= layout_.capacity, "the rows fit the slot");
  SlotHeader header{};
  header.magic = kSlotMagic;
  header.version = kSlotVersion;
  header.kind = static_cast<std::uint32_t>(SlotKind::tensors);
  header.slot = load<std::uint32_t>(slot_, offsetof(SlotHeader, slot));
  header.epoch = epoch;
  header.step = step.value;
  header.micro_step = micro_step;
  header.sample_count = sample_count;
  header.tensor_count = static_cast<std::uint32_t>(layout_.fields.size());
  header.ids_offset_bytes = layout_.ids_offset_bytes;
  store(slot_, 0, header);
  for (std::size_t i = 0; i < layout_.fields.size(); ++i) {
    const TensorField& field = layout_.fields[i];
    TensorDescriptor descriptor{};
    std::ranges::copy(field.name, descriptor.name.begin());
    descriptor.dtype = static_cast<std::uint32_t>(field.dtype);
    descriptor.rank = static_cast<std::uint32_t>(field.sample_shape.size() + 1);
    descriptor.shape[0] = sample_count;
    std::ranges::copy(field.sample_shape, descriptor.shape.begin() + 1);
    descriptor.offset_bytes = layout_.field_offsets[i];
    store(slot_, sizeof(SlotHeader) + i * sizeof(TensorDescriptor), descriptor);
  }
}

std::span<std::byte> SlotWriter::row(std::size_t field, std::uint32_t row) const {
  PS_CHECK(field < layout_.fields.size() && row < layout_.capacity, "the row lies inside its tensor");
  const std::uint64_t bytes = row_bytes(layout_.fields[field]);
  return slot_.subspan(layout_.field_offsets[field] + row * bytes, bytes);
}

void SlotWriter::set_id(std::uint32_t row, SampleId id) const {
  PS_CHECK(row < layout_.capacity, "the row lies inside the slot");
  store(slot_, layout_.ids_offset_bytes + row * sizeof(std::uint64_t), id.value);
}

std::uint64_t SlotWriter::finish(std::uint32_t valid_count) const {
  const auto sample_count = load<std::uint32_t>(slot_, offsetof(SlotHeader, sample_count));
  PS_CHECK(valid_count <= sample_count, "the valid rows are among the rows");
  for (std::uint32_t row_index = valid_count; row_index < sample_count; ++row_index) {
    set_id(row_index, SampleId{~std::uint64_t{0}});
    for (std::size_t i = 0; i < layout_.fields.size(); ++i) {
      std::ranges::fill(row(i, row_index), std::byte{0});
    }
  }
  Xxh3Stream hash;
  hash.update(slot_.subspan(layout_.ids_offset_bytes, valid_count * sizeof(std::uint64_t)));
  for (std::size_t i = 0; i < layout_.fields.size(); ++i) {
    hash.update(slot_.subspan(layout_.field_offsets[i], valid_count * row_bytes(layout_.fields[i])));
  }
  const std::uint64_t content_hash = hash.digest_64();
  store(slot_, offsetof(SlotHeader, valid_count), valid_count);
  store(slot_, offsetof(SlotHeader, content_hash), content_hash);
  return content_hash;
}

const SlotTensor* SlotView::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &SlotTensor::name);
  return found != tensors.end() ? &*found : nullptr;
}

Result<SlotView> read_slot(std::span<const std::byte> slot) {
  if (slot.size() < sizeof(SlotHeader) + kMaxTensors * sizeof(TensorDescriptor)) {
    return violation("a slot is shorter than its header");
  }
  SlotView view;
  view.header = load<SlotHeader>(slot, 0);
  const SlotHeader& header = view.header;
  if (header.magic != kSlotMagic || header.version != kSlotVersion) {
    return violation("a slot has a foreign magic or version");
  }
  if (header.kind > static_cast<std::uint32_t>(SlotKind::ids) || header.tensor_count > kMaxTensors ||
      header.valid_count > header.sample_count) {
    return violation("a slot has a kind, tensor count or valid count outside its bounds");
  }
  const auto inside = [&](std::uint64_t offset, std::uint64_t bytes) {
    return offset <= slot.size() && bytes <= slot.size() - offset;
  };
  const std::uint64_t ids_bytes = std::uint64_t{header.sample_count} * sizeof(std::uint64_t);
  if (header.ids_offset_bytes % alignof(std::uint64_t) != 0 || !inside(header.ids_offset_bytes, ids_bytes)) {
    return violation("a slot's sample ids lie outside the slot");
  }
  const void* ids = slot.data() + header.ids_offset_bytes;
  view.ids = {static_cast<const std::uint64_t*>(ids), header.sample_count};
  for (std::uint32_t i = 0; i < header.tensor_count; ++i) {
    // The descriptor itself stays in the slot, so that the name can be a view.
    const std::size_t at = sizeof(SlotHeader) + i * sizeof(TensorDescriptor);
    const auto descriptor = load<TensorDescriptor>(slot, at);
    const void* raw_name = slot.data() + at;
    const auto* name = static_cast<const char*>(raw_name);
    const std::size_t length = strnlen(name, kTensorNameBytes);
    const auto dtype = static_cast<Dtype>(descriptor.dtype);
    if (length == 0 || length == kTensorNameBytes || descriptor.rank == 0 || descriptor.rank > kMaxTensorRank ||
        descriptor.dtype > static_cast<std::uint32_t>(Dtype::f6_e3m2)) {
      return violation("a slot's tensor has a name, rank or dtype outside its bounds");
    }
    SlotTensor tensor{.name = {name, length},
                      .dtype = dtype,
                      .shape = {descriptor.shape.begin(), descriptor.shape.begin() + descriptor.rank},
                      .bytes = {}};
    const auto bytes = tensor_bytes(dtype, tensor.shape);
    if (tensor.shape[0] != header.sample_count || !bytes || descriptor.offset_bytes % kSlotAlign != 0 ||
        !inside(descriptor.offset_bytes, *bytes)) {
      return violation(fmt::format("tensor `{}` lies outside its slot", tensor.name));
    }
    tensor.bytes = slot.subspan(descriptor.offset_bytes, *bytes);
    view.tensors.push_back(std::move(tensor));
  }
  return view;
}

}  // namespace parascale::protocol
