#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "parascale/data/image.h"
#include "parascale/data/options.h"

namespace parascale::data {

/// Turns 8-bit pixels into floats: (v / 255 - mean[c]) / std[c], each operation in float32, equal to torchvision's ToTensor +
/// Normalize. Values are functions of one byte, so they come from a table. *thread-safe* once made
class Normaliser {
 public:
  explicit Normaliser(const Recipe& recipe);

  /// Writes `image` (channels as in the recipe) to `row`: f32 [channels, height, width], row-major, exactly as many bytes.
  void write(const Image& image, std::span<std::byte> row) const;

 private:
  std::vector<std::array<float, 256>> tables_;
};

}  // namespace parascale::data
