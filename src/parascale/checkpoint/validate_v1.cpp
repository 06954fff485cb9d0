#include "parascale/checkpoint/validate_v1.h"

#include <fmt/core.h>

#include <algorithm>

#include "parascale/base/hash.h"
#include "parascale/checkpoint/manifest.h"

namespace parascale::checkpoint {

namespace {

constexpr std::uint64_t kBlockBytes = 1ULL << 20;

Result<std::string> sha256_of(File& file, std::uint64_t size_bytes) {
  Sha256Stream hash;
  std::vector<std::byte> block(std::min(size_bytes, kBlockBytes));
  for (std::uint64_t at = 0; at < size_bytes; at += block.size()) {
    PS_ASSIGN(const std::size_t got, file.read_at(at, block));
    hash.update(std::span<const std::byte>(block).first(got));
  }
  return hash.finish_hex();
}

Status check_file(FileSystem& files, const std::string& directory, const std::string& path, const Json& entry, Validation& out) {
  ++out.checked_files;
  const std::string full = join_path(directory, path);
  if (!files.exists(full)) {
    out.missing.push_back(path);
    return {};
  }
  PS_ASSIGN(auto file, files.open(full, OpenMode::read));
  PS_ASSIGN(const std::uint64_t size, file->size());
  if (const Json* stated = entry.find("size_bytes"); stated != nullptr && stated->to_uint64() && *stated->to_uint64() != size) {
    out.size_mismatches.push_back({.path = path, .expected = stated->dump(), .actual = std::to_string(size)});
    return {};
  }
  PS_ASSIGN(const std::string expected, entry.get_or<std::string>("sha256", ""));
  if (!expected.empty()) {
    PS_ASSIGN(const std::string actual, sha256_of(*file, size));
    out.checked_bytes += size;
    if (actual != expected) {
      out.checksum_mismatches.push_back({.path = path, .expected = expected, .actual = actual});
    }
  }
  return {};
}

Status check_entry(FileSystem& files, const std::string& directory, const Json& entry, Validation& out) {
  PS_ASSIGN(const std::string path, entry.get<std::string>("path"));
  PS_TRY(check_relative_path(path));
  if (const Json* error = entry.find("error"); error != nullptr && !error->is_null()) {
    out.errors.push_back(fmt::format("`{}` was recorded with an error: {}", path, error->dump()));
  }
  PS_ASSIGN(const std::string type, entry.get_or<std::string>("entry_type", "file"));
  if (type != "directory") {
    return check_file(files, directory, path, entry, out);
  }
  ++out.checked_directories;
  const auto info = files.info(join_path(directory, path));
  if (!info.ok() || !info->is_directory) {
    out.missing.push_back(path);
  }
  return {};
}

}  // namespace

Status validate_v1(FileSystem& files, const std::string& directory, const Json& document, Validation& out) {
  const Json* entries = document.find("files");
  if (entries == nullptr || !entries->is_array()) {
    return Error(Code::manifest_invalid, fmt::format("`{}` has no list `files`", out.manifest_path));
  }
  for (const Json& entry : entries->items()) {
    if (Status checked = check_entry(files, directory, entry, out); !checked.ok()) {
      out.errors.push_back(checked.error().message());
    }
  }
  if (const Json* metadata = document.find("metadata")) {
    if (const Json* error = metadata->find("backend_checkpoint_error"); error != nullptr && !error->is_null()) {
      out.errors.push_back(fmt::format("the back end recorded an error: {}", error->dump()));
    }
    if (const Json* written = metadata->find("backend_state_written"); written != nullptr && written->to_bool() == false) {
      out.errors.push_back("the back end did not write its state");
    }
  }
  out.manifest = Json::object({{"path", out.manifest_path}, {"format", kManifestV1Format}});
  for (const std::string_view key : {"schema_version", "step", "backend"}) {
    if (const Json* value = document.find(key)) {
      out.manifest[key] = *value;
    }
  }
  out.manifest["files"] = static_cast<std::uint64_t>(entries->items().size());
  return {};
}

}  // namespace parascale::checkpoint
