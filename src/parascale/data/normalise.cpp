#include "parascale/data/normalise.h"

#include <cstring>

#include "parascale/base/check.h"

namespace parascale::data {

Normaliser::Normaliser(const Recipe& recipe) {
  for (std::size_t c = 0; c < recipe.channels; ++c) {
    const auto mean = static_cast<float>(recipe.mean[recipe.mean.size() == 1 ? 0 : c]);
    const auto deviation = static_cast<float>(recipe.std[recipe.std.size() == 1 ? 0 : c]);
    std::array<float, 256> table{};
    for (std::size_t v = 0; v < table.size(); ++v) {
      const float unit = static_cast<float>(v) / 255.0F;
      table[v] = (unit - mean) / deviation;
    }
    tables_.push_back(table);
  }
}

void Normaliser::write(const Image& image, std::span<std::byte> row) const {
  const std::size_t pixels = std::size_t{image.width} * image.height;
  PS_CHECK(image.channels == tables_.size() && row.size() == pixels * tables_.size() * sizeof(float),
           "the image has the shape of its row");
  std::byte* to = row.data();
  for (std::size_t c = 0; c < tables_.size(); ++c) {
    const std::uint8_t* from = image.pixels.data() + c;
    for (std::size_t i = 0; i < pixels; ++i, to += sizeof(float)) {
      std::memcpy(to, &tables_[c][from[i * tables_.size()]], sizeof(float));
    }
  }
}

}  // namespace parascale::data
