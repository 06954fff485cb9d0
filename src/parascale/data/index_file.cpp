// The index file of docs/formats/index.md: written and read here only.
#include <fmt/core.h>

#include <cstring>
#include <type_traits>

#include "parascale/base/hash.h"
#include "parascale/data/dataset_index.h"

namespace parascale::data {

namespace {

constexpr std::uint32_t kMagic = 0x58495350;  // "PSIX"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kFingerprintBytes = 32;
constexpr std::size_t kHashedFrom = 16;

struct FileHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t hash;  ///< XXH3-64 of everything after this member
  std::uint64_t shard_count;
  std::uint64_t entry_count;
  std::uint64_t strings_bytes;
  std::uint64_t incomplete;
  std::uint64_t unlabelled;
  std::uint32_t min_width;
  std::uint32_t max_width;
  std::uint32_t min_height;
  std::uint32_t max_height;
  char fingerprint[kFingerprintBytes];
};
static_assert(sizeof(FileHeader) == 104 && std::is_trivially_copyable_v<FileHeader>);

struct FileShard {
  std::uint64_t path_offset;
  std::uint32_t path_bytes;
  std::uint32_t damage_bytes;
  std::uint64_t damage_offset;
  std::uint64_t size_bytes;
  std::int64_t modified_ns;
};
static_assert(sizeof(FileShard) == 40);

template <typename T>
void append(std::string& out, const T& value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof bytes);
}

template <typename T>
T load(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

Error damaged(std::string_view what) { return Error(Code::index_failed, fmt::format("the index file is damaged: {}", what)); }

Result<std::string> text_at(std::string_view strings, std::uint64_t offset, std::uint64_t bytes) {
  if (offset > strings.size() || bytes > strings.size() - offset) {
    return damaged("a text lies outside the file");
  }
  return std::string(strings.substr(offset, bytes));
}

}  // namespace

std::string encode_index(const DatasetIndex& index) {
  const DatasetSummary& summary = index.summary;
  PS_CHECK(summary.fingerprint.size() == kFingerprintBytes, "a fingerprint has 32 digits");
  std::string strings;
  std::string body;
  for (const auto& shard : index.shards) {
    FileShard row{.path_offset = strings.size(),
                  .path_bytes = static_cast<std::uint32_t>(shard.path.size()),
                  .damage_bytes = static_cast<std::uint32_t>(shard.damage.size()),
                  .damage_offset = strings.size() + shard.path.size(),
                  .size_bytes = shard.size_bytes,
                  .modified_ns = shard.modified_ns};
    strings += shard.path;
    strings += shard.damage;
    append(body, row);
  }
  for (const auto& entry : index.entries) {
    append(body, entry);
  }
  FileHeader header{.magic = kMagic,
                    .version = kVersion,
                    .hash = 0,
                    .shard_count = index.shards.size(),
                    .entry_count = index.entries.size(),
                    .strings_bytes = strings.size(),
                    .incomplete = summary.incomplete,
                    .unlabelled = summary.unlabelled,
                    .min_width = summary.min_width,
                    .max_width = summary.max_width,
                    .min_height = summary.min_height,
                    .max_height = summary.max_height,
                    .fingerprint = {}};
  std::memcpy(header.fingerprint, summary.fingerprint.data(), kFingerprintBytes);
  std::string out;
  out.reserve(sizeof header + body.size() + strings.size());
  append(out, header);
  out += body;
  out += strings;
  header.hash = xxh3_64(as_bytes(std::string_view(out).substr(kHashedFrom)));
  std::memcpy(out.data(), &header, kHashedFrom);
  return out;
}

Result<DatasetIndex> decode_index(std::string_view bytes) {
  if (bytes.size() < sizeof(FileHeader)) {
    return damaged("shorter than its header");
  }
  const auto header = load<FileHeader>(bytes, 0);
  if (header.magic != kMagic || header.version != kVersion) {
    return damaged("foreign magic or version");
  }
  if (header.hash != xxh3_64(as_bytes(bytes.substr(kHashedFrom)))) {
    return damaged("the content differs from its hash");
  }
  const std::uint64_t room = bytes.size() - sizeof header;
  if (header.shard_count > room / sizeof(FileShard) || header.entry_count > room / sizeof(IndexEntry) ||
      header.strings_bytes > room ||
      header.shard_count * sizeof(FileShard) + header.entry_count * sizeof(IndexEntry) + header.strings_bytes != room) {
    return damaged("the counts do not follow from the size");
  }
  const std::size_t entries_at = sizeof header + header.shard_count * sizeof(FileShard);
  const std::string_view strings = bytes.substr(bytes.size() - header.strings_bytes);
  DatasetIndex index;
  DatasetSummary& summary = index.summary;
  for (std::uint64_t i = 0; i < header.shard_count; ++i) {
    const auto row = load<FileShard>(bytes, sizeof header + i * sizeof(FileShard));
    IndexShard shard{.path = {}, .size_bytes = row.size_bytes, .modified_ns = row.modified_ns, .damage = {}};
    PS_ASSIGN(shard.path, text_at(strings, row.path_offset, row.path_bytes));
    PS_ASSIGN(shard.damage, text_at(strings, row.damage_offset, row.damage_bytes));
    if (!shard.damage.empty()) {
      ++summary.damaged_shards;
      summary.damage.push_back(fmt::format("{}: {}", file_name(shard.path), shard.damage));
    }
    summary.bytes += shard.size_bytes;
    index.shards.push_back(std::move(shard));
  }
  index.entries.resize(header.entry_count);
  if (header.entry_count > 0) {
    std::memcpy(index.entries.data(), bytes.data() + entries_at, header.entry_count * sizeof(IndexEntry));
  }
  for (const auto& entry : index.entries) {
    if (entry.shard >= index.shards.size()) {
      return damaged("an entry names a shard that is not there");
    }
  }
  summary.samples = header.entry_count;
  summary.incomplete = header.incomplete;
  summary.unlabelled = header.unlabelled;
  summary.fingerprint = std::string(static_cast<const char*>(header.fingerprint), kFingerprintBytes);
  summary.shards = header.shard_count;
  summary.min_width = header.min_width;
  summary.max_width = header.max_width;
  summary.min_height = header.min_height;
  summary.max_height = header.max_height;
  return index;
}

}  // namespace parascale::data
