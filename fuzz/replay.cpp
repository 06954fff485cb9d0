// Runs stored inputs through their targets: `fuzz_replay CORPUS` takes every file of CORPUS/<target>/, `fuzz_replay TARGET
// FILE...` single files. A target without a corpus is a failure, so that none is forgotten.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "fuzz/targets.h"
#include "parascale/base/file_system.h"

namespace parascale::fuzz {
namespace {

bool run_file(const Target& target, const std::string& path) {
  const auto content = read_file(real_file_system(), path);
  if (!content.ok()) {
    fmt::print(stderr, "{}", render(content.error()));
    return false;
  }
  const void* data = content->data();
  const Input whole(static_cast<const std::uint8_t*>(data), content->size());
  target.run(whole);
  // What a cut transfer or a torn write leaves.
  for (std::size_t size = 0; size < whole.size(); size += std::max<std::size_t>(1, whole.size() / 64)) {
    target.run(whole.first(size));
  }
  return true;
}

bool run_corpus(const Target& target, const std::string& directory) {
  const auto entries = real_file_system().list(directory);
  if (!entries.ok() || entries->empty()) {
    fmt::print(stderr, "target {} has no corpus in {}\n", target.name, directory);
    return false;
  }
  const bool good =
      std::ranges::all_of(*entries, [&](const auto& entry) { return run_file(target, join_path(directory, entry.name)); });
  fmt::print("{:<12} {} inputs\n", target.name, entries->size());
  return good;
}

int replay(std::span<char*> arguments) {
  if (arguments.size() == 2) {
    return std::ranges::all_of(targets(),
                               [&](const Target& target) { return run_corpus(target, join_path(arguments[1], target.name)); })
               ? 0
               : 1;
  }
  const auto target =
      arguments.size() > 2 ? std::ranges::find(targets(), std::string_view(arguments[1]), &Target::name) : targets().end();
  if (target == targets().end()) {
    fmt::print(stderr, "usage: fuzz_replay CORPUS | fuzz_replay TARGET FILE...\n");
    return 2;
  }
  return std::ranges::all_of(arguments.subspan(2), [&](const char* path) { return run_file(*target, path); }) ? 0 : 1;
}

}  // namespace
}  // namespace parascale::fuzz

int main(int argc, char** argv) { return parascale::fuzz::replay({argv, static_cast<std::size_t>(argc)}); }
