// The entry point of libFuzzer; PARASCALE_FUZZ_TARGET names the target of this program.
#include <cstddef>
#include <cstdint>

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parascale::fuzz::PARASCALE_FUZZ_TARGET({data, size});
  return 0;
}
