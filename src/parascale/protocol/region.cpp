#include "parascale/protocol/region.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace parascale::protocol {

Region::Region(Region&& other) noexcept
    : fd_(std::move(other.fd_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Region& Region::operator=(Region&& other) noexcept {
  if (this != &other) {
    unmap();
    fd_ = std::move(other.fd_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Region::~Region() { unmap(); }

void Region::unmap() {
  if (data_ != nullptr) {
    munmap(data_, size_);
    data_ = nullptr;
  }
}

Result<Region> Region::make(const std::string& name, std::uint64_t bytes) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t size = (bytes + page - 1) / page * page;
  UniqueFd fd(memfd_create(("parascale-" + name).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) {
    return io_error("make region", name, errno);
  }
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return io_error("size region", name, errno);
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return io_error("seal region", name, errno);
  }
  return map(std::move(fd), size, Access::read_write);
}

Result<Region> Region::map(UniqueFd fd, std::uint64_t bytes, Access access) {
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) {
    return io_error("stat", "region", errno);
  }
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Error(Code::protocol_violation, "a region is not sealed against shrinking");
  }
  if (bytes == 0 || std::cmp_less(status.st_size, bytes)) {
    return Error(Code::protocol_violation, fmt::format("a region of {} bytes was announced as {}", status.st_size, bytes));
  }
  const int protection = access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* data = mmap(nullptr, bytes, protection, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) {
    return io_error("map", "region", errno);
  }
  Region region;
  region.fd_ = std::move(fd);
  region.data_ = static_cast<std::byte*>(data);
  region.size_ = bytes;
  return region;
}

void Region::populate() const { madvise(data_, size_, MADV_POPULATE_WRITE); }

}  // namespace parascale::protocol
