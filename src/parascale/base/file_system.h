#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parascale/base/result.h"

namespace parascale {

/// An open regular file. Errors: io_failed with operation and path. *thread-compatible*; `read_at` may be called by several
/// threads at once.
class File {
 public:
  virtual ~File() = default;
  virtual const std::string& path() const = 0;
  virtual Result<std::uint64_t> size() = 0;
  /// Reads up to `into.size()` bytes at `offset`; fewer only at the end of the file.
  virtual Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) = 0;
  /// Writes all bytes at `offset`.
  virtual Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Reserves disk space for `bytes` bytes; not supported by the file system counts as success.
  virtual Status allocate(std::uint64_t bytes) = 0;
  /// fsync: content and size are durable afterwards. After a failure the file must not be trusted or retried.
  virtual Status sync() = 0;
  virtual Status close() = 0;
};

enum class OpenMode : std::uint8_t { read, create_new, append };

struct DirectoryEntry {
  std::string name;
  bool is_directory = false;
  bool is_regular = false;
};

struct FileInfo {
  bool is_directory = false;
  bool is_regular = false;
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
};

/// Seam for files: every durable write of the product goes through it, so that tests can stop at any operation and forget what
/// was not synced. Errors: io_failed with operation and path. *thread-safe*
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// `read` refuses anything but a regular file; `create_new` fails when the name exists (mode 0644, close-on-exec).
  virtual Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) = 0;
  virtual Status make_directory(const std::string& path) = 0;
  /// rename(2), replacing an existing file.
  virtual Status rename_replace(const std::string& from, const std::string& to) = 0;
  /// renameat2(RENAME_NOREPLACE): fails with io_failed (EEXIST) when `to` exists.
  virtual Status rename_new(const std::string& from, const std::string& to) = 0;
  /// fsync of a directory: names made, renamed or removed in it are durable afterwards.
  virtual Status sync_directory(const std::string& path) = 0;
  virtual Status remove_file(const std::string& path) = 0;
  virtual Status remove_directory(const std::string& path) = 0;
  /// Entries without `.` and `..`, by name.
  virtual Result<std::vector<DirectoryEntry>> list(const std::string& path) = 0;
  /// lstat: does not follow a final symbolic link.
  virtual Result<FileInfo> info(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  /// Free bytes for an unprivileged writer.
  virtual Result<std::uint64_t> free_bytes(const std::string& path) = 0;
};

/// The system's files.
FileSystem& real_file_system();

/// Reads a whole regular file; refuses more than `max_bytes`.
Result<std::string> read_file(FileSystem& files, const std::string& path, std::uint64_t max_bytes = 1ULL << 30);
/// Content of a small kernel or text file, or an empty string: for /proc and /sys, where absence is an answer.
std::string read_small_file(const std::string& path);
/// Writes a new file `path.tmp-<pid>`, syncs it, renames it over `path`, syncs the directory: readers see the old or the new
/// content.
Status replace_file(FileSystem& files, const std::string& path, std::string_view content);
/// Makes `path` and its parents; an existing directory is success.
Status make_directories(FileSystem& files, const std::string& path);
/// Removes `path` and everything below it; nothing there is success. Symbolic links are removed, not followed.
Status remove_tree(FileSystem& files, const std::string& path);

/// Joins with one `/`; an absolute `name` stands alone.
std::string join_path(std::string_view directory, std::string_view name);
/// `a/b/c.tar` -> `a/b`; `c.tar` -> `.`; `/c` -> `/`.
std::string parent_path(std::string_view path);
/// `a/b/c.tar` -> `c.tar`.
std::string file_name(std::string_view path);
/// `a/b/c.tar` -> `c`.
std::string file_stem(std::string_view path);

/// The path from the root, without resolving symbolic links. Errors: io_failed when the working directory is gone.
Result<std::string> absolute_path(const std::string& path);
/// Expands a pattern with `*`, `?` and `[...]` to the sorted existing paths; a path without them expands to itself when it
/// exists.
std::vector<std::string> expand_glob(const std::string& pattern);

}  // namespace parascale
