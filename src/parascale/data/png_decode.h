#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parascale/base/result.h"
#include "parascale/data/image.h"

namespace parascale::data {

/// What an image may ask for; checked on the header before anything is allocated.
struct DecodeLimits {
  std::uint64_t max_pixels = 1ULL << 26;   ///< width x height
  std::uint64_t max_bytes = 512ULL << 20;  ///< of the unconverted pixels
  std::uint32_t max_side = 65'500;
};

/// Width and height of a PNG by its header.
struct PngSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};

/// Bytes that `read_png_size` needs.
inline constexpr std::size_t kPngHeadBytes = 24;
/// Reads the size from the first kPngHeadBytes bytes (PNG specification, 5.2 and 11.2.2). Errors: image_unreadable.
Result<PngSize> read_png_size(std::span<const std::byte> head);

/// Decodes PNG files of every colour type, depth and interlacing.
///
/// The result equals Pillow 13's `Image.open(...).convert("L")` (channels 1) or `.convert("RGB")` (channels 3): transparency is
/// dropped, 16-bit colour keeps the high byte, 16-bit grey follows Pillow's own rule for mode `I;16` (see the source), grey from
/// colour is (19595 R + 38470 G + 7471 B + 32768) >> 16. No colour profile or gamma is applied. Unlike Pillow a file must be
/// complete to its end chunk. Holds scratch memory between calls; *confined to one thread at a time*.
class PngDecoder {
 public:
  explicit PngDecoder(DecodeLimits limits = {}) : limits_(limits) {}

  /// Decodes `file` into `out` with `channels` 1 or 3. Errors: image_unreadable; its message is a short reason: `no bytes`, `not
  /// a png`, `truncated`, `too large`, or libpng's own words. `out` is unspecified then.
  Status decode(std::span<const std::byte> file, std::uint32_t channels, Image& out);

 private:
  DecodeLimits limits_;
  std::vector<std::uint8_t> raw_;
  std::vector<std::uint8_t*> rows_;
};

}  // namespace parascale::data
