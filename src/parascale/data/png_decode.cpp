#include "parascale/data/png_decode.h"

#include <fmt/core.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>

namespace parascale::data {

namespace {

constexpr std::array<unsigned char, 8> kSignature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

Error unreadable(std::string reason) { return Error(Code::image_unreadable, std::move(reason)); }

/// One decode in C terms: plain data only, because libpng leaves through longjmp.
struct Session {
  const std::byte* bytes = nullptr;
  std::size_t size = 0;
  std::size_t at = 0;
  bool ran_out = false;
  char reason[96] = {};
  std::jmp_buf escape;
  png_structp png = nullptr;
  png_infop info = nullptr;

  png_uint_32 width = 0;
  png_uint_32 height = 0;
  int depth = 0;
  int color = 0;
  int channels = 0;
  png_colorp palette = nullptr;
  int palette_size = 0;
};

Session& session_of(png_structp png) { return *static_cast<Session*>(png_get_error_ptr(png)); }

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  Session& session = session_of(png);
  std::strncpy(session.reason, message, sizeof session.reason - 1);
  std::longjmp(session.escape, 1);  // NOLINT(cert-err52-cpp): libpng's only way out; no C++ object lies between
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep into, png_size_t count) {
  Session& session = session_of(png);
  if (count > session.size - session.at) {
    session.ran_out = true;
    png_error(png, "truncated");
  }
  std::memcpy(into, session.bytes + session.at, count);
  session.at += count;
}

/// Reads up to the first image data. Returns false on failure. Nothing with a destructor may live in this frame.
bool read_head(Session& session, const DecodeLimits& limits) {
  if (setjmp(session.escape) != 0) {  // NOLINT(cert-err52-cpp)
    return false;
  }
  session.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &session, on_error, on_warning);
  if (session.png == nullptr) {
    return false;
  }
  session.info = png_create_info_struct(session.png);
  if (session.info == nullptr) {
    return false;
  }
  png_set_read_fn(session.png, &session, on_read);
  png_set_user_limits(session.png, limits.max_side, limits.max_side);
  png_set_keep_unknown_chunks(session.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // texts, profiles, times: never stored
  png_read_info(session.png, session.info);
  png_get_IHDR(session.png, session.info, &session.width, &session.height, &session.depth, &session.color, nullptr, nullptr,
               nullptr);
  session.channels = png_get_channels(session.png, session.info);
  if (session.color == PNG_COLOR_TYPE_PALETTE) {
    png_get_PLTE(session.png, session.info, &session.palette, &session.palette_size);
  }
  return true;
}

bool read_pixels(Session& session, png_bytepp rows) {
  if (setjmp(session.escape) != 0) {  // NOLINT(cert-err52-cpp)
    return false;
  }
  png_set_packing(session.png);  // one byte for each value below 8 bits, not scaled
  png_set_interlace_handling(session.png);
  png_read_update_info(session.png, session.info);
  png_read_image(session.png, rows);
  png_read_end(session.png, nullptr);
  return true;
}

std::uint8_t luma(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000U) >> 16U);
}

/// 256 grey or colour triples for values of 8 bits or less.
using Table = std::array<std::array<std::uint8_t, 3>, 256>;

Table palette_table(const Session& session) {
  Table table{};
  for (std::size_t i = 0; i < static_cast<std::size_t>(session.palette_size) && i < table.size(); ++i) {
    const png_color& color = session.palette[i];
    table[i] = {color.red, color.green, color.blue};
  }
  return table;
}

void convert_palette(const Session& session, const std::vector<std::uint8_t>& raw, Image& out) {
  const Table table = palette_table(session);
  if (out.channels == 1) {
    std::ranges::transform(raw, out.pixels.begin(), [&](std::uint8_t value) { return luma(table[value].data()); });
    return;
  }
  for (std::size_t i = 0; i < raw.size(); ++i) {
    std::ranges::copy(table[raw[i]], out.pixels.begin() + static_cast<std::ptrdiff_t>(3 * i));
  }
}

/// Byte of channel `c` of pixel `pixel`, by Pillow's rules for the depth.
class Sampler {
 public:
  Sampler(const Session& session, const std::vector<std::uint8_t>& raw)
      : raw_(raw),
        step_(static_cast<std::size_t>(session.channels)),
        wide_(session.depth == 16),
        // Pillow opens plain 16-bit grey as `I;16` and keeps all bits; leaving that mode it clips instead of shifting.
        clips_(wide_ && session.color == PNG_COLOR_TYPE_GRAY),
        factor_(session.color == PNG_COLOR_TYPE_GRAY && session.depth < 8
                    ? 255U / ((1U << static_cast<unsigned>(session.depth)) - 1U)
                    : 1U) {}

