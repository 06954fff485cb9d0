#include "parascale/checkpoint/safetensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_set>

#include "parascale/base/json.h"
#include "parascale/base/text.h"

namespace parascale::checkpoint {

namespace {

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kHardHeaderBytes = 100'000'000;  // the format's own bound
constexpr std::uint64_t kMaxExactInteger = 1ULL << 53;   // beyond, readers that use doubles disagree
constexpr std::size_t kMaxDepth = 4;                     // file -> tensor -> shape needs three

Error invalid(std::string_view file, std::string what) {
  return Error(Code::safetensors_invalid, fmt::format("`{}` is not a valid safetensors file: {}", file, what));
}

std::uint64_t read_u64(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    value = value << 8U | std::to_integer<std::uint64_t>(bytes[i]);
  }
  return value;
}

bool has_control_bytes(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

/// Names go into messages: a hostile one must not flood a terminal.
std::string shown(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, 80)) {
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  }
  return name.size() > 80 ? out + "..." : out;
}

/// Parses one header: holds the file's name and bounds for messages and checks.
class HeaderParser {
 public:
  HeaderParser(std::string_view name, const SafetensorsLimits& limits, std::uint64_t data_offset, std::uint64_t file_bytes)
      : name_(name), limits_(limits) {
    out_.data_offset_bytes = data_offset;
    out_.file_bytes = file_bytes;
  }

  Result<SafetensorsHeader> parse(std::string_view text) {
    PS_TRY(check_text(text));
    PS_ASSIGN(const Json json, parse(text, {.max_bytes = kHardHeaderBytes, .max_depth = kMaxDepth}));
    if (json.members().size() > limits_.tensors + 1) {
      return invalid(name_, fmt::format("it holds {} entries; the limit is {} tensors", json.members().size(), limits_.tensors));
    }
    out_.tensors.reserve(json.members().size());
    for (const auto& [key, value] : json.members()) {
      if (key == kMetadataKey) {
        PS_TRY(add_metadata(value));
      } else {
        PS_TRY(add_tensor(key, value));
      }
    }
    PS_TRY(check_cover());
    return std::move(out_);
  }

