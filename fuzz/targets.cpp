#include "fuzz/targets.h"

#include <array>

namespace parascale::fuzz {

std::span<const Target> targets() {
  static constexpr std::array<Target, 9> kTargets = {{{.name = "config", .run = config},
                                                      {.name = "frame", .run = frame},
                                                      {.name = "index", .run = index},
                                                      {.name = "json", .run = json},
                                                      {.name = "manifest", .run = manifest},
                                                      {.name = "png", .run = png},
                                                      {.name = "safetensors", .run = safetensors},
                                                      {.name = "slot", .run = slot},
                                                      {.name = "tar", .run = tar}}};
  return kTargets;
}

std::string_view text_of(Input input) {
  if (input.empty()) {
    return "";
  }
  const void* data = input.data();
  return {static_cast<const char*>(data), input.size()};
}

}  // namespace parascale::fuzz
