#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "parascale/data/image.h"

namespace parascale::data {

/// Fixed-point weights of one axis: output i = sum over j < count of weight[i * taps + j] * input[first + j].
struct ResizeAxis {
  struct Window {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  std::size_t taps = 0;  ///< row length of `weights`
  std::vector<Window> windows;
  std::vector<std::int32_t> weights;  ///< 22 fractional bits
};

/// Weights of Pillow's BILINEAR filter (a triangle, widened by the reduction) from `input` to `output` pixels.
ResizeAxis make_bilinear_axis(std::uint32_t input, std::uint32_t output);

/// Resizes 8-bit images bit-equal to Pillow 13.0.0 `Image.resize(size, BILINEAR)`.
///
/// Separable; weights in double, rounded half away from zero to 22 fractional bits; each pass rounds and clips to 8 bits.
/// Horizontal pass first, except vertical first when H_in - H_out > 0 and H_in - H_out > 2 (W_in - W_out), as Pillow 13.0.0 does.
/// An axis whose size does not change has no pass; equal sizes copy. Keeps weights of recent sizes. *confined to one thread at a
/// time*
class Resizer {
 public:
  /// Writes `input` scaled to `width` x `height` (both at least 1) to `output`, which must be another image.
  void resize(const Image& input, std::uint32_t width, std::uint32_t height, Image& output);

 private:
  const ResizeAxis& axis(std::uint32_t input, std::uint32_t output);

  std::unordered_map<std::uint64_t, std::unique_ptr<const ResizeAxis>> axes_;
  Image between_;
};

}  // namespace parascale::data
