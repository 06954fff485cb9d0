#include "fuzz/targets.h"
#include "parascale/data/png_decode.h"

namespace parascale::fuzz {

void png(Input input) {
  const auto bytes = std::as_bytes(input);
  const auto size = data::read_png_size(bytes.first(std::min(bytes.size(), data::kPngHeadBytes)));
  data::PngDecoder decoder({.max_pixels = 1U << 18, .max_bytes = 4U << 20});  // a small input must not cost seconds
  data::Image image;
  for (const std::uint32_t channels : {1U, 3U}) {
    if (const Status decoded = decoder.decode(bytes, channels, image); !decoded.ok()) {
      PS_CHECK(decoded.error().code() == Code::image_unreadable && !decoded.error().message().empty(),
               "a bad image has a reason");
      continue;
    }
    PS_CHECK(size.ok() && image.width == size->width && image.height == size->height, "the header said how large the image is");
    PS_CHECK(image.channels == channels && image.pixels.size() == image.row_bytes() * image.height, "the image has its shape");
  }
}

}  // namespace parascale::fuzz
