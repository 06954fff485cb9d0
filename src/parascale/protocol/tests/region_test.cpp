#include "parascale/protocol/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/matchers.h"

namespace parascale::protocol {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;

UniqueFd copy_of(const Region& region) { return UniqueFd(fcntl(region.fd(), F_DUPFD_CLOEXEC, 0)); }

UniqueFd bare_memory(std::uint64_t bytes, unsigned seals) {
  UniqueFd fd(memfd_create("region-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  PS_CHECK(fd.valid() && ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0, "memory can be made");
  PS_CHECK(seals == 0 || fcntl(fd.get(), F_ADD_SEALS, seals) == 0, "memory can be sealed");
  return fd;
}

TEST(RegionTest, IsZeroedRoundedUpAndSealedAgainstResizing) {
  const auto region = Region::make("test", 5000).value();
  EXPECT_EQ(region.size(), 8192U);
  EXPECT_THAT(region.bytes(), ::testing::Each(std::byte{0}));
  EXPECT_NE(ftruncate(region.fd(), 4096), 0);
  EXPECT_NE(ftruncate(region.fd(), 16384), 0);
  EXPECT_NE(fcntl(region.fd(), F_ADD_SEALS, F_SEAL_WRITE), 0);  // the seals themselves are sealed
}

TEST(RegionTest, BothSidesSeeEachOthersBytes) {
  const auto ours = Region::make("test", 4096).value();
  const auto theirs = Region::map(copy_of(ours), 4096, Access::read_write).value();
  const auto reader = Region::map(copy_of(ours), 100, Access::read).value();
  ours.bytes()[7] = std::byte{1};
  EXPECT_EQ(theirs.bytes()[7], std::byte{1});
  theirs.bytes()[7] = std::byte{2};  // written after it was mapped: never a private copy
  EXPECT_EQ(ours.bytes()[7], std::byte{2});
  EXPECT_EQ(reader.bytes()[7], std::byte{2});
  EXPECT_EQ(reader.size(), 100U);
}

TEST(RegionTest, ALieAboutTheSizeIsAViolation) {
  const auto region = Region::make("test", 4096).value();
  EXPECT_THAT(Region::map(copy_of(region), 4097, Access::read), is_error(Code::protocol_violation));
  EXPECT_THAT(Region::map(copy_of(region), UINT64_MAX, Access::read), is_error(Code::protocol_violation));
  EXPECT_THAT(Region::map(copy_of(region), 0, Access::read), is_error(Code::protocol_violation));
}

TEST(RegionTest, MemoryThatCouldShrinkIsAViolation) {
  EXPECT_THAT(Region::map(bare_memory(4096, 0), 4096, Access::read), is_error(Code::protocol_violation));
  EXPECT_THAT(Region::map(bare_memory(4096, F_SEAL_GROW), 4096, Access::read), is_error(Code::protocol_violation));
  EXPECT_THAT(Region::map(bare_memory(4096, F_SEAL_SHRINK), 4096, Access::read), is_ok());
}

TEST(RegionTest, WhatIsNoSharedMemoryIsRefused) {
  EXPECT_THAT(Region::map(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)), 4096, Access::read),
              is_error(Code::protocol_violation));
  EXPECT_THAT(Region::map(UniqueFd(), 4096, Access::read), is_error(Code::io_failed));
  EXPECT_THAT(Region::map(bare_memory(4096, F_SEAL_SHRINK | F_SEAL_WRITE), 4096, Access::read_write), is_error(Code::io_failed));
}

TEST(RegionTest, AReadOnlyMappingCannotBeWritten) {
  const auto region = Region::make("test", 4096).value();
  const auto reader = Region::map(copy_of(region), 4096, Access::read).value();
  EXPECT_DEATH(reader.bytes()[0] = std::byte{1}, "");
}

TEST(RegionTest, MovesAndKeepsItsMemoryAfterTheDescriptorOfTheOtherSideIsClosed) {
  auto first = Region::make("test", 4096).value();
  first.bytes()[0] = std::byte{9};
  Region second = Region::map(copy_of(first), 4096, Access::read).value();
  Region third;
  EXPECT_FALSE(third.valid());
  third = std::move(second);
  first = Region();
  EXPECT_TRUE(third.valid());
  EXPECT_EQ(third.bytes()[0], std::byte{9});
  third.populate();
  EXPECT_EQ(third.bytes()[0], std::byte{9});
}

}  // namespace
}  // namespace parascale::protocol