 private:
  /// Refuses what the JSON parser would let pass: a NUL byte ends its input (and would hide what follows), a byte order mark is
  /// skipped.
  Status check_text(std::string_view text) const {
    if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
      return invalid(name_, fmt::format("zero byte in the header at byte {}", kLengthBytes + nul));
    }
    const auto first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos || text[first] != '{') {
      return invalid(name_, fmt::format("the header is not a JSON object at byte {}",
                                        kLengthBytes + (first == std::string_view::npos ? 0 : first)));
    }
    return {};
  }

  Result<Json> parse(std::string_view text, JsonLimits limits) const {
    Result<Json> json = parse_json(text, name_, limits);
    if (json.ok()) {
      return json;
    }
    std::string what = json.error().message();
    if (const auto& mark = json.error().mark()) {
      std::size_t line_start = 0;
      for (std::uint32_t line = 1; line < mark->line; ++line) {
        line_start = text.find('\n', line_start) + 1;
      }
      what += fmt::format(" at byte {}", kLengthBytes + line_start + mark->column - 1);
    }
    return invalid(name_, "the header " + what.substr(std::min(what.find("is not valid JSON"), what.size())));
  }

  Status add_metadata(const Json& value) {
    if (!value.is_object()) {
      return invalid(name_, fmt::format("`__metadata__` is {}, not an object of texts", value.type_name()));
    }
    for (const auto& [key, text] : value.members()) {
      if (!text.is_string()) {
        return invalid(name_, fmt::format("`__metadata__` holds {}, not text, at `{}`", text.type_name(), shown(key)));
      }
      out_.metadata.emplace(key, *text.to_string());
    }
    return {};
  }

  Error bad_tensor(std::string_view tensor, std::string what) const {
    return invalid(name_, fmt::format("tensor `{}`: {}", shown(tensor), what));
  }

  Status check_name(std::string_view tensor) const {
    if (tensor.size() > limits_.name_bytes) {
      return bad_tensor(tensor, fmt::format("the name has {} bytes; the limit is {}", tensor.size(), limits_.name_bytes));
    }
    return has_control_bytes(tensor) ? Status(bad_tensor(tensor, "the name holds control bytes")) : Status();
  }

  Result<std::vector<std::uint64_t>> integers(std::string_view tensor, std::string_view key, const Json& value) const {
    if (!value.is_array()) {
      return bad_tensor(tensor, fmt::format("`{}` is {}, not an array", key, value.type_name()));
    }
    std::vector<std::uint64_t> out;
    for (const Json& item : value.items()) {
      const auto number = item.to_uint64();
      if (!number || *number > kMaxExactInteger) {
        return bad_tensor(tensor, fmt::format("`{}` holds {}, not an integer from 0 to 2^53", key,
                                              item.is_number() ? item.dump() : std::string(item.type_name())));
      }
      out.push_back(*number);
    }
    return out;
  }

  Status add_tensor(const std::string& tensor, const Json& value) {
    PS_TRY(check_name(tensor));
    if (!value.is_object()) {
      return bad_tensor(tensor, fmt::format("the entry is {}, not an object", value.type_name()));
    }
    const Json* dtype_json = value.find("dtype");
    const Json* shape_json = value.find("shape");
    const Json* offsets_json = value.find("data_offsets");
    if (dtype_json == nullptr || shape_json == nullptr || offsets_json == nullptr || value.members().size() != 3) {
      return bad_tensor(tensor, "the entry does not hold exactly dtype, shape and data_offsets");
    }
    const std::string* dtype_text = dtype_json->to_string();
    const auto dtype = dtype_text != nullptr ? dtype_from_name(*dtype_text) : std::nullopt;
    if (!dtype) {
      return bad_tensor(tensor, fmt::format("unknown dtype `{}`",
                                            dtype_text != nullptr ? shown(*dtype_text) : std::string(dtype_json->type_name())));
    }
    PS_ASSIGN(auto shape, integers(tensor, "shape", *shape_json));
    if (shape.size() > limits_.rank) {
      return bad_tensor(tensor, fmt::format("{} dimensions; the limit is {}", shape.size(), limits_.rank));
    }
    PS_ASSIGN(const auto offsets, integers(tensor, "data_offsets", *offsets_json));
    if (offsets.size() != 2 || offsets[1] < offsets[0]) {
      return bad_tensor(tensor, "`data_offsets` is not a pair [begin, end] with begin <= end");
    }
    const auto bytes = tensor_bytes(*dtype, shape);
    if (!bytes) {
      return bad_tensor(tensor, fmt::format("the size of shape [{}] overflows or is no whole number of bytes", fmt_shape(shape)));
    }
    if (*bytes != offsets[1] - offsets[0]) {
      return bad_tensor(tensor, fmt::format("bytes {}..{} hold {} bytes; {} [{}] needs {}", out_.data_offset_bytes + offsets[0],
                                            out_.data_offset_bytes + offsets[1], offsets[1] - offsets[0], *dtype_text,
                                            fmt_shape(shape), *bytes));
    }
    out_.tensors.push_back(TensorLocation{.name = tensor,
                                          .dtype = *dtype,
                                          .shape = std::move(shape),
                                          .offset_bytes = out_.data_offset_bytes + offsets[0],
                                          .size_bytes = *bytes});
    return {};
  }

  static std::string fmt_shape(const std::vector<std::uint64_t>& shape) {
    std::vector<std::string> parts;
    for (const auto size : shape) {
      parts.push_back(std::to_string(size));
    }
    return join(parts, ", ");
  }

  /// The tensors must fill the data exactly: no hole, overlap or tail, so a file has one meaning only.
  Status check_cover() {
    std::ranges::stable_sort(out_.tensors, {}, [](const TensorLocation& t) { return std::pair(t.offset_bytes, t.size_bytes); });
    std::uint64_t next = out_.data_offset_bytes;
    for (const auto& tensor : out_.tensors) {
      if (tensor.offset_bytes != next) {
        return bad_tensor(tensor.name,
                          fmt::format("begins at byte {}, expected {}: {}", tensor.offset_bytes, next,
                                      tensor.offset_bytes > next ? "a hole before it" : "it overlaps the one before"));
      }
      next += tensor.size_bytes;
      if (next > out_.file_bytes) {
        return bad_tensor(tensor.name, fmt::format("ends at byte {}, the file at {}", next, out_.file_bytes));
      }
    }
    if (next != out_.file_bytes) {
      return invalid(name_, fmt::format("the last tensor ends at byte {}, the file at {}", next, out_.file_bytes));
    }
    return {};
  }

  std::string_view name_;
  const SafetensorsLimits& limits_;
  SafetensorsHeader out_;
};

