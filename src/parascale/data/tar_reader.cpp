#include "parascale/data/tar_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "parascale/base/text.h"

namespace parascale::data {

namespace {

constexpr std::uint64_t kBlock = 512;
using Block = std::array<std::byte, kBlock>;

// Field places of a ustar header (IEEE Std 1003.1, "ustar Interchange Format").
struct Field {
  std::size_t offset;
  std::size_t size;
};
constexpr Field kName{0, 100};
constexpr Field kSize{124, 12};
constexpr Field kChecksum{148, 8};
constexpr std::size_t kTypeOffset = 156;
constexpr Field kMagic{257, 5};
constexpr Field kPosixMark{262, 1};  // NUL in ustar, blank in old GNU archives, whose prefix field holds other things
constexpr Field kPrefix{345, 155};

std::string_view field_bytes(const Block& block, Field field) {
  const void* at = block.data() + field.offset;
  return {static_cast<const char*>(at), field.size};
}

std::string_view field_text(const Block& block, Field field) {
  const auto bytes = field_bytes(block, field);
  return bytes.substr(0, std::min(bytes.find('\0'), bytes.size()));
}

/// Octal digits between optional blanks and a NUL or blank; or GNU base-256 when the first bit is set.
std::optional<std::uint64_t> parse_number(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  if ((first & 0x80U) != 0) {
    std::uint64_t value = first & 0x7fU;
    if ((first & 0x40U) != 0) {
      return std::nullopt;  // negative
    }
    for (const char byte : bytes.substr(1)) {
      if ((value >> 55U) != 0) {
        return std::nullopt;
      }
      value = (value << 8U) | static_cast<unsigned char>(byte);
    }
    return value;
  }
  bytes = bytes.substr(0, std::min(bytes.find('\0'), bytes.size()));
  bytes = trim(bytes);
  if (bytes.empty()) {
    return std::nullopt;
  }
  std::uint64_t value = 0;
  for (const char digit : bytes) {
    if (digit < '0' || digit > '7') {
      return std::nullopt;
    }
    value = value * 8 + static_cast<std::uint64_t>(digit - '0');  // at most 12 digits: no overflow
  }
  return value;
}

bool is_zero(const Block& block) {
  return std::ranges::all_of(block, [](std::byte byte) { return byte == std::byte{0}; });
}

bool checksum_matches(const Block& block) {
  const auto stored = parse_number(field_bytes(block, kChecksum));
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const bool blank = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.size;
    sum += blank ? std::uint64_t{' '} : std::to_integer<std::uint64_t>(block[i]);
  }
  return stored && *stored == sum;
}

Error refused(std::string message) { return Error(Code::archive_damaged, std::move(message)); }

/// What pax and GNU extension headers say about the next member.
struct Overrides {
  std::optional<std::string> name;
  std::optional<std::uint64_t> size;
};

class Walk {
 public:
  Walk(ByteSource& source, const std::function<Status(const TarMember&)>& on_member, const TarLimits& limits)
      : source_(source), on_member_(on_member), limits_(limits) {}

  Result<TarScan> run() {
    while (!done_) {
      PS_TRY(step());
    }
    return std::move(scan_);
  }

 private:
  void stop(std::string reason) {
    scan_.damage = TarDamage{.offset_bytes = entry_start_, .reason = std::move(reason)};
    done_ = true;
  }

  Status step() {
    if (!in_extension_) {
      entry_start_ = at_;
    }
    Block block{};
    PS_ASSIGN(const std::size_t got, source_.read_at(at_, block));
    if (got < kBlock || is_zero(block)) {
      return end(got);
    }
    if (!checksum_matches(block)) {
      if (at_ == 0) {
        return refused("the first block is no tar header");
      }
      stop("wrong header checksum");
      return {};
    }
    const auto stored_size = parse_number(field_bytes(block, kSize));
    if (!stored_size) {
      stop("a size that is no number");
      return {};
    }
    const char type = static_cast<char>(block[kTypeOffset]);
    const bool extension = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    const std::uint64_t size = extension ? *stored_size : next_.size.value_or(*stored_size);
    const std::uint64_t content = at_ + kBlock;
    if (size > source_.size() - content) {
      stop("truncated");
      return {};
    }
    at_ = content + (size + kBlock - 1) / kBlock * kBlock;
    return extension ? read_extension(type, content, size) : take(block, type, content, size);
  }

  /// A zero block or the end of the bytes.
  Status end(std::size_t got) {
    if (got == 0 && at_ == 0) {
      return refused("the archive is empty");
    }
    if (got < kBlock && at_ == 0) {
      return refused("the archive is shorter than one header");
    }
    if (in_extension_ || got < kBlock) {
      stop(got == 0 && !in_extension_ ? "no end marker" : "truncated");
    }
    done_ = true;
    return {};
  }

