#include "parascale/checkpoint/validate.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "parascale/base/text.h"
#include "parascale/checkpoint/manifest.h"
#include "parascale/checkpoint/validate_v1.h"

namespace parascale::checkpoint {

namespace {

constexpr std::uint64_t kMaxManifestBytes = 1ULL << 30;

Json to_json(const std::vector<Mismatch>& mismatches) {
  Json out = Json::array();
  for (const auto& mismatch : mismatches) {
    Json item = Json::object({{"path", mismatch.path}, {"expected", mismatch.expected}, {"actual", mismatch.actual}});
    if (mismatch.end_byte != 0) {
      item["bytes"] = Json::array({mismatch.begin_byte, mismatch.end_byte});
      item["tensors"] = Json::array_of(mismatch.tensors);
    }
    out.push_back(std::move(item));
  }
  return out;
}

/// The newest checkpoint of a root, verified or not; directories without a readable manifest are errors of the root.
Result<std::string> newest_of(FileSystem& files, const std::string& root, std::vector<std::string>& errors) {
  PS_ASSIGN(const auto checkpoints, list_checkpoints(files, root));
  if (checkpoints.empty()) {
    return Error(Code::checkpoint_not_found, fmt::format("`{}` holds no checkpoint", root))
        .help("give a step directory, a checkpoint root, a run directory or a manifest.json");
  }
  const auto readable = std::ranges::find_if(checkpoints, [](const CheckpointEntry& c) { return c.manifest.has_value(); });
  const auto chosen = readable == checkpoints.end() ? checkpoints.begin() : readable;
  for (const auto& checkpoint : checkpoints) {
    const bool foreign =
        checkpoint.error && checkpoint.error->code() == Code::artifact_version;  // the original's, in the same root
    if (checkpoint.error && !foreign && checkpoint.path != chosen->path) {
      errors.push_back(checkpoint.error->message());
    }
  }
  return chosen->path;
}

/// Finds the step directory that `path` means.
Result<std::string> locate(FileSystem& files, const std::string& path, std::vector<std::string>& errors) {
  if (file_name(path) == kManifestName && files.exists(path)) {
    return parent_path(path);
  }
  if (file_name(path) == "best" && !files.exists(path)) {
    PS_ASSIGN(const auto reference, resolve_reference(files, path));
    return reference.directory;
  }
  if (!files.list(path).ok()) {
    return Error(Code::checkpoint_not_found, fmt::format("`{}` is no directory", path));
  }
  if (files.exists(join_path(path, kManifestName)) || parse_step_directory_name(file_name(path))) {
    return path;
  }
  const std::string inner = join_path(path, "checkpoints");
  return newest_of(files, files.list(inner).ok() ? inner : path, errors);
}

void add_damage(const Damage& damage, Validation& out) {
  switch (damage.kind) {
    case Damage::Kind::missing:
      out.missing.push_back(damage.file);
      break;
    case Damage::Kind::size:
      out.size_mismatches.push_back({.path = damage.file, .expected = damage.expected, .actual = damage.actual});
      break;
    case Damage::Kind::hash:
      out.checksum_mismatches.push_back(
          {damage.file, damage.expected, damage.actual, damage.begin_byte, damage.end_byte, damage.tensors});
      break;
    case Damage::Kind::unreadable:
    case Damage::Kind::structure:
      out.errors.push_back(damage.text());
      break;
  }
}

void validate_v3(FileSystem& files, const Manifest& manifest, Validation& out) {
  const VerifyReport report = verify_files(files, out.checkpoint, manifest, VerifyLevel::hashes);
  out.checked_files = report.checked_files;
  out.checked_bytes = report.checked_bytes;
  std::set<std::string> directories;
  std::uint64_t bytes = 0;
  for (const auto& file : manifest.files) {
    directories.insert(parent_path(file.path));
    bytes += file.size_bytes;
  }
  out.checked_directories = directories.size();
  for (const auto& damage : report.damages) {
    add_damage(damage, out);
  }
  out.manifest = Json::object({{"path", out.manifest_path},
                               {"format", Manifest::kFormat},
                               {"version", Manifest::kVersion},
                               {"step", manifest.step.value},
                               {"seq", manifest.seq},
                               {"backend", manifest.backend},
                               {"world_size", manifest.world_size},
                               {"created", manifest.created},
                               {"files", static_cast<std::uint64_t>(manifest.files.size())},
                               {"tensors", static_cast<std::uint64_t>(manifest.tensors.size())},
                               {"bytes", bytes}});
}

}  // namespace

Json Validation::to_json() const {
  return Json::object({{"format_version", 1},
                       {"mode", "checkpoint_validate"},
                       {"runtime_status", "diagnostic"},
                       {"checkpoint", checkpoint},
                       {"manifest", manifest},
                       {"validation", Json::object({{"ok", ok()},
                                                    {"checked_files", checked_files},
                                                    {"checked_directories", checked_directories},
                                                    {"checked_bytes", checked_bytes},
                                                    {"missing", Json::array_of(missing)},
                                                    {"checksum_mismatches", checkpoint::to_json(checksum_mismatches)},
                                                    {"size_mismatches", checkpoint::to_json(size_mismatches)},
                                                    {"errors", Json::array_of(errors)}})}});
}

std::string Validation::to_text() const {
  std::string out = fmt::format("Checkpoint {}\n\n", checkpoint);
  const auto line = [&](std::string_view name, std::string_view text) { out += fmt::format("  {:<12} {}\n", name, text); };
  if (const Json* step = manifest.find("step")) {
    const Json* seq = manifest.find("seq");
    line("step", step->dump() + (seq != nullptr ? fmt::format("  commit {}", seq->dump()) : ""));
  }
  line("format", manifest.get_or<std::string>("format", "-").value_or("-"));
  line("verified", fmt::format("{}, {}", format_count(checked_files, "file"), format_bytes(checked_bytes)));
  for (const auto& path : missing) {
    line("missing", path);
  }
  for (const auto& [path, expected, actual, begin, end, tensors] : size_mismatches) {
    line("size", fmt::format("{}  {} bytes, expected {}", path, actual, expected));
  }
  for (const auto& [path, expected, actual, begin, end, tensors] : checksum_mismatches) {
    line("damaged", end == 0 ? path : fmt::format("{}  bytes {}..{}  {}", path, begin, end, join(tensors, " ")));
  }
  for (const auto& error : errors) {
    line("error", error);
  }
  const std::size_t faults = missing.size() + size_mismatches.size() + checksum_mismatches.size() + errors.size();
  return out + (ok() ? "\nvalid\n" : fmt::format("\ndamaged: {}\n", format_count(faults, "fault")));
}

Status Validation::status() const {
  if (ok()) {
    return {};
  }
  const std::string what = fmt::format("checkpoint `{}` is not valid", checkpoint);
  if (!missing.empty() || !size_mismatches.empty()) {
    return Error(Code::file_mismatch, fmt::format("{}: `{}` is missing or has the wrong size", what,
                                                  !missing.empty() ? missing.front() : size_mismatches.front().path));
  }
  if (!checksum_mismatches.empty()) {
    const Mismatch& first = checksum_mismatches.front();
    return Error(Code::hash_mismatch, fmt::format("{}: `{}` differs from its hash at bytes {}..{}", what, first.path,
                                                  first.begin_byte, first.end_byte));
  }
  return Error(Code::manifest_invalid, fmt::format("{}: {}", what, errors.front()));
}

Result<Validation> validate(FileSystem& files, const std::string& path) {
  Validation out;
  PS_ASSIGN(out.checkpoint, locate(files, path, out.errors));
  out.manifest_path = join_path(out.checkpoint, kManifestName);
  out.manifest["path"] = out.manifest_path;
  if (!files.exists(out.manifest_path)) {
    return Error(Code::checkpoint_not_found, fmt::format("`{}` holds no {}", out.checkpoint, kManifestName));
  }
  PS_ASSIGN(const std::string text, read_file(files, out.manifest_path, kMaxManifestBytes));
  Result<Manifest> manifest = parse_manifest(text, out.manifest_path);
  if (manifest.ok()) {
    validate_v3(files, *manifest, out);
    return out;
  }
  const auto json = parse_json(text, out.manifest_path, {.max_bytes = kMaxManifestBytes});
  if (json.ok() && json->get_or<std::string>("format", "").value_or("") == kManifestV1Format) {
    if (Status checked = validate_v1(files, out.checkpoint, *json, out); !checked.ok()) {
      out.errors.push_back(checked.error().message());
    }
    return out;
  }
  if (manifest.error().code() == Code::artifact_version) {
    return manifest.error();
  }
  out.errors.push_back(manifest.error().message());
  return out;
}

}  // namespace parascale::checkpoint
