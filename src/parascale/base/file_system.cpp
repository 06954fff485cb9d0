#include "parascale/base/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <glob.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "parascale/base/unique_fd.h"

namespace parascale {

namespace {

class RealFile final : public File {
 public:
  RealFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  const std::string& path() const override { return path_; }

  Result<std::uint64_t> size() override {
    struct stat status{};
    if (fstat(fd_.get(), &status) != 0) {
      return io_error("stat", path_, errno);
    }
    return static_cast<std::uint64_t>(status.st_size);
  }

  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override {
    std::size_t done = 0;
    while (done < into.size()) {
      const ssize_t got = pread(fd_.get(), into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        return io_error("read", path_, errno);
      }
      if (got == 0) {
        break;
      }
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t put = pwrite(fd_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
      if (put < 0 && errno == EINTR) {
        continue;
      }
      if (put <= 0) {
        return io_error("write", path_, put < 0 ? errno : EIO);
      }
      done += static_cast<std::size_t>(put);
    }
    return {};
  }

  Status allocate(std::uint64_t bytes) override {
    if (bytes > 0 && fallocate(fd_.get(), 0, 0, static_cast<off_t>(bytes)) != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
      return io_error("reserve space for", path_, errno);
    }
    return {};
  }

  Status sync() override {
    if (fsync(fd_.get()) != 0) {
      return io_error("sync", path_, errno);
    }
    return {};
  }

  Status close() override {
    if (::close(fd_.release()) != 0) {
      return io_error("close", path_, errno);
    }
    return {};
  }

 private:
  UniqueFd fd_;
  std::string path_;
};

class RealFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
    int flags = O_CLOEXEC;
    switch (mode) {
      case OpenMode::read:
        flags |= O_RDONLY | O_NONBLOCK;
        break;  // a FIFO must not block before it is refused
      case OpenMode::create_new:
        flags |= O_RDWR | O_CREAT | O_EXCL;
        break;
      case OpenMode::append:
        flags |= O_WRONLY | O_CREAT | O_APPEND;
        break;
    }
    UniqueFd fd(::open(path.c_str(), flags, 0644));
    if (!fd.valid()) {
      return io_error("open", path, errno);
    }
    struct stat status{};
    if (fstat(fd.get(), &status) != 0) {
      return io_error("stat", path, errno);
    }
    if (!S_ISREG(status.st_mode)) {
      return Error(Code::io_failed, fmt::format("cannot open `{}`: not a regular file", path));
    }
    return std::unique_ptr<File>(std::make_unique<RealFile>(std::move(fd), path));
  }

  Status make_directory(const std::string& path) override { return checked(mkdir(path.c_str(), 0755), "make directory", path); }
  Status rename_replace(const std::string& from, const std::string& to) override {
    return checked(::rename(from.c_str(), to.c_str()), fmt::format("rename `{}` to", from), to);
  }
  Status rename_new(const std::string& from, const std::string& to) override {
    return checked(static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE)),
                   fmt::format("rename `{}` to", from), to);
  }
  Status sync_directory(const std::string& path) override {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) {
      return io_error("open directory", path, errno);
    }
    return checked(fsync(fd.get()), "sync directory", path);
  }
  Status remove_file(const std::string& path) override { return checked(unlink(path.c_str()), "remove", path); }
  Status remove_directory(const std::string& path) override { return checked(rmdir(path.c_str()), "remove directory", path); }

  Result<std::vector<DirectoryEntry>> list(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
    if (directory == nullptr) {
      return io_error("list", path, errno);
    }
    std::vector<DirectoryEntry> entries;
    errno = 0;
    while (const dirent* item = readdir(directory.get())) {
      DirectoryEntry entry{.name = static_cast<const char*>(item->d_name)};
      if (entry.name == "." || entry.name == "..") {
        continue;
      }
      struct stat status{};
      if (lstat(join_path(path, entry.name).c_str(), &status) == 0) {  // else it vanished meanwhile
        entry.is_directory = S_ISDIR(status.st_mode);
        entry.is_regular = S_ISREG(status.st_mode);
        entries.push_back(std::move(entry));
      }
      errno = 0;
    }
    if (errno != 0) {
      return io_error("list", path, errno);
    }
    std::ranges::sort(entries, {}, &DirectoryEntry::name);
    return entries;
  }

  Result<FileInfo> info(const std::string& path) override {
    struct stat status{};
    if (lstat(path.c_str(), &status) != 0) {
      return io_error("stat", path, errno);
    }
    return FileInfo{.is_directory = S_ISDIR(status.st_mode),
                    .is_regular = S_ISREG(status.st_mode),
                    .size_bytes = static_cast<std::uint64_t>(status.st_size),
                    .modified_ns = static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec};
  }

  bool exists(const std::string& path) override {
    struct stat status{};
    return lstat(path.c_str(), &status) == 0;
  }

  Result<std::uint64_t> free_bytes(const std::string& path) override {
    struct statvfs status{};
    if (statvfs(path.c_str(), &status) != 0) {
      return io_error("read free space of", path, errno);
    }
    return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
  }

 private:
  static Status checked(int outcome, std::string_view operation, const std::string& path) {
    return outcome == 0 ? Status() : Status(io_error(operation, path, errno));
  }
};

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem files;
  return files;
}

