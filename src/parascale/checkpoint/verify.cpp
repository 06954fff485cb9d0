#include <fmt/core.h>

#include <algorithm>

#include "parascale/base/hash.h"
#include "parascale/base/text.h"
#include "parascale/checkpoint/safetensors.h"
#include "parascale/checkpoint/store.h"

namespace parascale::checkpoint {

namespace {

constexpr std::size_t kMaxDamagesPerFile = 64;  // a zeroed file of a terabyte must not make a report of a million lines
constexpr std::size_t kMaxTensorsShown = 4;

std::vector<std::string> tensors_in(const Manifest& manifest, std::string_view file, std::uint64_t begin, std::uint64_t end) {
  std::vector<std::string> names;
  for (const auto& tensor : manifest.tensors) {
    const bool hit = std::ranges::any_of(tensor.pieces, [&](const PieceRecord& piece) {
      return piece.file == file && piece.offset_bytes < end && begin < piece.offset_bytes + piece.size_bytes;
    });
    if (hit) {
      names.push_back(tensor.name);
    }
  }
  return names;
}

/// Refuses paths that lead through anything but real directories to a regular file.
std::optional<Damage> check_place(FileSystem& files, const std::string& directory, const std::string& path) {
  std::string at = directory;
  const auto parts = split(path, '/');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    at = join_path(at, parts[i]);
    const auto info = files.info(at);
    if (!info.ok()) {
      return files.exists(at) ? Damage{.kind = Damage::Kind::unreadable, .file = path, .actual = info.error().message()}
                              : Damage{.kind = Damage::Kind::missing, .file = path};
    }
    const bool last = i + 1 == parts.size();
    if (last ? !info->is_regular : !info->is_directory) {
      return Damage{.kind = Damage::Kind::unreadable, .file = path, .actual = fmt::format("`{}` is a link or special file", at)};
    }
  }
  return std::nullopt;
}

/// Verifies one file and adds what it finds to the report.
class FileVerifier {
 public:
  FileVerifier(const Manifest& manifest, const FileRecord& record, VerifyReport& report)
      : manifest_(manifest), record_(record), report_(report) {}

  void run(FileSystem& files, const std::string& directory, VerifyLevel level) {
    ++report_.checked_files;
    if (auto damage = check_place(files, directory, record_.path)) {
      report_.damages.push_back(std::move(*damage));
      return;
    }
    auto file = files.open(join_path(directory, record_.path), OpenMode::read);
    if (!file.ok()) {
      add({.kind = Damage::Kind::unreadable, .actual = file.error().message()});
      return;
    }
    const auto size = (*file)->size();
    if (!size.ok() || *size != record_.size_bytes) {
      add({.kind = size.ok() ? Damage::Kind::size : Damage::Kind::unreadable,
           .begin_byte = size.ok() ? std::min(*size, record_.size_bytes) : 0,
           .end_byte = record_.size_bytes,
           .expected = std::to_string(record_.size_bytes),
           .actual = size.ok() ? std::to_string(*size) : size.error().message()});
      return;
    }
    if (level == VerifyLevel::hashes && check_bytes(**file) && record_.path.ends_with(".safetensors")) {
      check_structure(**file);
    }
  }

 private:
  void add(Damage damage) {
    damage.file = record_.path;
    report_.damages.push_back(std::move(damage));
  }

  /// Returns whether every byte is as it was written.
  bool check_bytes(File& file) {
    std::vector<std::byte> block(std::min<std::uint64_t>(record_.chunk_bytes, record_.size_bytes));
    Xxh3Stream whole;
    std::size_t damages = 0;
    for (std::size_t i = 0; i < record_.chunks.size(); ++i) {
      const std::uint64_t begin = i * record_.chunk_bytes;
      const std::uint64_t end = std::min(begin + record_.chunk_bytes, record_.size_bytes);
      const auto got = file.read_at(begin, std::span(block).first(end - begin));
      if (!got.ok() || *got != end - begin) {
        add({.kind = Damage::Kind::unreadable,
             .begin_byte = begin,
             .end_byte = end,
             .actual = got.ok() ? "the file became shorter" : got.error().message()});
        return false;
      }
      const auto bytes = std::span<const std::byte>(block).first(end - begin);
      whole.update(bytes);
      report_.checked_bytes += bytes.size();
      if (const std::uint64_t actual = xxh3_64(bytes); actual != record_.chunks[i] && damages++ < kMaxDamagesPerFile) {
        add({.kind = Damage::Kind::hash,
             .begin_byte = begin,
             .end_byte = end,
             .tensors = tensors_in(manifest_, record_.path, begin, end),
             .expected = hex64(record_.chunks[i]),
             .actual = hex64(actual)});
      }
    }
    if (const std::string actual = whole.digest_128_hex(); damages == 0 && actual != record_.xxh3_128) {
      add({.kind = Damage::Kind::hash, .end_byte = record_.size_bytes, .expected = record_.xxh3_128, .actual = actual});
      ++damages;
    }
    return damages == 0;
  }

