#include "parascale/data/byte_source.h"

#include <algorithm>
#include <cstring>

namespace parascale::data {

namespace {
constexpr std::size_t kBufferBytes = 256U << 10;
}  // namespace

Result<std::size_t> MemorySource::read_at(std::uint64_t offset, std::span<std::byte> into) {
  if (offset >= bytes_.size()) {
    return std::size_t{0};
  }
  const std::size_t count = std::min<std::size_t>(into.size(), bytes_.size() - offset);
  if (count == 0) {
    return count;
  }
  std::memcpy(into.data(), bytes_.data() + offset, count);
  return count;
}

Result<std::size_t> BufferedFileSource::read_at(std::uint64_t offset, std::span<std::byte> into) {
  if (offset >= size_) {
    return std::size_t{0};
  }
  const std::size_t wanted = std::min<std::size_t>(into.size(), size_ - offset);
  if (wanted > kBufferBytes) {
    return file_.read_at(offset, into.first(wanted));
  }
  const bool inside = offset >= buffer_offset_ && offset + wanted <= buffer_offset_ + buffer_.size();
  if (!inside) {
    buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kBufferBytes, size_ - offset)));
    PS_ASSIGN(const std::size_t got, file_.read_at(offset, buffer_));
    buffer_.resize(got);
    buffer_offset_ = offset;
  }
  const std::size_t at = offset - buffer_offset_;
  const std::size_t count = std::min(wanted, buffer_.size() - at);
  if (count > 0) {
    std::memcpy(into.data(), buffer_.data() + at, count);
  }
  return count;
}

}  // namespace parascale::data
