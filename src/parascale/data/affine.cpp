#include "parascale/data/affine.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "parascale/base/check.h"

namespace parascale::data {

namespace {

double uniform_in(double low, double high, double unit) { return low + (high - low) * unit; }

/// Largest integer not above `value`, for values that fit; std::floor is a library call on plain x86-64.
std::int64_t floor_of(double value) {
  const auto cut = static_cast<std::int64_t>(value);
  return static_cast<double>(cut) > value ? cut - 1 : cut;
}

/// Value between the four neighbours of (x, y), in double, cut off to 8 bits. Coordinates count from the first pixel's centre;
/// beyond the edge the edge's pixel is repeated, and there is no blending with a row below the last.
template <std::size_t kChannels>
void sample(const Image& image, double x, double y, std::uint8_t* to) {
  const auto blend = [](double a, double b, double part) { return a + (b - a) * part; };
  const std::int64_t column = floor_of(x);
  const std::int64_t row = floor_of(y);
  const double part_x = x - static_cast<double>(column);
  const double part_y = y - static_cast<double>(row);
  const std::int64_t last_column = std::int64_t{image.width} - 1;
  const std::int64_t last_row = std::int64_t{image.height} - 1;
  const std::size_t left = static_cast<std::size_t>(std::max(column, std::int64_t{0})) * kChannels;
  const std::size_t right = static_cast<std::size_t>(std::min(column + 1, last_column)) * kChannels;
  const std::uint8_t* upper = image.row(static_cast<std::uint32_t>(std::max(row, std::int64_t{0})));
  const std::uint8_t* lower = row + 1 <= last_row ? image.row(static_cast<std::uint32_t>(row + 1)) : upper;
  for (std::size_t c = 0; c < kChannels; ++c) {
    const double above = blend(upper[left + c], upper[right + c], part_x);
    const double below = blend(lower[left + c], lower[right + c], part_x);
    to[c] = static_cast<std::uint8_t>(static_cast<std::int32_t>(blend(above, below, part_y)));
  }
}

template <std::size_t kChannels>
void transform(const Image& input, const AffineMatrix& matrix, Image& output) {
  const double width = input.width;
  const double height = input.height;
  for (std::uint32_t y = 0; y < output.height; ++y) {
    std::uint8_t* to = output.row(y);
    const double center_y = y + 0.5;
    const double row_x = matrix[1] * center_y;
    const double row_y = matrix[4] * center_y;
    for (std::uint32_t x = 0; x < output.width; ++x, to += kChannels) {
      const double center_x = x + 0.5;
      const double from_x = matrix[0] * center_x + row_x + matrix[2];
      const double from_y = matrix[3] * center_x + row_y + matrix[5];
      if (from_x >= 0.0 && from_x < width && from_y >= 0.0 && from_y < height) {
        sample<kChannels>(input, from_x - 0.5, from_y - 0.5, to);
      } else {
        std::fill_n(to, kChannels, std::uint8_t{0});
      }
    }
  }
}

}  // namespace

AffineMatrix make_affine_matrix(const AffineParameters& parameters, std::uint32_t width, std::uint32_t height) {
  const double angle = parameters.degrees * std::numbers::pi / 180.0;
  const double cosine = std::cos(angle) / parameters.scale;
  const double sine = std::sin(angle) / parameters.scale;
  const double center_x = width / 2.0;
  const double center_y = height / 2.0;
  const double from_x = center_x + parameters.shift_x;
  const double from_y = center_y + parameters.shift_y;
  return {cosine, -sine,  center_x - cosine * from_x + sine * from_y,  //
          sine,   cosine, center_y - sine * from_x - cosine * from_y};
}

AffineParameters draw_affine(const Affine& range, SampleRandom random, std::uint32_t width, std::uint32_t height) {
  const auto unit = random.uniforms(RandomOp::affine);
  return {.degrees = uniform_in(-range.degrees, range.degrees, unit[0]),
          .scale = uniform_in(range.scale[0], range.scale[1], unit[1]),
          .shift_x = uniform_in(-range.translate, range.translate, unit[2]) * width,
          .shift_y = uniform_in(-range.translate, range.translate, unit[3]) * height};
}

void apply_affine(const Image& input, const AffineMatrix& matrix, Image& output) {
  PS_CHECK(input.channels == 1 || input.channels == 3, "an image is grey or coloured");
  output.resize(input.width, input.height, input.channels);
  if (input.channels == 1) {
    transform<1>(input, matrix, output);
  } else {
    transform<3>(input, matrix, output);
  }
}

}  // namespace parascale::data
