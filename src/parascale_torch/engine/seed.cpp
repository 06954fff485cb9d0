#include "parascale_torch/engine/seed.h"

#include <ATen/Context.h>

#include <array>
#include <cstring>
#include <mutex>
#include <span>
#include <string>

#include "parascale/base/hash.h"

namespace parascale::native {

std::uint64_t derive_seed(const SeedKey& key) {
  const std::array<std::uint64_t, 4> words = {key.seed, key.step, key.micro_step, key.rank};  // little-endian hosts only
  const std::string digest = sha256_bytes(std::as_bytes(std::span(words)));
  std::uint64_t seed = 0;
  std::memcpy(&seed, digest.data(), sizeof seed);
  return seed;
}

void reseed(const SeedKey& key) {
  at::Generator generator = at::globalContext().defaultGenerator(at::Device(at::kCPU));
  const std::scoped_lock lock(generator.mutex());
  generator.set_current_seed(derive_seed(key));
}

}  // namespace parascale::native