/// Reads the header's length and checks it against limits and file size.
Result<std::uint64_t> header_length(std::span<const std::byte> begin, std::uint64_t file_bytes, std::string_view name,
                                    const SafetensorsLimits& limits) {
  if (file_bytes < kLengthBytes || begin.size() < kLengthBytes) {
    return invalid(name, fmt::format("it holds {} bytes; the header's length alone needs 8", file_bytes));
  }
  const std::uint64_t length = read_u64(begin);
  if (const std::uint64_t limit = std::min(limits.header_bytes, kHardHeaderBytes); length > limit) {
    return invalid(name, fmt::format("the header length at byte 0 is {}; the limit is {}", length, limit));
  }
  if (length > file_bytes - kLengthBytes) {
    return invalid(name, fmt::format("the header ends at byte {}, the file at {}", kLengthBytes + length, file_bytes));
  }
  return length;
}

const TensorLocation* find_in(const std::vector<TensorLocation>& tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &TensorLocation::name);
  return found == tensors.end() ? nullptr : &*found;
}

/// Whether the JSON writer keeps `text` as it is; it replaces bytes that are not UTF-8.
bool is_utf8(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string written;
  append_json_string(written, text);
  return text.find(kReplacement) != std::string_view::npos || written.find(kReplacement) == std::string::npos;
}

Status check_entries(const std::vector<TensorEntry>& entries) {
  const SafetensorsLimits limits;
  if (entries.size() > limits.tensors) {
    return Error(Code::safetensors_invalid,
                 fmt::format("{} tensors for one file; the limit is {}", entries.size(), limits.tensors));
  }
  std::unordered_set<std::string_view> names;
  for (const auto& entry : entries) {
    const auto refuse = [&](std::string_view why) {
      return Error(Code::safetensors_invalid, fmt::format("tensor `{}` cannot be written: {}", shown(entry.name), why));
    };
    if (entry.name.empty() || entry.name == kMetadataKey || entry.name.size() > limits.name_bytes ||
        has_control_bytes(entry.name) || !is_utf8(entry.name)) {
      return refuse("the name is empty, reserved, too long, not UTF-8 or holds control bytes");
    }
    if (!names.insert(entry.name).second) {
      return refuse("the name is used twice");
    }
    if (entry.shape.size() > limits.rank) {
      return refuse(fmt::format("{} dimensions; the limit is {}", entry.shape.size(), limits.rank));
    }
    const auto bytes = tensor_bytes(entry.dtype, entry.shape);
    if (!bytes || *bytes > kMaxExactInteger || std::ranges::any_of(entry.shape, [](auto n) { return n > kMaxExactInteger; })) {
      return refuse("its size overflows or is no whole number of bytes");
    }
  }
  return {};
}

}  // namespace

const TensorLocation* SafetensorsHeader::find(std::string_view name) const { return find_in(tensors, name); }
const TensorLocation* SafetensorsLayout::find(std::string_view name) const { return find_in(tensors, name); }

