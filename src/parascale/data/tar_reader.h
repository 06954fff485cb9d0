#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "parascale/data/byte_source.h"

namespace parascale::data {

/// What an archive may hold at most; beyond it the archive is refused.
struct TarLimits {
  std::uint64_t max_members = 100'000'000;
  std::uint64_t max_member_bytes = 1ULL << 30;
  std::uint64_t max_extension_bytes = 1ULL << 20;  ///< of one pax header or GNU long name
  std::size_t max_name_bytes = 4096;
};

/// One regular file of an archive.
struct TarMember {
  std::string name;                ///< relative, without a `..` part; a leading `./` is removed
  std::uint64_t offset_bytes = 0;  ///< of the content, from the start of the archive
  std::uint64_t size_bytes = 0;
};

/// How reading ended before the end marker.
struct TarDamage {
  std::uint64_t offset_bytes = 0;  ///< of the header block that could not be used
  std::string reason;              ///< `truncated`, `wrong header checksum`, ...
};

struct TarScan {
  std::uint64_t members = 0;        ///< regular files handed out
  std::optional<TarDamage> damage;  ///< members before it are complete and usable
};

/// Walks the headers of a tar archive (POSIX ustar and pax, GNU long names and base-256 sizes) and hands each regular file to
/// `on_member` in archive order; contents are not read. Directories are skipped.
///
/// A header that cannot be used (checksum, numbers, size beyond the end, cut off) after at least one good block ends the walk
/// with `damage`. Errors: archive_damaged when the first block is no tar header, and for what a data archive must not hold:
/// links, devices, sparse files, absolute names, `..`, control characters, members or extension records above the limits;
/// io_failed; what `on_member` returns.
Result<TarScan> scan_tar(ByteSource& source, const std::function<Status(const TarMember&)>& on_member,
                         const TarLimits& limits = {});

}  // namespace parascale::data
