#include "parascale/data/dataset_index.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

#include "parascale/base/hash.h"
#include "parascale/base/text.h"
#include "parascale/data/byte_source.h"
#include "parascale/data/png_decode.h"
#include "parascale/data/tar_reader.h"

namespace parascale::data {

namespace {

enum class MemberKind : std::uint8_t { image, label, caption, other };

MemberKind member_kind(std::string_view extension) {
  // Other image formats count as images too: they fail when they are read, with a reason, instead of vanishing.
  static constexpr std::array<std::string_view, 11> kImages{"png", "jpg", "jpeg", "webp", "bmp", "gif",
                                                            "ppm", "pgm", "tif",  "tiff", "jxl"};
  if (std::ranges::find(kImages, extension) != kImages.end()) {
    return MemberKind::image;
  }
  if (extension == "cls") {
    return MemberKind::label;
  }
  return extension == "txt" ? MemberKind::caption : MemberKind::other;
}

void hash_number(Xxh3Stream& hash, std::uint64_t value) { hash.update(std::as_bytes(std::span(&value, 1))); }

void hash_text(Xxh3Stream& hash, std::string_view text) {
  hash_number(hash, text.size());
  hash.update(as_bytes(text));
}

void widen(DatasetSummary& summary, PngSize size) {
  const bool first = summary.max_width == 0;
  summary.min_width = first ? size.width : std::min(summary.min_width, size.width);
  summary.min_height = first ? size.height : std::min(summary.min_height, size.height);
  summary.max_width = std::max(summary.max_width, size.width);
  summary.max_height = std::max(summary.max_height, size.height);
}

/// Reads the label text of a `.cls` member.
Result<std::optional<std::int64_t>> read_label(ByteSource& source, const TarMember& member) {
  std::array<char, 32> text{};
  if (member.size_bytes > text.size()) {
    return std::optional<std::int64_t>();
  }
  const auto into = std::as_writable_bytes(std::span(text)).first(member.size_bytes);
  PS_ASSIGN(const std::size_t got, source.read_at(member.offset_bytes, into));
  return parse_int64(trim(std::string_view(text.data(), got)));
}

/// Groups the members of one shard after another into samples.
class Grouping {
 public:
  explicit Grouping(DatasetIndex& index) : index_(index) {}

  void begin_shard(std::uint32_t shard, const std::string& name) {
    shard_ = shard;
    hash_text(hash_, name);
  }

  Status add(ByteSource& source, const TarMember& member) {
    const auto name = split_member_name(member.name);
    if (!name) {
      return {};
    }
    const MemberKind kind = member_kind(name->extension);
    if (!open_ || name->key != key_ || (kind != MemberKind::other && seen(kind))) {
      end_sample();
      open_ = true;
      key_ = name->key;
      entry_ = IndexEntry{.shard = shard_};
    }
    hash_text(sample_hash_, name->extension);
    hash_number(sample_hash_, member.offset_bytes);
    hash_number(sample_hash_, member.size_bytes);
    return take(source, member, kind);
  }

  void end_sample() {
    if (!open_) {
      return;
    }
    open_ = false;
    hash_text(hash_, key_);
    hash_number(hash_, sample_hash_.digest_64());
    sample_hash_ = Xxh3Stream();
    index_.summary.incomplete += entry_.has(IndexEntry::kHasImage) ? 0U : 1U;
    index_.summary.unlabelled += entry_.has(IndexEntry::kHasLabel) ? 0U : 1U;
    index_.entries.push_back(entry_);
  }

  std::string fingerprint() const { return hash_.digest_128_hex(); }

 private:
  bool seen(MemberKind kind) const {
    switch (kind) {
      case MemberKind::image:
        return entry_.has(IndexEntry::kHasImage);
      case MemberKind::label:
        return entry_.has(IndexEntry::kHasLabel | IndexEntry::kBadLabel);
      case MemberKind::caption:
        return entry_.has(IndexEntry::kHasCaption);
      case MemberKind::other:
        break;
    }
    return false;
  }

  Status take(ByteSource& source, const TarMember& member, MemberKind kind) {
    const auto bytes = static_cast<std::uint32_t>(member.size_bytes);  // the archive limit is 1 GiB
    if (kind == MemberKind::image) {
      entry_.flags |= IndexEntry::kHasImage;
      entry_.image_offset_bytes = member.offset_bytes;
      entry_.image_bytes = bytes;
      std::array<std::byte, kPngHeadBytes> head{};
      PS_ASSIGN(const std::size_t got,
                source.read_at(member.offset_bytes, std::span(head).first(std::min<std::size_t>(bytes, head.size()))));
      if (const auto size = read_png_size(std::span(head).first(got)); size.ok()) {
        widen(index_.summary, *size);
      }
    } else if (kind == MemberKind::label) {
      PS_ASSIGN(const auto label, read_label(source, member));
      entry_.flags |= label ? IndexEntry::kHasLabel : IndexEntry::kBadLabel;
      entry_.label = label.value_or(0);
    } else if (kind == MemberKind::caption) {
      entry_.flags |= IndexEntry::kHasCaption;
      entry_.caption_offset_bytes = member.offset_bytes;
      entry_.caption_bytes = bytes;
    }
    return {};
  }

