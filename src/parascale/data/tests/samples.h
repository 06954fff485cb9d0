#pragma once

// Made-up archives, pictures and folders for the tests of the data module.
#include <png.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <unistd.h>

#include "parascale/base/file_system.h"
#include "parascale/base/hash.h"
#include "parascale/base/json.h"
#include "parascale/data/image.h"

namespace parascale::data::testing {

inline constexpr std::size_t kBlock = 512;

/// Sets the checksum of a header block.
inline void seal(std::string& block) {
  std::memset(block.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    sum += static_cast<unsigned char>(block[i]);
  }
  const std::string text = fmt::format("{:06o}", sum);
  std::memcpy(block.data() + 148, text.data(), 6);
  block[154] = '\0';
  block[155] = ' ';
}

/// A ustar header for `name`.
inline std::string tar_header(std::string_view name, std::uint64_t size, char type = '0') {
  std::string block(kBlock, '\0');
  std::memcpy(block.data(), name.data(), std::min<std::size_t>(name.size(), 100));
  std::memcpy(block.data() + 100, "0000644", 7);
  const std::string octal = fmt::format("{:011o}", size);
  std::memcpy(block.data() + 124, octal.data(), 11);
  std::memcpy(block.data() + 136, "00000000000", 11);
  block[156] = type;
  std::memcpy(block.data() + 257, "ustar\00000", 8);
  seal(block);
  return block;
}

inline std::string padded(std::string content) {
  content.resize((content.size() + kBlock - 1) / kBlock * kBlock, '\0');
  return content;
}

inline std::string tar_member(std::string_view name, std::string_view content, char type = '0') {
  return tar_header(name, content.size(), type) + padded(std::string(content));
}

inline std::string tar_end() { return std::string(2 * kBlock, '\0'); }

/// A pax record with its own length in front.
inline std::string pax_record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + 1;
  while (std::to_string(length).size() + rest != length) {
    ++length;
  }
  return fmt::format("{} {}={}\n", length, key, value);
}

/// Bytes of the generator that tests/oracles uses.
inline std::vector<std::uint8_t> noise(std::size_t count, std::uint32_t state) {
  std::vector<std::uint8_t> out(count);
  for (auto& byte : out) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::uint8_t>(state >> 24U);
  }
  return out;
}

/// An 8-bit PNG of `image` (1 or 3 channels).
inline std::string encode_png(const Image& image) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = image.width;
  header.height = image.height;
  header.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&header, nullptr, &size, 0, image.pixels.data(), 0, nullptr);
  std::string out(size, '\0');
  png_image_write_to_memory(&header, out.data(), &size, 0, image.pixels.data(), 0, nullptr);
  out.resize(size);
  return out;
}

inline Image noise_image(std::uint32_t width, std::uint32_t height, std::uint32_t channels, std::uint32_t seed) {
  Image image;
  image.resize(width, height, channels);
  image.pixels = noise(image.pixels.size(), seed);
  return image;
}

inline std::vector<std::uint8_t> from_hex(std::string_view hex) {
  std::vector<std::uint8_t> out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<std::uint8_t>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return out;
}

/// The cases of a golden file, which says how it was made.
inline Json golden_cases(const std::string& name) {
  const auto text = read_file(real_file_system(), "src/parascale/data/tests/golden/" + name);
  PS_CHECK(text.ok(), "tests run in the repository root");
  const auto json = parse_json(*text, name);
  PS_CHECK(json.ok(), "a golden file is JSON");
  return json->get<Json>("cases").value();
}

/// A directory that is empty at the start and removed at the end.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string_view name)
      : path_(std::filesystem::temp_directory_path() / fmt::format("parascale-data-{}-{}", name, getpid())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(std::string_view name) const { return (path_ / name).string(); }
  std::string write(std::string_view name, std::string_view content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

/// How a made-up picture is damaged.
enum class Damage { none, truncated, zero_bytes, html };

inline std::string damaged(std::string png, Damage damage) {
  switch (damage) {
    case Damage::none:
      return png;
    case Damage::truncated:
      return png.substr(0, png.size() / 2);
    case Damage::zero_bytes:
      return std::string(png.size(), '\0');
    case Damage::html:
      return "<!DOCTYPE html><html><body>404 Not Found</body></html>";
  }
  return png;
}

/// A shard of `samples` noise pictures (8x8 grey, label = id % 10); `damage_of(id)` says which are damaged. Ids start at `first`.
template <typename DamageOf>
std::string make_shard(std::uint32_t first, std::uint32_t samples, DamageOf damage_of) {
  std::string out;
  for (std::uint32_t id = first; id < first + samples; ++id) {
    const std::string key = fmt::format("{:06d}", id);
    out += tar_member(key + ".png", damaged(encode_png(noise_image(8, 8, 1, id)), damage_of(id)));
    out += tar_member(key + ".cls", fmt::format("{}\n", id % 10));
    out += tar_member(key + ".txt", "noise\n");
  }
  return out + tar_end();
}

}  // namespace parascale::data::testing
