#include "parascale/checkpoint/commit_attempt.h"

#include <fmt/core.h>

#include <map>
#include <set>

#include "parascale/base/hash.h"
#include "parascale/base/text.h"

namespace parascale::checkpoint {

namespace {

constexpr std::uint64_t kSpareBytes = 8ULL << 20;  // left free beside the checkpoint, plus 1/64 of it

std::map<std::string, std::string> contents_of(const std::vector<FileRecord>& files) {
  std::map<std::string, std::string> contents;
  for (const auto& file : files) {
    contents.emplace(file.path, file.xxh3_128);
  }
  return contents;
}

/// The directories that `paths` need, parents first.
std::set<std::string> directories_of(const Manifest& manifest) {
  std::set<std::string> directories;
  for (const auto& file : manifest.files) {
    for (auto slash = file.path.find('/'); slash != std::string::npos; slash = file.path.find('/', slash + 1)) {
      directories.insert(file.path.substr(0, slash));
    }
  }
  return directories;
}

/// The manifest of a request before its hashes are known.
Manifest make_manifest(const CommitRequest& request, std::uint64_t seq, std::string created) {
  Manifest manifest{.seq = seq,
                    .step = request.step,
                    .run_id = request.run_id,
                    .attempt = request.attempt,
                    .created = std::move(created),
                    .world_size = request.world_size,
                    .backend = request.backend,
                    .config_hash = request.config_hash,
                    .plan_hash = request.plan_hash,
                    .files = {},
                    .tensors = request.tensors,
                    .receipts = request.receipts,
                    .metrics = request.metrics,
                    .progress = request.progress};
  for (const auto& file : request.data_files) {
    manifest.files.push_back(FileRecord{.path = file.path, .role = file.role, .size_bytes = file.bytes.size()});
  }
  for (const auto& file : request.text_files) {
    manifest.files.push_back(FileRecord{.path = file.path, .role = file.role, .size_bytes = file.content.size()});
  }
  return manifest;
}

/// Adds the request's pieces, without hashes, to the tensors of the manifest.
Status add_pieces(const CommitRequest& request, Manifest& manifest) {
  std::map<std::string_view, TensorRecord*> tensors;
  for (auto& tensor : manifest.tensors) {
    tensor.pieces.clear();
    tensors.emplace(tensor.name, &tensor);
  }
  for (const auto& file : request.data_files) {
    for (const auto& piece : file.pieces) {
      const auto found = tensors.find(piece.tensor);
      if (found == tensors.end()) {
        return Error(Code::manifest_invalid,
                     fmt::format("a piece of `{}` belongs to the unknown tensor `{}`", file.path, piece.tensor));
      }
      TensorRecord& tensor = *found->second;
      tensor.pieces.push_back(PieceRecord{.file = file.path,
                                          .offset_bytes = piece.offset_bytes,
                                          .size_bytes = piece.size_bytes,
                                          .slice = piece.slice ? *piece.slice : Slice::whole(tensor.global_shape)});
    }
  }
  return check_consistent(manifest);
}

}  // namespace

Status CommitAttempt::prepare(std::uint64_t seq) {
  manifest_ = make_manifest(request_, seq, iso_time(clock_.wall_ns()));
  return add_pieces(request_, manifest_);
}

Status CommitAttempt::check_space() {
  std::uint64_t need = 0;
  for (const auto& file : manifest_.files) {
    need += file.size_bytes;
  }
  need += need / 64 + kSpareBytes;
  PS_ASSIGN(const std::uint64_t free, files_.free_bytes(options_.root));
  if (free >= need) {
    return {};
  }
  return Error(Code::disk_full, fmt::format("`{}` has {} free; the checkpoint of step {} needs {}", options_.root,
                                            format_bytes(free), request_.step.value, format_bytes(need)))
      .help("free some space, or keep fewer checkpoints with parascale.training.checkpoint_keep_last");
}

/// Calls `use(bytes, index in manifest_.files)` for every file of the request until one fails.
template <typename Use>
Status CommitAttempt::for_each_file(Use use) const {
  std::size_t i = 0;
  for (const auto& file : request_.data_files) {
    PS_TRY(use(file.bytes, i++));
  }
  for (const auto& file : request_.text_files) {
    PS_TRY(use(as_bytes(file.content), i++));
  }
  return {};
}

bool CommitAttempt::same_content(const Manifest& existing) const {
  std::vector<FileRecord> records = manifest_.files;
  for_each_file([&](std::span<const std::byte> bytes, std::size_t i) {
    hash_bytes(bytes, records[i]);
    return Status();
  }).value();
  return contents_of(records) == contents_of(existing.files);
}

Status CommitAttempt::write(const std::string& temporary) {
  PS_TRY(files_.make_directory(temporary));
  const auto directories = directories_of(manifest_);
  for (const auto& directory : directories) {
    PS_TRY(files_.make_directory(join_path(temporary, directory)));
  }
  PS_TRY(for_each_file(
      [&](std::span<const std::byte> bytes, std::size_t i) { return writer_.write(temporary, bytes, manifest_.files[i]); }));
  hash_pieces();
  PS_TRY(write_manifest(temporary));
  const Stopwatch watch(clock_, times().sync);
  for (auto directory = directories.rbegin(); directory != directories.rend(); ++directory) {
    PS_TRY(files_.sync_directory(join_path(temporary, *directory)));
  }
  return files_.sync_directory(temporary);
}

void CommitAttempt::hash_pieces() {
  const Stopwatch watch(clock_, times().hash);
  std::map<std::string_view, std::span<const std::byte>> bytes;
  for (const auto& file : request_.data_files) {
    bytes.emplace(file.path, file.bytes);
  }
  for (auto& tensor : manifest_.tensors) {
    for (auto& piece : tensor.pieces) {
      piece.xxh3_64 = xxh3_64(bytes.at(piece.file).subspan(piece.offset_bytes, piece.size_bytes));
    }
  }
}

/// Reads its own text back first: a checkpoint that this program could not load must not be committed.
Status CommitAttempt::write_manifest(const std::string& temporary) {
  const std::string text = manifest_text(manifest_);
  PS_ASSIGN(const Manifest parsed, parse_manifest(text, kManifestName));
  manifest_.self_hash = parsed.self_hash;
  FileRecord record{.path = std::string(kManifestName)};
  PS_TRY(writer_.write(temporary, as_bytes(text), record));
  size_bytes_ = record.size_bytes;
  for (const auto& file : manifest_.files) {
    size_bytes_ += file.size_bytes;
  }
  return {};
}

}  // namespace parascale::checkpoint
