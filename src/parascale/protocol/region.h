#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "parascale/base/result.h"
#include "parascale/base/unique_fd.h"

namespace parascale::protocol {

enum class Access : std::uint8_t { read, read_write };

/// Shared memory of a run: a memfd sealed against resizing, mapped MAP_SHARED. Nothing remains of it when its processes are gone.
/// *thread-compatible*
class Region {
 public:
  Region() = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  /// Makes a zeroed region of `bytes` bytes (rounded up to whole pages), mapped read-write. `name` shows in /proc. Errors:
  /// io_failed.
  static Result<Region> make(const std::string& name, std::uint64_t bytes);
  /// Maps a region received from a peer. Errors: protocol_violation when it is smaller than `bytes` or not sealed against
  /// shrinking; io_failed.
  static Result<Region> map(UniqueFd fd, std::uint64_t bytes, Access access);

  int fd() const { return fd_.get(); }
  bool valid() const { return data_ != nullptr; }
  std::span<std::byte> bytes() const { return {data_, size_}; }
  std::uint64_t size() const { return size_; }
  /// Faults all pages in now, so that the first use does not pay for it.
  void populate() const;

 private:
  void unmap();

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace parascale::protocol
