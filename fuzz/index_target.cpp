#include <cstring>

#include "fuzz/targets.h"
#include "parascale/base/hash.h"
#include "parascale/data/dataset_index.h"

namespace parascale::fuzz {

namespace {

void decode(std::string_view bytes) {
  const auto decoded = data::decode_index(bytes);
  if (!decoded.ok()) {
    PS_CHECK(decoded.error().code() == Code::index_failed, "a bad index is an index that failed");
    return;
  }
  for (const auto& entry : decoded->entries) {
    PS_CHECK(entry.shard < decoded->shards.size(), "an entry lies in a shard");
  }
  const auto again = data::decode_index(data::encode_index(*decoded));
  PS_CHECK(again.ok() && again->entries == decoded->entries && again->shards == decoded->shards, "an index reads back");
}

}  // namespace

void index(Input input) {
  decode(text_of(input));
  // The self hash would hide everything behind it from a fuzzer.
  constexpr std::size_t kHashAt = 8;
  constexpr std::size_t kHashedFrom = 16;
  if (input.size() > kHashedFrom) {
    std::string repaired(text_of(input));
    const std::uint64_t hash = xxh3_64(as_bytes(std::string_view(repaired).substr(kHashedFrom)));
    std::memcpy(repaired.data() + kHashAt, &hash, sizeof hash);
    decode(repaired);
  }
}

}  // namespace parascale::fuzz