  DatasetIndex& index_;
  Xxh3Stream hash_;
  Xxh3Stream sample_hash_;
  std::uint32_t shard_ = 0;
  bool open_ = false;
  std::string key_;
  IndexEntry entry_;
};

std::uint64_t total_bytes(const std::vector<IndexShard>& shards) {
  std::uint64_t sum = 0;
  for (const auto& shard : shards) {
    sum += shard.size_bytes;
  }
  return sum;
}

}  // namespace

std::map<std::int64_t, std::uint64_t> DatasetIndex::label_counts() const {
  std::map<std::int64_t, std::uint64_t> counts;
  for (const auto& entry : entries) {
    if (entry.has(IndexEntry::kHasLabel)) {
      ++counts[entry.label];
    }
  }
  return counts;
}

std::optional<MemberName> split_member_name(std::string_view name) {
  const auto slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const auto dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) {
    return std::nullopt;
  }
  const auto stem = name.substr(base, dot - base);
  if (stem.size() > 4 && stem.starts_with("__") && stem.ends_with("__")) {
    return std::nullopt;
  }
  MemberName out{.key = name.substr(0, dot), .extension = std::string(name.substr(dot + 1))};
  std::ranges::transform(out.extension, out.extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

Result<DatasetIndex> build_tar_index(FileSystem& files, std::vector<IndexShard> shards, const IndexProgressCallback& progress) {
  DatasetIndex index;
  Grouping grouping(index);
  IndexProgress done{.shards_done = 0, .shards = shards.size(), .bytes_done = 0, .bytes = total_bytes(shards)};
  for (std::size_t i = 0; i < shards.size(); ++i) {
    IndexShard& shard = shards[i];
    PS_ASSIGN(const auto file, files.open(shard.path, OpenMode::read));
    BufferedFileSource source(*file, shard.size_bytes);
    grouping.begin_shard(static_cast<std::uint32_t>(i), file_name(shard.path));
    const auto scan = scan_tar(source, [&](const TarMember& member) { return grouping.add(source, member); });
    if (!scan.ok()) {
      return scan.error().wrap(Code::archive_damaged, fmt::format("cannot read the archive `{}`", shard.path));
    }
    grouping.end_sample();  // a sample does not span shards
    if (scan->damage) {
      shard.damage = fmt::format("{} at byte {}", scan->damage->reason, scan->damage->offset_bytes);
      ++index.summary.damaged_shards;
      index.summary.damage.push_back(fmt::format("{}: {}", file_name(shard.path), shard.damage));
    }
    ++done.shards_done;
    done.bytes_done += shard.size_bytes;
    if (progress) {
      progress(done);
    }
  }
  index.summary.samples = index.entries.size();
  index.summary.bytes = done.bytes;
  index.summary.shards = shards.size();
  index.summary.fingerprint = grouping.fingerprint();
  index.shards = std::move(shards);
  return index;
}

Result<DatasetIndex> build_files_index(FileSystem& files, std::vector<IndexShard> shards) {
  DatasetIndex index;
  Xxh3Stream hash;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const IndexShard& shard = shards[i];
    hash_text(hash, file_name(shard.path));
    hash_number(hash, shard.size_bytes);
    const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(shard.size_bytes, UINT32_MAX));
    index.entries.push_back({.image_bytes = bytes, .shard = static_cast<std::uint32_t>(i), .flags = IndexEntry::kHasImage});
    // A file that cannot be opened is a sample that fails when it is read; here only its size is unknown.
    if (const auto file = files.open(shard.path, OpenMode::read); file.ok()) {
      std::array<std::byte, kPngHeadBytes> head{};
      const auto got = (*file)->read_at(0, head);
      if (const auto size = read_png_size(std::span(head).first(got.value_or(0))); size.ok()) {
        widen(index.summary, *size);
      }
    }
  }
  index.summary.samples = index.entries.size();
  index.summary.unlabelled = index.entries.size();
  index.summary.bytes = total_bytes(shards);
  index.summary.fingerprint = hash.digest_128_hex();
  index.shards = std::move(shards);
  return index;
}

}  // namespace parascale::data