  std::uint8_t operator()(std::size_t pixel, std::size_t c) const {
    const std::size_t at = pixel * step_ + c;
    if (!wide_) {
      return static_cast<std::uint8_t>(raw_[at] * factor_);
    }
    const std::uint8_t high = raw_[2 * at];
    if (clips_) {
      return high != 0 ? std::uint8_t{255} : raw_[2 * at + 1];
    }
    return high;
  }

 private:
  const std::vector<std::uint8_t>& raw_;
  std::size_t step_;
  bool wide_;
  bool clips_;
  std::uint32_t factor_;
};

void convert(const Session& session, const std::vector<std::uint8_t>& raw, Image& out) {
  if (session.color == PNG_COLOR_TYPE_PALETTE) {
    convert_palette(session, raw, out);
    return;
  }
  const Sampler sample(session, raw);
  const bool colored = (session.color & PNG_COLOR_MASK_COLOR) != 0;
  const std::size_t pixels = std::size_t{out.width} * out.height;
  for (std::size_t i = 0; i < pixels; ++i) {
    if (out.channels == 1) {
      const std::array<std::uint8_t, 3> rgb{sample(i, 0), colored ? sample(i, 1) : std::uint8_t{0},
                                            colored ? sample(i, 2) : std::uint8_t{0}};
      out.pixels[i] = colored ? luma(rgb.data()) : rgb[0];
    } else {
      for (std::size_t c = 0; c < 3; ++c) {
        out.pixels[3 * i + c] = sample(i, colored ? c : 0);
      }
    }
  }
}

}  // namespace

Result<PngSize> read_png_size(std::span<const std::byte> head) {
  if (head.empty()) {
    return unreadable("no bytes");
  }
  const std::size_t compared = std::min(head.size(), kSignature.size());
  if (std::memcmp(head.data(), kSignature.data(), compared) != 0) {
    return unreadable("not a png");
  }
  if (head.size() < kPngHeadBytes) {
    return unreadable("truncated");
  }
  if (std::memcmp(head.data() + 12, "IHDR", 4) != 0) {
    return unreadable("not a png");
  }
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      value = (value << 8U) | std::to_integer<std::uint32_t>(head[at + i]);
    }
    return value;
  };
  return PngSize{.width = number(16), .height = number(20)};
}

Status PngDecoder::decode(std::span<const std::byte> file, std::uint32_t channels, Image& out) {
  PS_CHECK(channels == 1 || channels == 3, "an image is decoded to grey or colour");
  PS_ASSIGN(const PngSize size, read_png_size(file));
  const std::uint64_t pixels = std::uint64_t{size.width} * size.height;
  if (size.width == 0 || size.height == 0) {
    return unreadable("no pixels");
  }
  if (size.width > limits_.max_side || size.height > limits_.max_side || pixels > limits_.max_pixels ||
      pixels * 8 > limits_.max_bytes) {
    return unreadable("too large");
  }
  Session session;
  session.bytes = file.data();
  session.size = file.size();
  struct Release {
    Session& session;
    ~Release() { png_destroy_read_struct(&session.png, &session.info, nullptr); }
  } const release{session};
  const auto failure = [&] {
    return unreadable(session.ran_out ? "truncated" : session.reason[0] != '\0' ? std::string(session.reason) : "out of memory");
  };
  if (!read_head(session, limits_)) {
    return failure();
  }
  out.resize(session.width, session.height, channels);
  const bool direct = session.depth == 8 && ((channels == 1 && session.color == PNG_COLOR_TYPE_GRAY) ||
                                             (channels == 3 && session.color == PNG_COLOR_TYPE_RGB));
  const std::size_t row_bytes =
      std::size_t{session.width} * static_cast<std::size_t>(session.channels) * (session.depth == 16 ? 2U : 1U);
  if (!direct) {
    raw_.resize(row_bytes * session.height);
  }
  std::uint8_t* first = direct ? out.pixels.data() : raw_.data();
  rows_.resize(session.height);
  for (std::size_t y = 0; y < rows_.size(); ++y) {
    rows_[y] = first + y * row_bytes;
  }
  if (!read_pixels(session, rows_.data())) {
    return failure();
  }
  if (!direct) {
    convert(session, raw_, out);
  }
  return {};
}

}  // namespace parascale::data
