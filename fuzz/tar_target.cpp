#include "fuzz/targets.h"
#include "parascale/data/dataset_index.h"
#include "parascale/data/tar_reader.h"

namespace parascale::fuzz {

void tar(Input input) {
  data::MemorySource source(std::as_bytes(input));
  std::uint64_t members = 0;
  const auto scan =
      data::scan_tar(source,
                     [&](const data::TarMember& member) -> Status {
                       ++members;
                       PS_CHECK(member.offset_bytes <= input.size() && member.size_bytes <= input.size() - member.offset_bytes,
                                "a member lies inside the archive");
                       PS_CHECK(!member.name.empty() && !member.name.starts_with('/'), "a member has a relative name");
                       (void)data::split_member_name(member.name);
                       return {};
                     },
                     {.max_members = 10'000, .max_extension_bytes = 64U << 10});
  if (scan.ok()) {
    PS_CHECK(scan->members == members, "every member was handed out");
    // The header that is missing behind a cut member would stand at the next whole block.
    constexpr std::uint64_t kBlock = 512;
    PS_CHECK(!scan->damage || (scan->damage->offset_bytes < input.size() + kBlock && !scan->damage->reason.empty()),
             "damage has a place and a reason");
  } else {
    PS_CHECK(scan.error().code() == Code::archive_damaged, "bytes in memory can only be damaged");
  }
}

}  // namespace parascale::fuzz