Result<SafetensorsLayout> make_layout(std::vector<TensorEntry> entries, const SafetensorsMetadata& metadata,
                                      std::uint64_t header_align) {
  PS_CHECK(header_align >= 8 && header_align % 8 == 0, "the header alignment is a multiple of 8");
  PS_TRY(check_entries(entries));
  std::ranges::sort(entries, [](const TensorEntry& a, const TensorEntry& b) {
    const auto bits_a = dtype_bits(a.dtype);
    const auto bits_b = dtype_bits(b.dtype);
    return bits_a != bits_b ? bits_a > bits_b : a.name < b.name;
  });

  Json json = Json::object();
  Json::Object& members = json.mutable_members();
  if (!metadata.empty()) {
    Json texts = Json::object();
    for (const auto& [key, text] : metadata) {
      texts.mutable_members().emplace_back(key, text);
    }
    members.emplace_back(std::string(kMetadataKey), std::move(texts));
  }
  std::uint64_t data_bytes = 0;
  SafetensorsLayout layout;
  for (auto& entry : entries) {
    const std::uint64_t bytes = *tensor_bytes(entry.dtype, entry.shape);
    if (bytes > kMaxExactInteger - data_bytes) {
      return Error(Code::safetensors_invalid,
                   fmt::format("the tensors of one file exceed 2^53 bytes at `{}`", shown(entry.name)));
    }
    members.emplace_back(entry.name, Json::object({{"dtype", dtype_name(entry.dtype)},
                                                   {"shape", Json::array_of(entry.shape)},
                                                   {"data_offsets", Json::array({data_bytes, data_bytes + bytes})}}));
    layout.tensors.push_back({std::move(entry.name), entry.dtype, std::move(entry.shape), data_bytes, bytes});
    data_bytes += bytes;
  }

  std::string text = json.dump();
  const std::uint64_t used = kLengthBytes + text.size();
  text.append((header_align - used % header_align) % header_align, ' ');
  if (text.size() > SafetensorsLimits{}.header_bytes) {
    return Error(Code::safetensors_invalid, fmt::format("the header of {} tensors needs {} bytes; readers accept {}",
                                                        entries.size(), text.size(), SafetensorsLimits{}.header_bytes));
  }
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    layout.header += static_cast<char>(text.size() >> (8 * i) & 0xFFU);
  }
  layout.header += text;
  for (auto& tensor : layout.tensors) {
    tensor.offset_bytes += layout.header.size();
  }
  layout.total_bytes = layout.header.size() + data_bytes;
  return layout;
}

Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> begin, std::uint64_t file_bytes, std::string_view name,
                                            const SafetensorsLimits& limits) {
  PS_ASSIGN(const std::uint64_t length, header_length(begin, file_bytes, name, limits));
  if (begin.size() - kLengthBytes < length) {
    return invalid(name, fmt::format("{} of {} header bytes were read", begin.size() - kLengthBytes, length));
  }
  const void* text = begin.data() + kLengthBytes;
  HeaderParser parser(name, limits, kLengthBytes + length, file_bytes);
  return parser.parse(std::string_view(static_cast<const char*>(text), length));
}

Result<SafetensorsHeader> read_safetensors_header(File& file, const SafetensorsLimits& limits) {
  PS_ASSIGN(const std::uint64_t file_bytes, file.size());
  std::vector<std::byte> begin(std::min(file_bytes, kLengthBytes));
  PS_ASSIGN(const std::size_t got, file.read_at(0, begin));
  begin.resize(got);
  PS_ASSIGN(const std::uint64_t length, header_length(begin, file_bytes, file.path(), limits));
  begin.resize(kLengthBytes + length);
  PS_ASSIGN(const std::size_t read, file.read_at(0, begin));
  begin.resize(read);
  return parse_safetensors(begin, file_bytes, file.path(), limits);
}

}  // namespace parascale::checkpoint
