#include "fuzz/targets.h"
#include "parascale/checkpoint/safetensors.h"

namespace parascale::fuzz {

namespace {

void parse(std::span<const std::byte> bytes, std::uint64_t file_bytes) {
  const auto header = checkpoint::parse_safetensors(bytes, file_bytes, "input");
  if (!header.ok()) {
    PS_CHECK(header.error().code() == Code::safetensors_invalid, "a bad file is not a safetensors file");
    return;
  }
  std::uint64_t end = header->data_offset_bytes;
  for (const auto& tensor : header->tensors) {
    PS_CHECK(tensor.offset_bytes == end, "tensors follow each other without holes");
    PS_CHECK(tensor_bytes(tensor.dtype, tensor.shape) == tensor.size_bytes, "a tensor has the bytes of its shape");
    end += tensor.size_bytes;
  }
  PS_CHECK(end == file_bytes, "the tensors end with the file");
}

}  // namespace

void safetensors(Input input) {
  const auto bytes = std::as_bytes(input);
  parse(bytes, bytes.size());
  // A header of tensors that would be too large for a corpus: the file then ends where the last tensor says.
  constexpr std::uint64_t kLargeFile = (8ULL << 30) + 4096;
  parse(bytes, kLargeFile);
}

}  // namespace parascale::fuzz