  /// Compares the safetensors header with the manifest: both must say the same about every whole tensor.
  void check_structure(File& file) {
    const auto header = read_safetensors_header(file);
    if (!header.ok()) {
      add({.kind = Damage::Kind::structure, .actual = header.error().message()});
      return;
    }
    for (const auto& tensor : manifest_.tensors) {
      for (const auto& piece : tensor.pieces) {
        if (piece.file != record_.path || piece.slice.lengths != tensor.global_shape) {
          continue;
        }
        const TensorLocation* stored = header->find(tensor.name);
        const TensorLocation stated{tensor.name, tensor.dtype, tensor.global_shape, piece.offset_bytes, piece.size_bytes};
        if (stored == nullptr || *stored != stated) {
          add({.kind = Damage::Kind::structure,
               .begin_byte = piece.offset_bytes,
               .end_byte = piece.offset_bytes + piece.size_bytes,
               .tensors = {tensor.name},
               .actual = "the file's header and the manifest disagree"});
        }
      }
    }
  }

  const Manifest& manifest_;
  const FileRecord& record_;
  VerifyReport& report_;
};

}  // namespace

std::string Damage::text() const {
  std::string names;
  if (!tensors.empty()) {
    const std::size_t shown = std::min(tensors.size(), kMaxTensorsShown);
    names = fmt::format(" ({} {}{})", tensors.size() == 1 ? "tensor" : "tensors", join(std::span(tensors).first(shown), ", "),
                        tensors.size() > shown ? fmt::format(" and {} more", tensors.size() - shown) : "");
  }
  switch (kind) {
    case Kind::missing:
      return fmt::format("`{}` is missing", file);
    case Kind::size:
      return fmt::format("`{}` has {} bytes, expected {}", file, actual, expected);
    case Kind::hash:
      return fmt::format("`{}` bytes {}..{} differ from their hash {}: {}{}", file, begin_byte, end_byte, expected, actual,
                         names);
    case Kind::unreadable:
      return fmt::format("`{}` cannot be read: {}", file, actual);
    case Kind::structure:
      return fmt::format("`{}` is not a consistent tensor file: {}{}", file, actual, names);
  }
  return file;
}

Status VerifyReport::status(std::string_view directory) const {
  if (ok()) {
    return {};
  }
  Code code = Code::file_mismatch;
  if (damages.front().kind == Damage::Kind::hash) {
    code = Code::hash_mismatch;
  } else if (damages.front().kind == Damage::Kind::structure) {
    code = Code::safetensors_invalid;
  }
  Error error(code, fmt::format("checkpoint `{}` is damaged: {}", directory, damages.front().text()));
  for (std::size_t i = 1; i < damages.size(); ++i) {
    error.note(damages[i].text());
  }
  return error;
}

bool belongs_to(const FileRecord& file, LoadPart part) { return part == LoadPart::all || !file.path.starts_with("training/"); }

VerifyReport verify_files(FileSystem& files, const std::string& directory, const Manifest& manifest, VerifyLevel level,
                          LoadPart part) {
  VerifyReport report;
  for (const auto& record : manifest.files) {
    if (belongs_to(record, part)) {
      FileVerifier(manifest, record, report).run(files, directory, level);
    }
  }
  return report;
}

Result<VerifyReport> verify(FileSystem& files, const std::string& directory, VerifyLevel level) {
  PS_ASSIGN(const Manifest manifest, read_manifest(files, directory));
  return verify_files(files, directory, manifest, level);
}

}  // namespace parascale::checkpoint
