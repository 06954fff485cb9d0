#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace parascale::data {

/// 8-bit pixels, rows from the top, channels interleaved: uint8 [height, width, channels]. Reused between samples: `resize` keeps
/// capacity. *thread-compatible*
struct Image {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t channels = 0;
  std::vector<std::uint8_t> pixels;

  /// Sets the shape; the pixels' values are then unspecified.
  void resize(std::uint32_t new_width, std::uint32_t new_height, std::uint32_t new_channels) {
    width = new_width;
    height = new_height;
    channels = new_channels;
    pixels.resize(std::size_t{new_width} * new_height * new_channels);
  }
  std::size_t row_bytes() const { return std::size_t{width} * channels; }
  const std::uint8_t* row(std::uint32_t y) const { return pixels.data() + y * row_bytes(); }
  std::uint8_t* row(std::uint32_t y) { return pixels.data() + y * row_bytes(); }

  friend bool operator==(const Image&, const Image&) = default;
};

}  // namespace parascale::data
