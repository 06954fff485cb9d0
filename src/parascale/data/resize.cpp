#include "parascale/data/resize.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "parascale/base/check.h"

namespace parascale::data {

namespace {

constexpr unsigned kFractionBits = 22;
constexpr std::size_t kMaxKeptAxes = 256;

double triangle(double x) {
  const double distance = std::abs(x);
  return distance < 1.0 ? 1.0 - distance : 0.0;
}

std::uint8_t to_byte(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));  // arithmetic shift: C++20
}

constexpr std::int32_t kHalf = 1 << (kFractionBits - 1);

void horizontal_pass(const Image& input, const ResizeAxis& axis, Image& output) {
  const auto width = static_cast<std::uint32_t>(axis.windows.size());
  const std::size_t channels = input.channels;
  output.resize(width, input.height, input.channels);
  for (std::uint32_t y = 0; y < input.height; ++y) {
    const std::uint8_t* from = input.row(y);
    std::uint8_t* to = output.row(y);
    for (std::uint32_t x = 0; x < width; ++x) {
      const auto window = axis.windows[x];
      const std::int32_t* weights = axis.weights.data() + x * axis.taps;
      for (std::size_t c = 0; c < channels; ++c) {
        std::int32_t sum = kHalf;
        for (std::uint32_t j = 0; j < window.count; ++j) {
          sum += from[(window.first + j) * channels + c] * weights[j];
        }
        to[x * channels + c] = to_byte(sum);
      }
    }
  }
}

void vertical_pass(const Image& input, const ResizeAxis& axis, Image& output) {
  const auto height = static_cast<std::uint32_t>(axis.windows.size());
  output.resize(input.width, height, input.channels);
  for (std::uint32_t y = 0; y < height; ++y) {
    const auto window = axis.windows[y];
    const std::int32_t* weights = axis.weights.data() + y * axis.taps;
    std::uint8_t* to = output.row(y);
    for (std::size_t x = 0; x < input.row_bytes(); ++x) {
      std::int32_t sum = kHalf;
      for (std::uint32_t j = 0; j < window.count; ++j) {
        sum += input.row(window.first + j)[x] * weights[j];
      }
      to[x] = to_byte(sum);
    }
  }
}

}  // namespace

ResizeAxis make_bilinear_axis(std::uint32_t input, std::uint32_t output) {
  PS_CHECK(input > 0 && output > 0, "an axis has at least one pixel");
  const double scale = static_cast<double>(input) / static_cast<double>(output);
  const double filter_scale = std::max(scale, 1.0);
  const double support = filter_scale;  // the triangle reaches one (scaled) pixel
  const double inverse = 1.0 / filter_scale;
  ResizeAxis axis;
  axis.taps = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
  axis.weights.resize(axis.taps * output);
  std::vector<double> exact(axis.taps);
  for (std::uint32_t i = 0; i < output; ++i) {
    const double center = (i + 0.5) * scale;
    const auto first = static_cast<std::int64_t>(std::max(center - support + 0.5, 0.0));
    const auto end = static_cast<std::int64_t>(std::min(center + support + 0.5, static_cast<double>(input)));
    const auto count = static_cast<std::size_t>(end - first);
    double sum = 0.0;
    for (std::size_t j = 0; j < count; ++j) {
      exact[j] = triangle((static_cast<double>(j) + static_cast<double>(first) - center + 0.5) * inverse);
      sum += exact[j];
    }
    for (std::size_t j = 0; j < count; ++j) {
      const double weight = sum != 0.0 ? exact[j] / sum : exact[j];
      const double scaled = weight * (1U << kFractionBits);
      axis.weights[i * axis.taps + j] = static_cast<std::int32_t>(scaled < 0.0 ? scaled - 0.5 : scaled + 0.5);
    }
    axis.windows.push_back({.first = static_cast<std::uint32_t>(first), .count = static_cast<std::uint32_t>(count)});
  }
  return axis;
}

const ResizeAxis& Resizer::axis(std::uint32_t input, std::uint32_t output) {
  const std::uint64_t key = std::uint64_t{input} << 32U | output;
  if (const auto found = axes_.find(key); found != axes_.end()) {
    return *found->second;
  }
  return *axes_.emplace(key, std::make_unique<const ResizeAxis>(make_bilinear_axis(input, output))).first->second;
}

void Resizer::resize(const Image& input, std::uint32_t width, std::uint32_t height, Image& output) {
  if (axes_.size() > kMaxKeptAxes) {
    axes_.clear();
  }
  const bool across = input.width != width;
  const bool down = input.height != height;
  if (!across && !down) {
    output = input;
  } else if (!down) {
    horizontal_pass(input, axis(input.width, width), output);
  } else if (!across) {
    vertical_pass(input, axis(input.height, height), output);
  } else {
    const std::int64_t fewer_rows = std::int64_t{input.height} - height;
    const std::int64_t fewer_columns = std::int64_t{input.width} - width;
    if (fewer_rows > 0 && fewer_rows > 2 * fewer_columns) {
      vertical_pass(input, axis(input.height, height), between_);
      horizontal_pass(between_, axis(input.width, width), output);
    } else {
      horizontal_pass(input, axis(input.width, width), between_);
      vertical_pass(between_, axis(input.height, height), output);
    }
  }
}

}  // namespace parascale::data
