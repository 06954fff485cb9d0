#include "parascale/data/png_decode.h"

#include <gmock/gmock.h>

#include "parascale/data/tests/samples.h"
#include "tests/support/matchers.h"

namespace parascale::data {
namespace {

using namespace testing;  // NOLINT: builders of pictures
using parascale::testing::is_error;
using parascale::testing::is_ok;

std::span<const std::byte> bytes_of(const std::vector<std::uint8_t>& bytes) { return std::as_bytes(std::span(bytes)); }

std::string reason_of(PngDecoder& decoder, std::string_view file) {
  Image out;
  const Status decoded = decoder.decode(as_bytes(file), 1, out);
  EXPECT_THAT(decoded, is_error(Code::image_unreadable));
  return decoded.ok() ? "" : decoded.error().message();
}

TEST(PngDecoder, equals_pillow_for_every_kind) {
  PngDecoder decoder;
  std::size_t count = 0;
  const Json cases = golden_cases("pillow_png.json");
  for (const Json& item : cases.items()) {
    const auto name = item.get<std::string>("name").value();
    const auto png = from_hex(item.get<std::string>("png").value());
    Image grey;
    ASSERT_THAT(decoder.decode(bytes_of(png), 1, grey), is_ok()) << name;
    EXPECT_EQ(grey.pixels, from_hex(item.get<std::string>("grey").value())) << name;
    Image color;
    ASSERT_THAT(decoder.decode(bytes_of(png), 3, color), is_ok()) << name;
    EXPECT_EQ(color.pixels, from_hex(item.get<std::string>("rgb").value())) << name;
    ++count;
  }
  EXPECT_GE(count, 50U);
}

TEST(PngDecoder, gives_short_reasons) {
  PngDecoder decoder;
  const std::string png = encode_png(noise_image(28, 28, 1, 3));
  EXPECT_EQ(reason_of(decoder, ""), "no bytes");
  EXPECT_EQ(reason_of(decoder, "<!DOCTYPE html><html></html>"), "not a png");
  EXPECT_EQ(reason_of(decoder, std::string(png.size(), '\0')), "not a png");
  EXPECT_EQ(reason_of(decoder, png.substr(0, 12)), "truncated");
  EXPECT_EQ(reason_of(decoder, png.substr(0, png.size() / 2)), "truncated");
  EXPECT_EQ(reason_of(decoder, png.substr(0, png.size() - 1)), "truncated");
}

TEST(PngDecoder, refuses_every_shorter_file_and_works_on_afterwards) {
  PngDecoder decoder;
  const Image image = noise_image(9, 5, 3, 4);
  const std::string png = encode_png(image);
  for (std::size_t length = 0; length < png.size(); ++length) {
    Image out;
    EXPECT_THAT(decoder.decode(as_bytes(std::string_view(png).substr(0, length)), 3, out), is_error(Code::image_unreadable))
        << length;
  }
  Image out;
  ASSERT_THAT(decoder.decode(as_bytes(png), 3, out), is_ok());
  EXPECT_EQ(out, image);
}

TEST(PngDecoder, notices_changed_pixels) {
  PngDecoder decoder;
  std::string png = encode_png(noise_image(28, 28, 1, 5));
  png[png.size() / 2] ^= 0x10;
  EXPECT_FALSE(reason_of(decoder, png).empty());
}

TEST(PngDecoder, checks_the_declared_size_before_it_decodes) {
  std::string png = encode_png(noise_image(4, 4, 1, 6));
  png[16] = 0x7f;  // width 2,130,706,436
  PngDecoder decoder;
  EXPECT_EQ(reason_of(decoder, png), "too large");
  PngDecoder small({.max_pixels = 15});
  EXPECT_EQ(reason_of(small, encode_png(noise_image(4, 4, 1, 6))), "too large");
}

TEST(PngDecoder, reads_the_size_of_a_head) {
  const std::string png = encode_png(noise_image(300, 7, 1, 6));
  const auto size = read_png_size(as_bytes(png).first(kPngHeadBytes));
  ASSERT_THAT(size, is_ok());
  EXPECT_EQ(size->width, 300U);
  EXPECT_EQ(size->height, 7U);
}

}  // namespace
}  // namespace parascale::data
