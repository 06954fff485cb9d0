#include "parascale/checkpoint/store.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "parascale/base/hash.h"
#include "parascale/base/json.h"
#include "parascale/checkpoint/best.h"
#include "parascale/checkpoint/safetensors.h"

namespace parascale::checkpoint {

namespace {

constexpr std::uint64_t kMaxTextBytes = 256ULL << 20;
constexpr std::string_view kModelFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

/// Follows a link that the user gave; what is stored inside a checkpoint is looked at without following.
bool is_directory(FileSystem& files, const std::string& path) { return files.list(path).ok(); }

Error not_found(std::string what) { return Error(Code::checkpoint_not_found, std::move(what)); }

bool has_steps(FileSystem& files, const std::string& root) {
  const auto entries = files.list(root);
  return entries.ok() && std::ranges::any_of(*entries, [](const DirectoryEntry& e) {
           return e.is_directory && parse_step_directory_name(e.name);
         });
}

/// The checkpoint root that a run directory or a root stands for.
std::string root_of(FileSystem& files, const std::string& path) {
  const std::string inner = join_path(path, "checkpoints");
  return !has_steps(files, path) && is_directory(files, inner) ? inner : path;
}

bool is_model_directory(FileSystem& files, const std::string& path) {
  return files.exists(join_path(path, kModelFile)) || files.exists(join_path(path, kIndexFile));
}

Result<ResolvedReference> resolve_step(FileSystem& files, const std::string& directory) {
  PS_ASSIGN(auto manifest, read_manifest(files, directory));
  std::string description = fmt::format("checkpoint {} (step {})", directory, manifest.step.value);
  return ResolvedReference{.kind = ResolvedReference::Kind::step,
                           .directory = directory,
                           .root = parent_path(directory),
                           .manifest = std::move(manifest),
                           .description = std::move(description)};
}

Result<ResolvedReference> resolve_best(FileSystem& files, const std::string& base) {
  const std::string root = root_of(files, base);
  PS_ASSIGN(const auto best, read_best(files, root));
  if (!best) {
    return not_found(fmt::format("`{}` has no best checkpoint: there is no {}", root, kBestName));
  }
  PS_ASSIGN(auto reference, resolve_step(files, join_path(root, step_directory_name(best->step))));
  if (reference.manifest->self_hash != best->manifest_hash) {
    return not_found(fmt::format("the best checkpoint of `{}` was commit {} of step {}; the directory holds commit {} now", root,
                                 best->seq, best->step.value, reference.manifest->seq));
  }
  reference.kind = ResolvedReference::Kind::best;
  reference.root = root;
  reference.description = fmt::format("best checkpoint of {} (step {})", base, best->step.value);
  return reference;
}

Result<ResolvedReference> resolve_newest(FileSystem& files, const std::string& given, const std::string& root,
                                         VerifyLevel level) {
  PS_ASSIGN(auto newest, find_newest_verified(files, root, level));
  if (!newest.found) {
    Error error = not_found(fmt::format("no usable checkpoint in `{}`", root));
    for (const auto& skipped : newest.skipped) {
      error.note(fmt::format("skipped {}: {}", skipped.path, skipped.reason.message()));
    }
    return error;
  }
  ResolvedReference reference{.kind = ResolvedReference::Kind::newest, .directory = newest.found->path, .root = root};
  reference.description = fmt::format("newest checkpoint of {} (step {})", given, newest.found->step.value);
  reference.manifest = std::move(newest.found->manifest);
  reference.skipped = std::move(newest.skipped);
  return reference;
}

/// Fills in the tensors of one model file of a plain directory.
Status add_model_file(FileSystem& files, const std::string& directory, const std::string& name, OpenedCheckpoint& out) {
  const std::string path = join_path(directory, name);
  PS_ASSIGN(auto file, files.open(path, OpenMode::read));
  PS_ASSIGN(auto header, read_safetensors_header(*file));
  for (auto& tensor : header.tensors) {
    out.tensors.push_back(TensorSource{.name = std::move(tensor.name),
                                       .kind = "param",
                                       .dtype = tensor.dtype,
                                       .global_shape = tensor.shape,
                                       .slice = Slice::whole(std::move(tensor.shape)),
                                       .file = path,
                                       .offset_bytes = tensor.offset_bytes,
                                       .size_bytes = tensor.size_bytes});
  }
  return {};
}

/// Reads the index of a model in several files: every tensor listed must be in the file named, every tensor of the files must be
/// listed.
Status add_indexed_model(FileSystem& files, const std::string& directory, OpenedCheckpoint& out) {
  const std::string path = join_path(directory, kIndexFile);
  PS_ASSIGN(const std::string text, read_file(files, path, kMaxTextBytes));
  PS_ASSIGN(const Json index, parse_json(text, path, {.max_bytes = kMaxTextBytes}));
  const Json* map = index.find("weight_map");
  const auto invalid = [&](std::string what) { return Error(Code::safetensors_invalid, fmt::format("`{}`: {}", path, what)); };
  if (map == nullptr || !map->is_object()) {
    return invalid("`weight_map` is missing or no object");
  }
  std::map<std::string, std::string> listed;
  std::set<std::string> names;
  for (const auto& [tensor, value] : map->members()) {
    const std::string* file = value.to_string();
    if (file == nullptr || file->find('/') != std::string::npos) {
      return invalid(fmt::format("tensor `{}` is not given a plain file name", tensor));
    }
    PS_TRY(check_relative_path(*file));
    listed.emplace(tensor, join_path(directory, *file));
    names.insert(*file);
  }
  for (const auto& name : names) {
    PS_TRY(add_model_file(files, directory, name, out));
  }
  for (const auto& tensor : out.tensors) {
    const auto entry = listed.find(tensor.name);
    if (entry == listed.end() || entry->second != tensor.file) {
      return invalid(fmt::format("tensor `{}` of `{}` is not listed, or listed for another file, or stored twice", tensor.name,
                                 tensor.file));
    }
    listed.erase(entry);
  }
  if (!listed.empty()) {
    return invalid(fmt::format("tensor `{}` is not in `{}`", listed.begin()->first, listed.begin()->second));
  }
  return {};
}

Result<OpenedCheckpoint> open_model_directory(FileSystem& files, const std::string& directory) {
  OpenedCheckpoint out{.directory = directory};
  if (files.exists(join_path(directory, kIndexFile))) {
    PS_TRY(add_indexed_model(files, directory, out));
  } else {
    PS_TRY(add_model_file(files, directory, std::string(kModelFile), out));
  }
  PS_ASSIGN(const auto entries, files.list(directory));
  for (const auto& entry : entries) {
    if (entry.is_directory || entry.name == kIndexFile || !(entry.name.ends_with(".json") || entry.name.ends_with(".txt"))) {
      continue;
    }
    PS_ASSIGN(auto text, read_file(files, join_path(directory, entry.name), kMaxTextBytes));
    out.texts.emplace(entry.name, std::move(text));
  }
  return out;
}

/// Reads the texts that belong to `part` and checks the very bytes returned.
Status read_texts(FileSystem& files, const Manifest& manifest, LoadPart part, OpenedCheckpoint& out) {
  for (const auto& record : manifest.files) {
    if (record.path.ends_with(".safetensors") || !belongs_to(record, part)) {
      continue;
    }
    PS_ASSIGN(auto text, read_file(files, join_path(out.directory, record.path), kMaxTextBytes));
    if (const std::string actual = xxh3_128_hex(as_bytes(text)); actual != record.xxh3_128) {
      return Error(Code::hash_mismatch, fmt::format("`{}` differs from its hash {}: {}", join_path(out.directory, record.path),
                                                    record.xxh3_128, actual));
    }
    out.texts.emplace(record.path, std::move(text));
  }
  return {};
}

void add_sources(const Manifest& manifest, LoadPart part, OpenedCheckpoint& out) {
  for (const auto& tensor : manifest.tensors) {
    const TensorRecord* stored = tensor.alias_of ? manifest.find_tensor(*tensor.alias_of) : &tensor;
    for (const auto& piece : stored->pieces) {
      const FileRecord* file = manifest.find_file(piece.file);
      if (file == nullptr || !belongs_to(*file, part)) {
        continue;
      }
      out.tensors.push_back(TensorSource{.name = tensor.name,
                                         .kind = tensor.kind,
                                         .dtype = tensor.dtype,
                                         .global_shape = tensor.global_shape,
                                         .slice = piece.slice,
                                         .file = join_path(out.directory, piece.file),
                                         .offset_bytes = piece.offset_bytes,
                                         .size_bytes = piece.size_bytes,
                                         .xxh3_64 = piece.xxh3_64,
                                         .alias_of = tensor.alias_of});
    }
  }
}

}  // namespace

Result<std::vector<CheckpointEntry>> list_checkpoints(FileSystem& files, const std::string& root) {
  std::vector<CheckpointEntry> found;
  if (!files.exists(root)) {
    return found;
  }
  PS_ASSIGN(const auto entries, files.list(root));
  for (const auto& entry : entries) {
    const auto step = parse_step_directory_name(entry.name);
    if (!step || !entry.is_directory) {
      continue;
    }
    CheckpointEntry checkpoint{.path = join_path(root, entry.name), .step = *step};
    Result<Manifest> manifest = read_manifest(files, checkpoint.path);
    if (manifest.ok() && manifest->step != *step) {
      manifest =
          Error(Code::manifest_invalid, fmt::format("`{}` holds the manifest of step {}", checkpoint.path, manifest->step.value));
    }
    if (manifest.ok()) {
      checkpoint.manifest = std::move(manifest).value();
    } else {
      checkpoint.error = manifest.error();
    }
    found.push_back(std::move(checkpoint));
  }
  std::ranges::sort(found, [](const CheckpointEntry& a, const CheckpointEntry& b) {
    if (a.manifest.has_value() != b.manifest.has_value()) {
      return b.manifest.has_value();
    }
    return a.manifest && a.manifest->seq != b.manifest->seq ? a.manifest->seq > b.manifest->seq : a.step > b.step;
  });
  return found;
}

Result<NewestVerified> find_newest_verified(FileSystem& files, const std::string& root, VerifyLevel level) {
  PS_ASSIGN(auto checkpoints, list_checkpoints(files, root));
  NewestVerified out;
  for (auto& checkpoint : checkpoints) {
    if (!checkpoint.manifest) {
      out.skipped.push_back({checkpoint.path, *checkpoint.error});
      continue;
    }
    const Status verified = verify_files(files, checkpoint.path, *checkpoint.manifest, level).status(checkpoint.path);
    if (verified.ok()) {
      out.found = std::move(checkpoint);
      return out;
    }
    out.skipped.push_back({checkpoint.path, verified.error()});
  }
  return out;
}

Result<ResolvedReference> resolve_reference(FileSystem& files, const std::string& path, VerifyLevel level) {
  if (file_name(path) == kManifestName && files.exists(path)) {
    return resolve_step(files, parent_path(path));
  }
  if (file_name(path) == "best" && !files.exists(path)) {
    return resolve_best(files, parent_path(path));
  }
  if (!is_directory(files, path)) {
    return not_found(fmt::format("`{}` is no directory", path))
        .help("give a step directory, a checkpoint root, a run directory, its `/best`, or a model directory");
  }
  if (files.exists(join_path(path, kManifestName)) || parse_step_directory_name(file_name(path))) {
    return resolve_step(files, path);
  }
  if (const std::string root = root_of(files, path); root != path || has_steps(files, path)) {
    return resolve_newest(files, path, root, level);
  }
  if (is_model_directory(files, path)) {
    return ResolvedReference{.kind = ResolvedReference::Kind::hugging_face,
                             .directory = path,
                             .description = fmt::format("model directory {} without manifest: nothing is verified", path)};
  }
  return not_found(fmt::format("`{}` holds no checkpoint", path))
      .help("give a step directory, a checkpoint root, a run directory, its `/best`, or a model directory");
}

Result<OpenedCheckpoint> open_for_load(FileSystem& files, const std::string& directory, LoadPart part) {
  if (!files.exists(join_path(directory, kManifestName)) && is_model_directory(files, directory)) {
    return open_model_directory(files, directory);
  }
  PS_ASSIGN(auto manifest, read_manifest(files, directory));
  PS_TRY(verify_files(files, directory, manifest, VerifyLevel::hashes, part).status(directory));
  OpenedCheckpoint out{.directory = directory};
  PS_TRY(read_texts(files, manifest, part, out));
  add_sources(manifest, part, out);
  out.manifest = std::move(manifest);
  return out;
}

}  // namespace parascale::checkpoint
