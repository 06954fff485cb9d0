#include "parascale/data/tar_reader.h"

#include <gmock/gmock.h>

#include <vector>

#include "parascale/data/tests/samples.h"
#include "tests/support/matchers.h"

namespace parascale::data {
namespace {

using namespace testing;  // NOLINT: builders of archives
using parascale::testing::is_error;
using parascale::testing::is_ok;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Read {
  Result<TarScan> scan;
  std::vector<std::string> names;
  std::vector<std::string> contents;
};

Read read(std::string_view archive, const TarLimits& limits = {}) {
  MemorySource source(as_bytes(archive));
  std::vector<std::string> names;
  std::vector<std::string> contents;
  auto scan = scan_tar(
      source,
      [&](const TarMember& member) {
        EXPECT_LE(member.offset_bytes + member.size_bytes, archive.size());
        names.push_back(member.name);
        contents.emplace_back(archive.substr(member.offset_bytes, member.size_bytes));
        return Status();
      },
      limits);
  return {std::move(scan), std::move(names), std::move(contents)};
}

TEST(TarReader, lists_regular_files_and_skips_directories) {
  const auto found = read(tar_member("d/", "", '5') + tar_member("d/a.png", "xyz") + tar_member("./b.cls", "7") +
                          tar_member("c", "") + tar_end());
  ASSERT_THAT(found.scan, is_ok());
  EXPECT_FALSE(found.scan->damage);
  EXPECT_EQ(found.scan->members, 3U);
  EXPECT_THAT(found.names, ElementsAre("d/a.png", "b.cls", "c"));
  EXPECT_THAT(found.contents, ElementsAre("xyz", "7", ""));
}

TEST(TarReader, joins_prefix_and_name) {
  std::string header = tar_header("name.png", 1);
  std::memcpy(header.data() + 345, "folder", 6);
  seal(header);
  EXPECT_THAT(read(header + padded("x") + tar_end()).names, ElementsAre("folder/name.png"));
  // Old GNU archives keep times where ustar has the prefix.
  std::memcpy(header.data() + 257, "ustar  ", 8);
  seal(header);
  EXPECT_THAT(read(header + padded("x") + tar_end()).names, ElementsAre("name.png"));
}

TEST(TarReader, takes_names_and_sizes_from_extension_headers) {
  const std::string long_name = std::string(150, 'n') + ".png";
  const std::string pax = pax_record("mtime", "1.5") + pax_record("path", long_name) + pax_record("size", "3");
  const std::string archive = tar_member("x", pax, 'x') + tar_header("short", 0) + padded("abc") +  //
                              tar_member("././@LongLink", long_name + '\0', 'L') + tar_member("short", "de") +
                              tar_member("g", pax_record("comment", "hi"), 'g') + tar_member("plain", "f") + tar_end();
  const auto found = read(archive);
  ASSERT_THAT(found.scan, is_ok());
  EXPECT_THAT(found.names, ElementsAre(long_name, long_name, "plain"));
  EXPECT_THAT(found.contents, ElementsAre("abc", "de", "f"));
}

TEST(TarReader, reads_base_256_sizes) {
  std::string header = tar_header("a", 0);
  std::memset(header.data() + 124, 0, 12);
  header[124] = static_cast<char>(0x80);
  header[135] = 2;
  seal(header);
  EXPECT_THAT(read(header + padded("ab") + tar_end()).contents, ElementsAre("ab"));
}

TEST(TarReader, refuses_what_no_data_archive_holds) {
  const std::string good = tar_member("a", "1");
  const std::vector<std::pair<std::string, std::string>> cases{
      {tar_member("link", "", '2'), "link"},
      {tar_member("link", "", '1'), "link"},
      {tar_member("null", "", '3'), "device"},
      {tar_member("pipe", "", '6'), "device"},
      {tar_member("sparse", "", 'S'), "sparse"},
      {tar_member("odd", "", 'Q'), "unknown type"},
      {tar_member("x", pax_record("GNU.sparse.major", "1"), 'x') + good, "sparse"},
      {tar_member("g", pax_record("path", "p"), 'g') + good, "global"},
      {tar_member("x", "99999 path=x\n", 'x') + good, "wrong length"},
      {tar_member("x", "zz path=x\n", 'x') + good, "wrong length"},
      {tar_member("x", pax_record("size", "-3"), 'x') + good, "no number"},
      {tar_member("/etc/passwd", "x"), "absolute"},
      {tar_member("a/../../b", "x"), "leaves its folder"},
      {tar_member("x", pax_record("path", "../b"), 'x') + good, "leaves its folder"},
      {tar_member("a\nb", "x"), "control characters"},
  };
  for (const auto& [bad, reason] : cases) {
    const auto found = read(good + bad + good + tar_end());
    ASSERT_THAT(found.scan, is_error(Code::archive_damaged)) << reason;
    EXPECT_THAT(found.scan.error().message(), HasSubstr(reason));
  }
}

TEST(TarReader, holds_its_limits) {
  const std::string two = tar_member("a", "1") + tar_member("b", "22") + tar_end();
  EXPECT_THAT(read(two, {.max_members = 1}).scan, is_error(Code::archive_damaged));
  EXPECT_THAT(read(two, {.max_member_bytes = 1}).scan, is_error(Code::archive_damaged));
  EXPECT_THAT(read(two, {.max_members = 2, .max_member_bytes = 2}).scan, is_ok());
  const std::string name(200, 'n');
  EXPECT_THAT(read(tar_member("x", pax_record("path", name), 'x') + two, {.max_extension_bytes = 100}).scan,
              is_error(Code::archive_damaged));
  EXPECT_THAT(read(tar_member("x", pax_record("path", name), 'x') + two, {.max_name_bytes = 100}).scan,
              is_error(Code::archive_damaged));
}

TEST(TarReader, uses_a_cut_archive_up_to_the_damage) {
  const std::string archive = tar_member("a", "1") + tar_member("b", std::string(700, 'b')) + tar_member("c", "3") + tar_end();
  // Every length: never a member that is not wholly there.
  for (std::size_t length = kBlock; length < archive.size(); ++length) {
    const auto found = read(std::string_view(archive).substr(0, length));
    ASSERT_THAT(found.scan, is_ok()) << length;
    const std::size_t whole = length >= 6 * kBlock + 1 ? 3 : length >= 3 * kBlock + 700 ? 2 : length >= kBlock + 1 ? 1 : 0;
    EXPECT_EQ(found.names.size(), whole) << length;
    EXPECT_EQ(found.scan->damage.has_value(), length < 8 * kBlock) << length;  // the second zero block may be missing
  }
}

TEST(TarReader, says_where_a_header_is_damaged) {
  std::string archive = tar_member("a", "1") + tar_member("b", "2") + tar_end();
  archive[2 * kBlock] ^= 1;
  const auto found = read(archive);
  ASSERT_THAT(found.scan, is_ok());
  ASSERT_TRUE(found.scan->damage);
  EXPECT_EQ(found.scan->damage->offset_bytes, 2 * kBlock);
  EXPECT_EQ(found.scan->damage->reason, "wrong header checksum");
  EXPECT_THAT(found.names, ElementsAre("a"));
}

TEST(TarReader, refuses_what_is_no_archive) {
  EXPECT_THAT(read("").scan, is_error(Code::archive_damaged));
  EXPECT_THAT(read("<html>").scan, is_error(Code::archive_damaged));
  EXPECT_THAT(read(std::string(2000, 'x')).scan, is_error(Code::archive_damaged));
}

TEST(TarReader, hands_up_the_callers_error) {
  const std::string archive = tar_member("a", "1") + tar_end();
  MemorySource source(as_bytes(archive));
  EXPECT_THAT(scan_tar(source, [](const TarMember&) -> Status { return Error(Code::io_failed, "no"); }),
              is_error(Code::io_failed));
}

TEST(TarReader, survives_any_changed_byte) {
  const std::string archive =
      tar_member("x", pax_record("path", "p"), 'x') + tar_member("a", "1") + tar_member("b", "2") + tar_end();
  for (std::size_t at = 0; at < archive.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string changed = archive;
      changed[at] = static_cast<char>(changed[at] ^ change);
      (void)read(changed);  // the callback checks that every member lies inside
    }
  }
}

}  // namespace
}  // namespace parascale::data
