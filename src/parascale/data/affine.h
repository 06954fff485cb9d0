#pragma once

#include <array>
#include <cstdint>

#include "parascale/data/counter_random.h"
#include "parascale/data/image.h"
#include "parascale/data/options.h"

namespace parascale::data {

/// Maps an output pixel to the place it is taken from: x_in = m[0] x + m[1] y + m[2], y_in = m[3] x + m[4] y + m[5], with pixel
/// centres at half-integers, as Pillow's `Image.transform(size, AFFINE, data)`.
using AffineMatrix = std::array<double, 6>;

/// Rotation by `degrees` (counter-clockwise as seen), scale and shift (pixels, right and down) about the centre of a width x
/// height image, inverted to a matrix from output to input.
struct AffineParameters {
  double degrees = 0.0;
  double scale = 1.0;
  double shift_x = 0.0;
  double shift_y = 0.0;
};
AffineMatrix make_affine_matrix(const AffineParameters& parameters, std::uint32_t width, std::uint32_t height);

/// Draws the parameters of one sample: words 0..3 of its `RandomOp::affine` stream give angle, scale, horizontal and vertical
/// shift.
AffineParameters draw_affine(const Affine& range, SampleRandom random, std::uint32_t width, std::uint32_t height);

/// Writes `input` seen through `matrix` to `output` of the same size: bilinear, black outside; equal to Pillow 13
/// `Image.transform(image.size, AFFINE, matrix, resample=BILINEAR)` for modes L and RGB. `output` must be another image.
void apply_affine(const Image& input, const AffineMatrix& matrix, Image& output);

}  // namespace parascale::data
