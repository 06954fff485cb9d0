#include "parascale/checkpoint/manifest.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "parascale/base/hash.h"
#include "parascale/base/text.h"

namespace parascale::checkpoint {

namespace {

constexpr std::string_view kSelfKey = "self_xxh3_128";
constexpr std::string_view kStepPrefix = "step-";
constexpr std::size_t kMaxPathBytes = 512;
constexpr std::size_t kMaxPieces = 4096;  // per tensor; bounds the pairwise check
constexpr std::uint64_t kMaxManifestBytes = 1ULL << 30;

Error invalid(std::string what) { return Error(Code::manifest_invalid, std::move(what)); }

Json to_json(const FileRecord& file) {
  Json chunks = Json::array();
  for (const auto chunk : file.chunks) {
    chunks.push_back(hex64(chunk));
  }
  return Json::object({{"path", file.path},
                       {"role", file.role},
                       {"bytes", file.size_bytes},
                       {"chunk_bytes", file.chunk_bytes},
                       {"chunks", std::move(chunks)},
                       {"xxh3_128", file.xxh3_128}});
}

Json to_json(const TensorRecord& tensor) {
  Json json = Json::object({{"dtype", dtype_name(tensor.dtype)},
                            {"global_shape", Json::array_of(tensor.global_shape)},
                            {"kind", tensor.kind},
                            {"trainable", tensor.trainable},
                            {"group", tensor.group}});
  if (tensor.alias_of) {
    json["alias_of"] = *tensor.alias_of;
  }
  Json pieces = Json::array();
  for (const auto& piece : tensor.pieces) {
    pieces.push_back(Json::object({{"file", piece.file},
                                   {"offset", piece.offset_bytes},
                                   {"bytes", piece.size_bytes},
                                   {"slice", Json::object({{"offsets", Json::array_of(piece.slice.offsets)},
                                                           {"lengths", Json::array_of(piece.slice.lengths)}})},
                                   {"xxh3_64", hex64(piece.xxh3_64)}}));
  }
  json["pieces"] = std::move(pieces);
  return json;
}

Result<std::uint64_t> parse_hex64(const Json& value) {
  const std::string* text = value.to_string();
  std::uint64_t number = 0;
  if (text != nullptr && text->size() == 16 && text->find_first_not_of("0123456789abcdef") == std::string::npos) {
    std::from_chars(text->data(), text->data() + text->size(), number, 16);
    return number;
  }
  return invalid("a hash is not 16 hex digits");
}

Result<std::vector<std::uint64_t>> parse_numbers(const Json& object, std::string_view key) {
  const Json* list = object.find(key);
  if (list == nullptr || !list->is_array()) {
    return invalid(fmt::format("`{}` is not an array", key));
  }
  std::vector<std::uint64_t> numbers;
  for (const Json& item : list->items()) {
    const auto number = item.to_uint64();
    if (!number) {
      return invalid(fmt::format("`{}` holds {}, not a non-negative integer", key, item.type_name()));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

Result<FileRecord> parse_file(const Json& json) {
  FileRecord file;
  PS_ASSIGN(file.path, json.get<std::string>("path"));
  PS_TRY(check_relative_path(file.path));
  PS_ASSIGN(file.role, json.get<std::string>("role"));
  PS_ASSIGN(file.size_bytes, json.get<std::uint64_t>("bytes"));
  PS_ASSIGN(file.chunk_bytes, json.get<std::uint64_t>("chunk_bytes"));
  PS_ASSIGN(file.xxh3_128, json.get<std::string>("xxh3_128"));
  PS_ASSIGN(const Json chunks, json.get<Json>("chunks"));
  for (const Json& item : chunks.items()) {
    PS_ASSIGN(const auto chunk, parse_hex64(item));
    file.chunks.push_back(chunk);
  }
  if (file.chunk_bytes == 0 || file.chunk_bytes > (1ULL << 30) ||
      file.chunks.size() != file.size_bytes / file.chunk_bytes + (file.size_bytes % file.chunk_bytes != 0 ? 1 : 0)) {
    return invalid(fmt::format("file `{}` of {} bytes has {} chunk hashes of {} bytes each", file.path, file.size_bytes,
                               file.chunks.size(), file.chunk_bytes));
  }
  return file;
}

Result<PieceRecord> parse_piece(const Json& json) {
  PieceRecord piece;
  PS_ASSIGN(piece.file, json.get<std::string>("file"));
  PS_ASSIGN(piece.offset_bytes, json.get<std::uint64_t>("offset"));
  PS_ASSIGN(piece.size_bytes, json.get<std::uint64_t>("bytes"));
  PS_ASSIGN(const Json slice, json.get<Json>("slice"));
  PS_ASSIGN(piece.slice.offsets, parse_numbers(slice, "offsets"));
  PS_ASSIGN(piece.slice.lengths, parse_numbers(slice, "lengths"));
  PS_ASSIGN(const Json hash, json.get<Json>("xxh3_64"));
  PS_ASSIGN(piece.xxh3_64, parse_hex64(hash));
  return piece;
}

Result<TensorRecord> parse_tensor(const std::string& name, const Json& json) {
  TensorRecord tensor{.name = name};
  PS_ASSIGN(const auto dtype_text, json.get<std::string>("dtype"));
  const auto dtype = dtype_from_name(dtype_text);
  if (!dtype) {
    return invalid(fmt::format("tensor `{}` has the unknown dtype `{}`", name, dtype_text));
  }
  tensor.dtype = *dtype;
  PS_ASSIGN(tensor.global_shape, parse_numbers(json, "global_shape"));
  PS_ASSIGN(tensor.kind, json.get<std::string>("kind"));
  PS_ASSIGN(tensor.trainable, json.get<bool>("trainable"));
  PS_ASSIGN(tensor.group, json.get<std::string>("group"));
  if (json.contains("alias_of")) {
    PS_ASSIGN(tensor.alias_of, json.get<std::string>("alias_of"));
  }
  PS_ASSIGN(const Json pieces, json.get<Json>("pieces"));
  for (const Json& item : pieces.items()) {
    PS_ASSIGN(auto piece, parse_piece(item));
    tensor.pieces.push_back(std::move(piece));
  }
  return tensor;
}

Result<Manifest> parse_members(const Json& json) {
  Manifest manifest;
  PS_ASSIGN(manifest.seq, json.get<std::uint64_t>("seq"));
  PS_ASSIGN(manifest.step.value, json.get<std::uint64_t>("step"));
  PS_ASSIGN(manifest.run_id, json.get<std::string>("run_id"));
  PS_ASSIGN(manifest.attempt, json.get_or<std::uint32_t>("attempt", 0));
  PS_ASSIGN(manifest.created, json.get<std::string>("created"));
  PS_ASSIGN(manifest.world_size, json.get<std::uint32_t>("world_size"));
  PS_ASSIGN(manifest.backend, json.get<std::string>("backend"));
  PS_ASSIGN(manifest.config_hash, json.get<std::string>("config_hash"));
  PS_ASSIGN(manifest.plan_hash, json.get<std::string>("plan_hash"));
  PS_ASSIGN(manifest.receipts, json.get<Json>("receipts"));
  PS_ASSIGN(manifest.metrics, json.get<Json>("metrics"));
  PS_ASSIGN(manifest.progress, json.get<Json>("progress"));
  PS_ASSIGN(const Json files, json.get<Json>("files"));
  PS_ASSIGN(const Json tensors, json.get<Json>("tensors"));
  if (!files.is_array() || !tensors.is_object()) {
    return invalid("`files` is not an array or `tensors` is not an object");
  }
  for (const Json& item : files.items()) {
    PS_ASSIGN(auto file, parse_file(item));
    manifest.files.push_back(std::move(file));
  }
  for (const auto& [name, value] : tensors.members()) {
    PS_ASSIGN(auto tensor, parse_tensor(name, value));
    manifest.tensors.push_back(std::move(tensor));
  }
  return manifest;
}

/// Number of elements, or nothing when it overflows.
std::optional<std::uint64_t> volume(std::span<const std::uint64_t> shape) { return tensor_bytes(Dtype::u8, shape); }

bool overlap(const Slice& a, const Slice& b) {
  for (std::size_t i = 0; i < a.offsets.size(); ++i) {
    if (a.offsets[i] + a.lengths[i] <= b.offsets[i] || b.offsets[i] + b.lengths[i] <= a.offsets[i]) {
      return false;
    }
  }
  return true;
}

Status check_piece(const TensorRecord& tensor, const PieceRecord& piece, const FileRecord* file) {
  const auto refuse = [&](std::string_view why) {
    return invalid(fmt::format("tensor `{}`, piece at byte {} of `{}`: {}", tensor.name, piece.offset_bytes, piece.file, why));
  };
  if (file == nullptr) {
    return refuse("the file is not in the manifest");
  }
  if (piece.size_bytes > file->size_bytes || piece.offset_bytes > file->size_bytes - piece.size_bytes) {
    return refuse("it ends behind the file");
  }
  const auto& [offsets, lengths] = piece.slice;
  const auto& shape = tensor.global_shape;
  if (offsets.size() != shape.size() || lengths.size() != shape.size()) {
    return refuse("the slice has another number of dimensions than the tensor");
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (lengths[i] > shape[i] || offsets[i] > shape[i] - lengths[i]) {
      return refuse(fmt::format("the slice leaves the tensor in dimension {}", i));
    }
  }
  if (tensor_bytes(tensor.dtype, lengths) != piece.size_bytes) {
    return refuse(fmt::format("{} bytes do not fit the slice", piece.size_bytes));
  }
  return {};
}

/// Inside the tensor, disjoint and of the same number of elements as the tensor: then it is covered exactly once.
Status check_cover(const TensorRecord& tensor) {
  if (tensor.pieces.size() > kMaxPieces) {
    return invalid(fmt::format("tensor `{}` has {} pieces; the limit is {}", tensor.name, tensor.pieces.size(), kMaxPieces));
  }
  const auto total = volume(tensor.global_shape);
  if (!total) {
    return invalid(fmt::format("the shape of tensor `{}` overflows", tensor.name));
  }
  std::uint64_t covered = 0;
  for (std::size_t i = 0; i < tensor.pieces.size(); ++i) {
    covered +=
        *volume(tensor.pieces[i].slice.lengths);  // at most the tensor's own volume each, 4096 of them, checked disjoint below
    for (std::size_t j = 0; j < i; ++j) {
      const bool empty = *volume(tensor.pieces[i].slice.lengths) == 0 || *volume(tensor.pieces[j].slice.lengths) == 0;
      if (!empty && overlap(tensor.pieces[i].slice, tensor.pieces[j].slice)) {
        return invalid(fmt::format("two pieces of tensor `{}` overlap", tensor.name));
      }
    }
  }
  if (covered != *total) {
    return invalid(fmt::format("the pieces of tensor `{}` hold {} of {} elements", tensor.name, covered, *total));
  }
  return {};
}

/// The text before the trailing self hash, and the hash; nothing when the text does not end with one.
struct SelfHashed {
  std::string_view body;
  std::string_view hash;
};

std::string trailer(std::string_view hash) { return fmt::format(",\n  \"{}\": \"{}\"\n}}\n", kSelfKey, hash); }

std::optional<SelfHashed> split_self_hash(std::string_view text) {
  constexpr std::size_t kHashDigits = 32;
  constexpr std::size_t kEndBytes = 4;  // "\n}\n
  const std::size_t length = trailer("").size() + kHashDigits;
  if (text.size() <= length) {
    return std::nullopt;
  }
  const std::string_view hash = text.substr(text.size() - kEndBytes - kHashDigits, kHashDigits);
  if (!text.ends_with(trailer(hash))) {
    return std::nullopt;
  }
  return SelfHashed{.body = text.substr(0, text.size() - length), .hash = hash};
}

/// Why a text that does not carry a valid self hash of ours cannot be used: another version or format says so, anything else is
/// damage.
Error explain_foreign(std::string_view text, std::string_view name) {
  if (const auto json = parse_json(text, name); json.ok()) {
    const std::string format = json->get_or<std::string>("format", "").value_or("");
    const auto version = json->get_or<std::uint64_t>("version", Manifest::kVersion).value_or(Manifest::kVersion);
    if (format != Manifest::kFormat) {
      return Error(Code::artifact_version,
                   fmt::format("`{}` has the format `{}`, expected `{}`", name, format, Manifest::kFormat));
    }
    if (version != Manifest::kVersion) {
      return Error(Code::artifact_version,
                   fmt::format("`{}` has version {}; this program reads version {}", name, version, Manifest::kVersion));
    }
  }
  return invalid(fmt::format("`{}` does not end with its self hash: it is incomplete or was changed", name));
}

}  // namespace

Slice Slice::whole(std::vector<std::uint64_t> shape) {
  std::vector<std::uint64_t> zeros(shape.size(), 0);
  return {.offsets = std::move(zeros), .lengths = std::move(shape)};
}

const FileRecord* Manifest::find_file(std::string_view path) const {
  const auto found = std::ranges::find(files, path, &FileRecord::path);
  return found == files.end() ? nullptr : &*found;
}

const TensorRecord* Manifest::find_tensor(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &TensorRecord::name);
  return found == tensors.end() ? nullptr : &*found;
}

std::string manifest_text(const Manifest& manifest) {
  Json files = Json::array();
  for (const auto& file : manifest.files) {
    files.push_back(to_json(file));
  }
  Json tensors = Json::object();
  for (const auto& tensor : manifest.tensors) {
    tensors.mutable_members().emplace_back(tensor.name, to_json(tensor));
  }
  const Json json = Json::object({{"format", Manifest::kFormat},
                                  {"version", Manifest::kVersion},
                                  {"seq", manifest.seq},
                                  {"step", manifest.step.value},
                                  {"run_id", manifest.run_id},
                                  {"attempt", manifest.attempt},
                                  {"created", manifest.created},
                                  {"world_size", manifest.world_size},
                                  {"backend", manifest.backend},
                                  {"config_hash", manifest.config_hash},
                                  {"plan_hash", manifest.plan_hash},
                                  {"files", std::move(files)},
                                  {"tensors", std::move(tensors)},
                                  {"receipts", manifest.receipts},
                                  {"metrics", manifest.metrics},
                                  {"progress", manifest.progress}});
  std::string text = json.dump_pretty();
  text.resize(text.size() - 2);  // the closing line feed and brace move behind the hash
  return text + trailer(xxh3_128_hex(as_bytes(text)));
}

Status check_consistent(const Manifest& manifest) {
  std::unordered_map<std::string_view, const FileRecord*> files;
  for (const auto& file : manifest.files) {
    PS_TRY(check_relative_path(file.path));
    if (file.path == kManifestName || !files.emplace(file.path, &file).second) {
      return invalid(fmt::format("file `{}` is listed twice or is the manifest itself", file.path));
    }
  }
  std::unordered_map<std::string_view, const TensorRecord*> tensors;
  for (const auto& tensor : manifest.tensors) {
    if (!tensors.emplace(tensor.name, &tensor).second) {
      return invalid(fmt::format("tensor `{}` is listed twice", tensor.name));
    }
  }
  for (const auto& tensor : manifest.tensors) {
    if (tensor.alias_of) {
      const auto target = tensors.find(*tensor.alias_of);
      if (target == tensors.end() || target->second->alias_of || !tensor.pieces.empty()) {
        return invalid(fmt::format("tensor `{}` is an alias of `{}`, which is no stored tensor, or has pieces of its own",
                                   tensor.name, *tensor.alias_of));
      }
      continue;
    }
    for (const auto& piece : tensor.pieces) {
      const auto file = files.find(piece.file);
      PS_TRY(check_piece(tensor, piece, file == files.end() ? nullptr : file->second));
    }
    PS_TRY(check_cover(tensor));
  }
  return {};
}

Result<Manifest> parse_manifest(std::string_view text, std::string_view name) {
  const auto parts = split_self_hash(text);
  if (!parts) {
    return explain_foreign(text, name);
  }
  if (const std::string actual = xxh3_128_hex(as_bytes(parts->body)); actual != parts->hash) {
    return invalid(fmt::format("`{}` differs from its self hash {}: {}", name, parts->hash, actual));
  }
  const auto json = parse_json(text, name, {.max_bytes = kMaxManifestBytes});
  if (!json.ok()) {
    return json.error().wrap(Code::manifest_invalid, fmt::format("`{}` cannot be read", name));
  }
  const std::string format = json->get_or<std::string>("format", "").value_or("");
  const auto version = json->get_or<std::uint64_t>("version", 0).value_or(0);
  if (format != Manifest::kFormat || version != Manifest::kVersion) {
    return explain_foreign(text, name);
  }
  Result<Manifest> manifest = parse_members(*json);
  if (manifest.ok()) {
    manifest->self_hash = std::string(parts->hash);
    if (Status consistent = check_consistent(*manifest); !consistent.ok()) {
      manifest = consistent.error();
    }
  }
  if (!manifest.ok()) {
    const Code code = manifest.error().code() == Code::unsafe_path ? Code::unsafe_path : Code::manifest_invalid;
    return manifest.error().wrap(code, fmt::format("`{}` contradicts the format", name));
  }
  return manifest;
}

Result<Manifest> read_manifest(FileSystem& files, const std::string& directory) {
  const std::string path = join_path(directory, kManifestName);
  if (!files.exists(path)) {
    return Error(Code::checkpoint_not_found, fmt::format("`{}` holds no {}", directory, kManifestName));
  }
  PS_ASSIGN(const std::string text, read_file(files, path, kMaxManifestBytes));
  return parse_manifest(text, path);
}

Status check_relative_path(std::string_view path) {
  const auto refuse = [&](std::string_view why) {
    std::string shown;
    append_json_string(shown, path.substr(0, 100));
    return Error(Code::unsafe_path, fmt::format("stored path {} is refused: {}", shown, why));
  };
  if (path.empty() || path.size() > kMaxPathBytes) {
    return refuse("it is empty or longer than 512 bytes");
  }
  if (std::ranges::any_of(path, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '\\'; })) {
    return refuse("it holds a backslash or control bytes");
  }
  for (const auto& part : split(path, '/')) {
    if (part.empty() || part == "." || part == "..") {
      return refuse("it is absolute or holds `.`, `..` or empty parts");
    }
  }
  return {};
}

std::string step_directory_name(Step step) { return fmt::format("{}{:08}", kStepPrefix, step.value); }

std::optional<Step> parse_step_directory_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) {
    return std::nullopt;
  }
  const auto number = parse_uint64(name.substr(kStepPrefix.size()));
  return number && step_directory_name(Step{*number}) == name ? std::optional(Step{*number}) : std::nullopt;
}

}  // namespace parascale::checkpoint
