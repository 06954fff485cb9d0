// Resize, affine and normalise against what others compute.
#include <gmock/gmock.h>

#include "parascale/data/affine.h"
#include "parascale/data/normalise.h"
#include "parascale/data/resize.h"
#include "parascale/data/tests/samples.h"
#include "tests/support/matchers.h"

namespace parascale::data {
namespace {

using namespace testing;  // NOLINT: builders of pictures

std::uint32_t number(const Json& item, std::string_view key) { return item.get<std::uint32_t>(key).value(); }

Image image_of(const Json& item) {
  Image image;
  image.resize(number(item, "width"), number(item, "height"), number(item, "channels"));
  image.pixels = from_hex(item.get<std::string>("input").value());
  return image;
}

TEST(Resizer, equals_pillow) {
  Resizer resizer;
  const Json cases = golden_cases("pillow_resize.json");
  ASSERT_GE(cases.items().size(), 15U);
  for (const Json& item : cases.items()) {
    Image out;
    resizer.resize(image_of(item), number(item, "to_width"), number(item, "to_height"), out);
    EXPECT_EQ(out.pixels, from_hex(item.get<std::string>("output").value()))
        << number(item, "width") << "x" << number(item, "height") << " to " << number(item, "to_width") << "x"
        << number(item, "to_height");
  }
}

TEST(Affine, equals_pillow) {
  const Json cases = golden_cases("pillow_affine.json");
  ASSERT_GE(cases.items().size(), 25U);
  for (const Json& item : cases.items()) {
    AffineMatrix matrix{};
    for (std::size_t i = 0; i < matrix.size(); ++i) {
      matrix[i] = item.find("matrix")->items()[i].to_double().value();
    }
    Image out;
    apply_affine(image_of(item), matrix, out);
    EXPECT_EQ(out.pixels, from_hex(item.get<std::string>("output").value())) << item.find("motion")->dump();
  }
}

TEST(Affine, makes_the_matrix_of_the_oracle) {
  const Json cases = golden_cases("pillow_affine.json");
  for (const Json& item : cases.items()) {
    const auto& motion = item.find("motion")->items();
    const AffineMatrix matrix = make_affine_matrix({.degrees = motion[0].to_double().value(),
                                                    .scale = motion[1].to_double().value(),
                                                    .shift_x = motion[2].to_double().value(),
                                                    .shift_y = motion[3].to_double().value()},
                                                   number(item, "width"), number(item, "height"));
    for (std::size_t i = 0; i < matrix.size(); ++i) {
      EXPECT_NEAR(matrix[i], item.find("matrix")->items()[i].to_double().value(), 1e-12);
    }
  }
}

TEST(Affine, without_motion_changes_nothing_and_a_shift_moves_right_and_down) {
  const Image image = noise_image(6, 5, 1, 1);
  Image out;
  apply_affine(image, make_affine_matrix({}, 6, 5), out);
  EXPECT_EQ(out, image);
  apply_affine(image, make_affine_matrix({.shift_x = 2, .shift_y = 1}, 6, 5), out);
  EXPECT_EQ(out.row(1)[2], image.row(0)[0]);
  EXPECT_EQ(out.row(0)[3], 0);
  EXPECT_EQ(out.row(3)[1], 0);
}

TEST(Affine, draws_inside_its_ranges_and_fills_them) {
  const Affine range{.degrees = 12, .scale = {0.9, 1.1}, .translate = 0.12};
  double lowest = 1e9;
  double highest = -1e9;
  double scale_sum = 0.0;
  constexpr int kDraws = 2000;
  for (std::uint64_t id = 0; id < kDraws; ++id) {
    const auto drawn = draw_affine(range, SampleRandom(1, 0, SampleId{id}), 28, 20);
    EXPECT_LE(std::abs(drawn.degrees), 12.0);
    EXPECT_GE(drawn.scale, 0.9);
    EXPECT_LE(drawn.scale, 1.1);
    EXPECT_LE(std::abs(drawn.shift_x), 0.12 * 28);
    EXPECT_LE(std::abs(drawn.shift_y), 0.12 * 20);
    lowest = std::min(lowest, drawn.degrees);
    highest = std::max(highest, drawn.degrees);
    scale_sum += drawn.scale;
  }
  EXPECT_LT(lowest, -11.9);
  EXPECT_GT(highest, 11.9);
  EXPECT_NEAR(scale_sum / kDraws, 1.0, 0.005);
}

TEST(Normaliser, computes_in_float_and_separates_channels) {
  const Recipe recipe{.size = 2, .channels = 3, .mean = {0.1, 0.2, 0.3}, .std = {0.5, 0.25, 1.0}};
  const Image image = noise_image(2, 2, 3, 9);
  std::vector<float> row(12);
  Normaliser(recipe).write(image, std::as_writable_bytes(std::span(row)));
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = 0; i < 4; ++i) {
      const float unit = static_cast<float>(image.pixels[i * 3 + c]) / 255.0F;
      EXPECT_EQ(row[c * 4 + i], (unit - static_cast<float>(recipe.mean[c])) / static_cast<float>(recipe.std[c]));
    }
  }
}

TEST(Normaliser, one_number_serves_all_channels) {
  const Recipe recipe{.size = 1, .channels = 3, .mean = {0.5}, .std = {0.5}};
  Image image;
  image.resize(1, 1, 3);
  image.pixels = {0, 255, 51};
  std::vector<float> row(3);
  Normaliser(recipe).write(image, std::as_writable_bytes(std::span(row)));
  EXPECT_THAT(row, ::testing::ElementsAre(-1.0F, 1.0F, ::testing::FloatNear(-0.6F, 1e-6F)));
}

}  // namespace
}  // namespace parascale::data