  Status read_extension(char type, std::uint64_t content, std::uint64_t size) {
    in_extension_ = true;
    if (size > limits_.max_extension_bytes) {
      return refused(fmt::format("an extension header holds {} bytes; the limit is {}", size, limits_.max_extension_bytes));
    }
    std::string text(size, '\0');
    PS_ASSIGN(const std::size_t got, source_.read_at(content, std::as_writable_bytes(std::span(text))));
    if (got < size) {
      stop("truncated");
      return {};
    }
    if (type == 'L') {
      next_.name = text.substr(0, std::min(text.find('\0'), text.size()));
      return {};
    }
    if (type == 'K') {
      return {};  // the name of a link's target; the link itself is refused
    }
    return read_pax(text, type == 'g');
  }

  /// Records of the form `<length> <key>=<value>\n`, the length counting all of it (POSIX pax Extended Header).
  Status read_pax(std::string_view text, bool global) {
    while (!text.empty() && text[0] != '\0') {
      const auto blank = text.find(' ');
      const auto length = blank == std::string_view::npos ? std::nullopt : parse_uint64(text.substr(0, blank));
      if (!length || *length <= blank + 1 || *length > text.size() || text[*length - 1] != '\n') {
        return refused("a pax record has a wrong length");
      }
      const auto record = text.substr(blank + 1, *length - blank - 2);
      text.remove_prefix(*length);
      const auto equals = record.find('=');
      if (equals == std::string_view::npos) {
        return refused("a pax record has no `=`");
      }
      PS_TRY(apply_pax(record.substr(0, equals), record.substr(equals + 1), global));
    }
    if (global) {
      in_extension_ = false;  // stands for itself
    }
    return {};
  }

  Status apply_pax(std::string_view key, std::string_view value, bool global) {
    if (key.starts_with("GNU.sparse.") || key.starts_with("SCHILY.realsize")) {
      return refused("the archive holds a sparse file");
    }
    if (key != "path" && key != "size") {
      return {};
    }
    if (global) {
      return refused(fmt::format("a global pax header sets `{}`", key));
    }
    if (key == "path") {
      next_.name = std::string(value);
      return {};
    }
    const auto size = parse_uint64(value);
    if (!size) {
      return refused("a pax size is no number");
    }
    next_.size = *size;
    return {};
  }

  Status take(const Block& block, char type, std::uint64_t content, std::uint64_t size) {
    const Overrides overrides = std::exchange(next_, {});
    in_extension_ = false;
    PS_ASSIGN(std::string name, member_name(block, overrides));
    switch (type) {
      case '0':
      case '\0':
      case '7':
        break;
      case '5':
        return {};
      case '1':
      case '2':
        return refused(fmt::format("the archive holds a link, `{}`", name));
      case '3':
      case '4':
      case '6':
        return refused(fmt::format("the archive holds a device or pipe, `{}`", name));
      case 'S':
        return refused(fmt::format("the archive holds a sparse file, `{}`", name));
      default:
        return refused(fmt::format("the archive holds a member of unknown type, `{}`", name));
    }
    if (name.empty() || (type == '\0' && name.ends_with('/'))) {
      return {};  // old archives mark directories only so
    }
    if (size > limits_.max_member_bytes) {
      return refused(fmt::format("`{}` holds {} bytes; the limit is {}", name, size, limits_.max_member_bytes));
    }
    if (++scan_.members > limits_.max_members) {
      return refused(fmt::format("the archive holds more than {} members", limits_.max_members));
    }
    return on_member_(TarMember{.name = std::move(name), .offset_bytes = content, .size_bytes = size});
  }

  Result<std::string> member_name(const Block& block, const Overrides& overrides) const {
    std::string name;
    if (overrides.name) {
      name = *overrides.name;
    } else {
      const bool posix = field_bytes(block, kMagic) == "ustar" && field_bytes(block, kPosixMark)[0] == '\0';
      if (const auto prefix = field_text(block, kPrefix); posix && !prefix.empty()) {
        name = fmt::format("{}/", prefix);
      }
      name += field_text(block, kName);
    }
    if (name.size() > limits_.max_name_bytes) {
      return refused(fmt::format("a member's name has {} bytes; the limit is {}", name.size(), limits_.max_name_bytes));
    }
    if (std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; })) {
      return refused("a member's name holds control characters");
    }
    if (name.starts_with('/')) {
      return refused(fmt::format("the archive holds an absolute name, `{}`", name));
    }
    while (name.starts_with("./")) {
      name.erase(0, name.find_first_not_of('/', 1));
    }
    const auto parts = split(name, '/');
    if (std::ranges::find(parts, "..") != parts.end()) {
      return refused(fmt::format("the archive holds a name that leaves its folder, `{}`", name));
    }
    return name;
  }

  ByteSource& source_;
  const std::function<Status(const TarMember&)>& on_member_;
  const TarLimits& limits_;
  std::uint64_t at_ = 0;
  std::uint64_t entry_start_ = 0;  ///< of the first header that belongs to the next member
  bool in_extension_ = false;
  bool done_ = false;
  Overrides next_;
  TarScan scan_;
};

}  // namespace

Result<TarScan> scan_tar(ByteSource& source, const std::function<Status(const TarMember&)>& on_member, const TarLimits& limits) {
  return Walk(source, on_member, limits).run();
}

}  // namespace parascale::data
