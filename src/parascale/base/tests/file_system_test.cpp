#include "parascale/base/file_system.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "tests/support/matchers.h"

namespace parascale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::is_error;
using testing::is_ok;
using testing::is_ok_and_holds;
using ::testing::IsEmpty;

class FileSystemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "file_system_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
            std::to_string(getpid());
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string at(std::string_view name) const { return join_path(root_, name); }
  void put(std::string_view name, std::string_view content) const { std::ofstream(at(name), std::ios::binary) << content; }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    const auto entries = files_.list(root_).value();
    for (const auto& entry : entries) {
      out.push_back(entry.name);
    }
    return out;
  }

  FileSystem& files_ = real_file_system();
  std::string root_;
};

TEST_F(FileSystemTest, ReplaceFileMakesAndReplacesAndLeavesNothingBeside) {
  EXPECT_THAT(replace_file(files_, at("a.json"), "one"), is_ok());
  EXPECT_THAT(read_file(files_, at("a.json")), is_ok_and_holds("one"));
  EXPECT_THAT(replace_file(files_, at("a.json"), ""), is_ok());
  EXPECT_THAT(read_file(files_, at("a.json")), is_ok_and_holds(""));
  EXPECT_THAT(names(), ElementsAre("a.json"));
}

TEST_F(FileSystemTest, ReplaceFileTakesOverALeftover) {
  put("a.json.tmp-" + std::to_string(getpid()), "half");
  EXPECT_THAT(replace_file(files_, at("a.json"), "whole"), is_ok());
  EXPECT_THAT(names(), ElementsAre("a.json"));
}

TEST_F(FileSystemTest, ReplaceFileThatFailsKeepsTheOldContent) {
  std::filesystem::create_directory(at("a.json"));  // a directory cannot be replaced by a file
  put("a.json/inside", "x");
  EXPECT_THAT(replace_file(files_, at("a.json"), "new"), is_error(Code::io_failed));
  EXPECT_THAT(names(), ElementsAre("a.json"));
  EXPECT_THAT(read_file(files_, at("a.json/inside")), is_ok_and_holds("x"));
  EXPECT_THAT(replace_file(files_, at("absent/a.json"), "new"), is_error(Code::io_failed));
}

TEST_F(FileSystemTest, RemoveTreeRemovesLinksAndFollowsNone) {
  std::filesystem::create_directories(at("outside"));
  put("outside/keep", "x");
  std::filesystem::create_directories(at("tree/deep/er"));
  put("tree/deep/file", "y");
  std::filesystem::create_directory_symlink(at("outside"), at("tree/link"));
  std::filesystem::create_symlink("nowhere", at("tree/dangling"));
  EXPECT_THAT(remove_tree(files_, at("tree")), is_ok());
  EXPECT_THAT(names(), ElementsAre("outside"));
  EXPECT_THAT(read_file(files_, at("outside/keep")), is_ok_and_holds("x"));
  EXPECT_THAT(remove_tree(files_, at("tree")), is_ok());  // nothing there is success
  EXPECT_THAT(remove_tree(files_, at("outside/keep")), is_ok());
}

TEST_F(FileSystemTest, MakeDirectoriesMakesParentsAndRefusesFiles) {
  EXPECT_THAT(make_directories(files_, at("a/b/c/")), is_ok());
  EXPECT_THAT(make_directories(files_, at("a/b/c")), is_ok());
  EXPECT_TRUE(files_.info(at("a/b/c"))->is_directory);
  put("plain", "");
  EXPECT_THAT(make_directories(files_, at("plain/below")), is_error(Code::io_failed));
}

TEST_F(FileSystemTest, ExpandGlobSortsAndTakesPlainPaths) {
  for (const char* name : {"b-1.tar", "b-0.tar", "a.tar", "c.txt", "[x].tar"}) {
    put(name, "");
  }
  EXPECT_THAT(expand_glob(at("b-*.tar")), ElementsAre(at("b-0.tar"), at("b-1.tar")));
  EXPECT_THAT(expand_glob(at("b-[01].tar")), ElementsAre(at("b-0.tar"), at("b-1.tar")));
  EXPECT_THAT(expand_glob(at("b-{1,0}.tar")), ElementsAre(at("b-0.tar"), at("b-1.tar")));
  EXPECT_THAT(expand_glob(at("?.tar")), ElementsAre(at("a.tar")));
  EXPECT_THAT(expand_glob(at("c.txt")), ElementsAre(at("c.txt")));
  EXPECT_THAT(expand_glob(at("no*")), IsEmpty());
  EXPECT_THAT(expand_glob(at("absent.tar")), IsEmpty());
}

