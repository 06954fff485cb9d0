#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parascale/base/file_system.h"
#include "parascale/base/result.h"

namespace parascale::data {

/// Bytes that can be read at any offset: what the archive reader works on, so that tests and fuzzers need no files.
/// *thread-compatible*
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t size() const = 0;
  /// Reads up to `into.size()` bytes at `offset`; fewer only at the end. Errors: io_failed.
  virtual Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) = 0;
};

/// Bytes in memory, not owned.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override;

 private:
  std::span<const std::byte> bytes_;
};

/// A file, read through one buffer that suits forward scans of small pieces.
class BufferedFileSource final : public ByteSource {
 public:
  /// `size_bytes`: what the file held when it was opened; later growth is not seen. The file must outlive this.
  BufferedFileSource(File& file, std::uint64_t size_bytes) : file_(file), size_(size_bytes) {}
  std::uint64_t size() const override { return size_; }
  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override;

 private:
  File& file_;
  std::uint64_t size_;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_offset_ = 0;
};

}  // namespace parascale::data
