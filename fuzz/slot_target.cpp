#include <algorithm>
#include <vector>

#include "fuzz/targets.h"
#include "parascale/protocol/slot.h"

namespace parascale::fuzz {

void slot(Input input) {
  // Slots are aligned in shared memory; the input is not.
  std::vector<std::byte> memory(input.size() + protocol::kSlotAlign);
  void* start = memory.data();
  std::size_t room = memory.size();
  auto* aligned = static_cast<std::byte*>(std::align(protocol::kSlotAlign, input.size(), start, room));
  std::ranges::copy(std::as_bytes(input), aligned);
  const std::span<const std::byte> bytes(aligned, input.size());
  const auto view = protocol::read_slot(bytes);
  if (!view.ok()) {
    PS_CHECK(view.error().code() == Code::protocol_violation, "a bad slot is a violation");
    return;
  }
  const auto inside = [&](const std::byte* begin, std::size_t size) {
    return size == 0 || (begin >= bytes.data() && begin + size <= bytes.data() + bytes.size());
  };
  PS_CHECK(inside(std::as_bytes(view->ids).data(), view->ids.size_bytes()), "the ids lie inside the slot");
  std::uint64_t sum = 0;
  for (const std::uint64_t id : view->ids) {
    sum += id;
  }
  for (const auto& tensor : view->tensors) {
    PS_CHECK(inside(tensor.bytes.data(), tensor.bytes.size()), "a tensor lies inside the slot");
    PS_CHECK(tensor_bytes(tensor.dtype, tensor.shape) == tensor.bytes.size(), "a tensor has the bytes of its shape");
    PS_CHECK(view->find(tensor.name) != nullptr, "a tensor is found by its name");
    sum += tensor.bytes.empty() ? 0U : static_cast<std::uint64_t>(tensor.bytes.back());
  }
  volatile std::uint64_t sink = sum;  // the reads must happen
  (void)sink;
}

}  // namespace parascale::fuzz