TEST_F(FileSystemTest, OpenRefusesWhatIsNoRegularFile) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_THAT(files_.open(at("pipe"), OpenMode::read), is_error(Code::io_failed));  // and does not wait for a writer
  EXPECT_THAT(files_.open(root_, OpenMode::read), is_error(Code::io_failed));
  EXPECT_THAT(files_.open("/dev/zero", OpenMode::read), is_error(Code::io_failed));
  const auto absent = files_.open(at("absent"), OpenMode::read);
  ASSERT_THAT(absent, is_error(Code::io_failed));
  EXPECT_THAT(absent.error().message(), HasSubstr(at("absent")));
  EXPECT_THAT(absent.error().message(), HasSubstr("open"));
}

TEST_F(FileSystemTest, CreateNewFailsOnAnyExistingName) {
  put("a", "x");
  std::filesystem::create_symlink("nowhere", at("dangling"));
  EXPECT_THAT(files_.open(at("a"), OpenMode::create_new), is_error(Code::io_failed));
  EXPECT_THAT(files_.open(at("dangling"), OpenMode::create_new), is_error(Code::io_failed));
}

TEST_F(FileSystemTest, RenameNewNeverReplaces) {
  put("a", "1");
  put("b", "2");
  EXPECT_THAT(files_.rename_new(at("a"), at("b")), is_error(Code::io_failed));
  EXPECT_THAT(read_file(files_, at("b")), is_ok_and_holds("2"));
  EXPECT_THAT(files_.rename_new(at("a"), at("c")), is_ok());
  EXPECT_THAT(files_.rename_replace(at("c"), at("b")), is_ok());
  EXPECT_THAT(read_file(files_, at("b")), is_ok_and_holds("1"));
}

TEST_F(FileSystemTest, FilesReadAndWriteAtOffsets) {
  auto file = files_.open(at("a"), OpenMode::create_new).value();
  EXPECT_THAT(file->allocate(100), is_ok());
  EXPECT_THAT(file->write_at(3, std::as_bytes(std::span("abc", 3))), is_ok());
  std::array<std::byte, 8> bytes{};
  EXPECT_THAT(file->read_at(2, bytes), is_ok_and_holds(8U));
  EXPECT_EQ(bytes[1], std::byte{'a'});
  EXPECT_THAT(file->size(), is_ok_and_holds(100U));
  EXPECT_THAT(file->read_at(98, bytes), is_ok_and_holds(2U));
  EXPECT_THAT(file->read_at(1000, bytes), is_ok_and_holds(0U));
  EXPECT_THAT(file->sync(), is_ok());
  EXPECT_THAT(file->close(), is_ok());
}

TEST_F(FileSystemTest, ReadFileRefusesMoreThanItsLimit) {
  put("a", "12345");
  EXPECT_THAT(read_file(files_, at("a"), 5), is_ok_and_holds("12345"));
  EXPECT_THAT(read_file(files_, at("a"), 4), is_error(Code::io_failed));
}

TEST_F(FileSystemTest, SmallFilesOfTheKernelAreReadWithoutASize) {
  EXPECT_THAT(read_small_file("/proc/self/status"), HasSubstr("Pid:"));
  EXPECT_EQ(read_small_file(at("absent")), "");
}

TEST(PathTest, AbsolutePathsKeepLinks) {
  EXPECT_THAT(absolute_path("/a/../b"), is_ok_and_holds("/a/../b"));
  EXPECT_THAT(absolute_path("x"), is_ok_and_holds(std::filesystem::current_path().string() + "/x"));
}

TEST(PathTest, PartsOfOddPaths) {
  EXPECT_EQ(parent_path("/"), "/");
  EXPECT_EQ(parent_path("a/b/"), "a");
  EXPECT_EQ(file_name("a/b/"), "b");
  EXPECT_EQ(file_name("/"), "");
  EXPECT_EQ(file_stem("a/.hidden"), ".hidden");
  EXPECT_EQ(file_stem("a.b/c"), "c");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(join_path("/", "b"), "/b");
}

}  // namespace
}  // namespace parascale
