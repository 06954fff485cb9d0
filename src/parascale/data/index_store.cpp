#include "parascale/data/index_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "parascale/base/hash.h"

namespace parascale::data {

namespace {

constexpr std::string_view kFolder = ".parascale-index";
constexpr std::uint64_t kMaxIndexBytes = 1ULL << 36;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_tar(const std::string& path) { return lower(path).ends_with(".tar"); }

bool is_image_name(const std::string& name) {
  static constexpr std::array<std::string_view, 10> kEndings{".png", ".jpg", ".jpeg", ".webp", ".bmp",
                                                             ".gif", ".ppm", ".pgm",  ".tif",  ".tiff"};
  const std::string text = lower(name);
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return text.ends_with(ending); });
}

/// The absolute path without symbolic links, or the path as it is when that fails.
std::string resolved(const std::string& path) {
  std::error_code failure;
  const auto canonical = std::filesystem::weakly_canonical(path, failure);
  return failure ? path : canonical.string();
}

enum class Missing : std::uint8_t { refuse, keep };

/// Sizes and times of `paths`. With `keep`, a file that cannot be looked at stays in the list, to fail when it is read.
Result<std::vector<IndexShard>> describe(FileSystem& files, const std::vector<std::string>& paths, Missing missing) {
  std::vector<IndexShard> shards;
  for (const auto& path : paths) {
    const auto info = files.info(resolved(path));  // a shard may be a symbolic link
    const bool usable = info.ok() && info->is_regular;
    if (!usable && missing == Missing::refuse) {
      return info.ok() ? Error(Code::data_not_found, fmt::format("not a regular file: `{}`", path)) : info.error();
    }
    shards.push_back(
        {.path = path, .size_bytes = usable ? info->size_bytes : 0, .modified_ns = usable ? info->modified_ns : 0, .damage = {}});
  }
  return shards;
}

/// Name of the index file of these shards in `folder`: depends on their names relative to the folder, so that it may be moved.
std::string index_name(const std::vector<IndexShard>& shards, const std::string& folder) {
  Xxh3Stream hash;
  for (const auto& shard : shards) {
    const std::string absolute = resolved(shard.path);
    const bool below = absolute.starts_with(folder + "/");
    hash.update(as_bytes(below ? absolute.substr(folder.size() + 1) : absolute));
    hash.update(as_bytes(std::string_view("\0", 1)));
  }
  return hex64(hash.digest_64()) + ".psix";
}

/// Reads `path`; nothing when it is absent, damaged, or made for other files.
std::optional<DatasetIndex> load_index(FileSystem& files, const std::string& path, const std::vector<IndexShard>& shards) {
  if (!files.exists(path)) {
    return std::nullopt;
  }
  const auto content = read_file(files, path, kMaxIndexBytes);
  if (!content.ok()) {
    return std::nullopt;
  }
  auto index = decode_index(*content);
  if (!index.ok() || index->shards.size() != shards.size()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    IndexShard& stored = index->shards[i];
    if (stored.size_bytes != shards[i].size_bytes || stored.modified_ns != shards[i].modified_ns ||
        stored.path != file_name(shards[i].path)) {
      return std::nullopt;
    }
    stored.path = shards[i].path;
  }
  return std::move(index).value();
}

Status store_index(FileSystem& files, const std::string& path, DatasetIndex index) {
  for (auto& shard : index.shards) {
    shard.path = file_name(shard.path);
  }
  PS_TRY(make_directories(files, parent_path(path)));
  return replace_file(files, path, encode_index(index));
}

std::vector<std::string> index_paths(const std::vector<IndexShard>& shards, const IndexPlaces& places) {
  const std::string folder = resolved(parent_path(shards.front().path));
  const std::string name = index_name(shards, folder);
  std::vector<std::string> paths{join_path(join_path(folder, kFolder), name)};
  if (!places.cache_directory.empty()) {
    paths.push_back(join_path(places.cache_directory, fmt::format("{}-{}", hex64(xxh3_64(as_bytes(folder))), name)));
  }
  return paths;
}

