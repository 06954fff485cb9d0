#include "fuzz/targets.h"
#include "parascale/base/hash.h"
#include "parascale/checkpoint/manifest.h"

namespace parascale::fuzz {

namespace {

void parse(std::string_view text) {
  const auto manifest = checkpoint::parse_manifest(text, "manifest.json");
  if (!manifest.ok()) {
    PS_CHECK(!render(manifest.error()).empty(), "a bad manifest can be explained");
    return;
  }
  for (const auto& file : manifest->files) {
    PS_CHECK(checkpoint::check_relative_path(file.path).ok(), "a file of a checkpoint lies inside it");
  }
  const auto again = checkpoint::parse_manifest(checkpoint::manifest_text(*manifest), "again");
  PS_CHECK(again.ok() && again->files == manifest->files && again->tensors == manifest->tensors, "a manifest reads back");
}

}  // namespace

void manifest(Input input) {
  const std::string_view text = text_of(input);
  parse(text);
  // The self hash would hide everything behind it from a fuzzer: it stands in the last member and covers all before its comma.
  const std::size_t member = text.rfind("\"self_xxh3_128\"");
  const std::size_t comma = member == std::string_view::npos ? member : text.rfind(',', member);
  const std::size_t colon = member == std::string_view::npos ? member : text.find(':', member);
  const std::size_t quote = colon == std::string_view::npos ? colon : text.find('"', colon);
  if (comma != std::string_view::npos && quote != std::string_view::npos && text.size() - quote > 33) {
    std::string repaired(text);
    repaired.replace(quote + 1, 32, xxh3_128_hex(as_bytes(text.substr(0, comma))));
    parse(repaired);
  }
}

}  // namespace parascale::fuzz
