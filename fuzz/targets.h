#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

// Entry points of every parser of outside bytes. libFuzzer drives one target per program; `fuzz_replay` runs the stored corpora
// through all of them in every build. A target crashes (PS_CHECK, sanitizer) when a parser breaks its promise, and returns
// otherwise.

namespace parascale::fuzz {

using Input = std::span<const std::uint8_t>;

void config(Input input);       ///< config::load_config_text, as YAML or JSON by the first byte
void frame(Input input);        ///< protocol::parse_frame on a stream, then the message it carries
void index(Input input);        ///< data::decode_index, as stored and with its self hash repaired
void json(Input input);         ///< parse_json, and writing what was read
void manifest(Input input);     ///< checkpoint::parse_manifest, as stored and with its self hash repaired
void png(Input input);          ///< data::read_png_size and data::PngDecoder::decode
void safetensors(Input input);  ///< checkpoint::parse_safetensors
void slot(Input input);         ///< protocol::read_slot
void tar(Input input);          ///< data::scan_tar

struct Target {
  std::string_view name;  ///< also the folder below fuzz/corpus
  void (*run)(Input);
};

/// Every target, by name.
std::span<const Target> targets();

/// The input as text; empty input gives an empty, not a null text.
std::string_view text_of(Input input);

}  // namespace parascale::fuzz