Result<DatasetIndex> open_tar_index(FileSystem& files, std::vector<IndexShard> shards, const IndexProgressCallback& progress,
                                    const IndexPlaces& places) {
  const auto paths = index_paths(shards, places);
  for (const auto& path : paths) {
    if (auto index = load_index(files, path, shards)) {
      return std::move(*index);
    }
  }
  PS_ASSIGN(DatasetIndex index, build_tar_index(files, std::move(shards), progress));
  for (const auto& path : paths) {
    if (store_index(files, path, index).ok()) {
      break;  // a place that cannot be written only costs the next command its time
    }
  }
  return index;
}

DatasetIndex synthetic_index(const DataOptions& options) {
  DatasetIndex index;
  index.summary.samples = options.synthetic.samples;
  index.summary.fingerprint =
      xxh3_128_hex(as_bytes(fmt::format("synthetic {} {}", options.synthetic.samples, options.num_labels)));
  index.summary.min_width = index.summary.max_width = options.recipe.size;
  index.summary.min_height = index.summary.max_height = options.recipe.size;
  return index;
}

}  // namespace

IndexPlaces default_index_places() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') {
    return {.cache_directory = join_path(cache, "parascale/index")};
  }
  const char* home = std::getenv("HOME");
  return {.cache_directory = home != nullptr && *home == '/' ? join_path(home, ".cache/parascale/index") : std::string()};
}

Result<std::vector<std::string>> expand_paths(FileSystem& files, const std::vector<std::string>& patterns) {
  std::vector<std::string> paths;
  for (const auto& pattern : patterns) {
    const auto found = expand_glob(pattern);
    if (found.empty()) {
      return Error(Code::data_not_found, fmt::format("no file matches `{}`", pattern))
          .note(fmt::format("looked for `{}`", absolute_path(pattern).value_or(pattern)))
          .help("relative paths start at the working directory");
    }
    for (const auto& path : found) {
      const auto info = files.info(resolved(path));
      if (!info.ok() || !info->is_directory) {
        paths.push_back(path);
        continue;
      }
      PS_ASSIGN(const auto entries, files.list(path));
      for (const auto& entry : entries) {
        if (!entry.is_directory && is_image_name(entry.name)) {
          paths.push_back(join_path(path, entry.name));
        }
      }
    }
  }
  return paths;
}

Result<std::shared_ptr<const DatasetIndex>> open_index(const DataOptions& options, Split split, FileSystem& files,
                                                       const IndexProgressCallback& progress, const IndexPlaces& places) {
  if (options.type == DatasetType::synthetic && split != Split::infer) {
    if (options.synthetic.samples == 0) {
      return Error(Code::data_empty, "a synthetic dataset of 0 samples");
    }
    return std::shared_ptr<const DatasetIndex>(std::make_shared<DatasetIndex>(synthetic_index(options)));
  }
  if (options.paths(split).empty()) {
    return Error(Code::data_not_found, fmt::format("no data files are given for the split `{}`", split_name(split)));
  }
  PS_ASSIGN(const auto paths, expand_paths(files, options.paths(split)));
  if (paths.empty()) {
    return Error(Code::data_empty, fmt::format("the split `{}` holds no image files", split_name(split)));
  }
  const auto tars = std::ranges::count_if(paths, is_tar);
  if (tars != 0 && std::cmp_not_equal(tars, paths.size())) {
    return Error(Code::data_not_found, fmt::format("the split `{}` mixes tar shards and other files", split_name(split)));
  }
  const bool loose = options.type == DatasetType::files || (split == Split::infer && tars == 0);
  PS_ASSIGN(auto shards, describe(files, paths, loose ? Missing::keep : Missing::refuse));
  Result<DatasetIndex> index =
      loose ? build_files_index(files, std::move(shards)) : open_tar_index(files, std::move(shards), progress, places);
  if (!index.ok()) {
    return index.error();
  }
  if (index->entries.empty()) {
    return Error(Code::data_empty, fmt::format("the split `{}` holds no samples", split_name(split)));
  }
  return std::shared_ptr<const DatasetIndex>(std::make_shared<DatasetIndex>(std::move(*index)));
}

}  // namespace parascale::data