Result<std::string> read_file(FileSystem& files, const std::string& path, std::uint64_t max_bytes) {
  PS_ASSIGN(auto file, files.open(path, OpenMode::read));
  PS_ASSIGN(const std::uint64_t size, file->size());
  if (size > max_bytes) {
    return Error(Code::io_failed, fmt::format("`{}` holds {} bytes; the limit is {}", path, size, max_bytes));
  }
  std::string content(size, '\0');
  PS_ASSIGN(const std::size_t got, file->read_at(0, std::as_writable_bytes(std::span(content))));
  content.resize(got);
  return content;
}

std::string read_small_file(const std::string& path) {
  // Files of /proc and /sys have no size, so they are read until they end.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string content;
  char buffer[4096];
  while (fd.valid() && content.size() < (1U << 20)) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) {
      break;
    }
    content.append(buffer, static_cast<std::size_t>(got));
  }
  return content;
}

Status replace_file(FileSystem& files, const std::string& path, std::string_view content) {
  const std::string temporary = fmt::format("{}.tmp-{}", path, getpid());
  if (files.exists(temporary)) {
    PS_TRY(files.remove_file(temporary));  // a leftover of an earlier process with this number
  }
  PS_ASSIGN(auto file, files.open(temporary, OpenMode::create_new));
  Status written = file->write_at(0, std::as_bytes(std::span(content.data(), content.size())));
  if (written.ok()) {
    written = file->sync();
  }
  if (written.ok()) {
    written = file->close();
  }
  if (written.ok()) {
    written = files.rename_replace(temporary, path);
  }
  if (!written.ok()) {
    (void)files.remove_file(temporary);  // best effort: the write error is what counts
    return written;
  }
  return files.sync_directory(parent_path(path));
}

Status make_directories(FileSystem& files, const std::string& path) {
  if (files.exists(path)) {
    return {};
  }
  if (const std::string parent = parent_path(path); parent != path) {
    PS_TRY(make_directories(files, parent));
  }
  if (Status made = files.make_directory(path); !made.ok() && !files.exists(path)) {
    return made;
  }
  return {};
}

Status remove_tree(FileSystem& files, const std::string& path) {
  if (!files.exists(path)) {
    return {};
  }
  PS_ASSIGN(const FileInfo info, files.info(path));
  if (!info.is_directory) {
    return files.remove_file(path);
  }
  PS_ASSIGN(const auto entries, files.list(path));
  for (const auto& entry : entries) {
    PS_TRY(remove_tree(files, join_path(path, entry.name)));
  }
  return files.remove_directory(path);
}

std::string join_path(std::string_view directory, std::string_view name) {
  if (directory.empty() || name.starts_with('/')) {
    return std::string(name);
  }
  return fmt::format("{}{}{}", directory, directory.ends_with('/') ? "" : "/", name);
}

std::string parent_path(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos) {
    return ".";
  }
  return std::string(path.substr(0, std::max<std::size_t>(slash, 1)));
}

std::string file_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  const auto slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string file_stem(std::string_view path) {
  const std::string name = file_name(path);
  const auto dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? name : name.substr(0, dot);
}

Result<std::string> absolute_path(const std::string& path) {
  if (path.starts_with('/')) {
    return path;
  }
  const std::unique_ptr<char, void (*)(void*)> directory(getcwd(nullptr, 0), std::free);
  if (directory == nullptr) {
    return io_error("find", "the working directory", errno);
  }
  return join_path(directory.get(), path);
}

std::vector<std::string> expand_glob(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found{};
  if (glob(pattern.c_str(), GLOB_BRACE, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      paths.emplace_back(found.gl_pathv[i]);
    }
  }
  globfree(&found);
  std::ranges::sort(paths);
  return paths;
}

}  // namespace parascale
