#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parascale/base/file_system.h"
#include "parascale/base/result.h"
#include "parascale/protocol/dtype.h"

namespace parascale::checkpoint {

/// A safetensors file is: u64 little-endian N; N bytes of UTF-8 JSON, an object `{name: {dtype, shape, data_offsets: [begin,
/// end]}, ...}` with an optional `__metadata__` (text -> text); then the tensors' bytes to the end of the file, row-major,
/// little-endian, without holes, overlap or tail. `data_offsets` count from the first byte after the header.

/// Upper bounds of what the reader accepts; a file beyond one is refused with safetensors_invalid.
struct SafetensorsLimits {
  std::uint64_t header_bytes = 25'000'000;  ///< what the model hub accepts; the format allows 100,000,000
  std::uint64_t tensors = 1'000'000;
  std::uint64_t name_bytes = 1024;
  std::uint64_t rank = 16;
};

/// A tensor that a file shall hold.
struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::uint64_t> shape;
};

/// A tensor in a file; offsets count from the first byte of the *file*.
struct TensorLocation {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::uint64_t> shape;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;

  friend bool operator==(const TensorLocation&, const TensorLocation&) = default;
};

/// Text -> text, written in key order.
using SafetensorsMetadata = std::map<std::string, std::string>;

/// What stands in a file: the reader's view. *thread-compatible*
struct SafetensorsHeader {
  SafetensorsMetadata metadata;
  std::vector<TensorLocation> tensors;  ///< in the order of the file
  std::uint64_t data_offset_bytes = 0;  ///< first byte of the first tensor (8 + N)
  std::uint64_t file_bytes = 0;

  /// The tensor with this name, or nullptr. Linear in the number of tensors.
  const TensorLocation* find(std::string_view name) const;
};

/// Where everything goes in a file to be written. *thread-compatible*
struct SafetensorsLayout {
  std::string header;  ///< the file's first bytes: length, JSON, spaces; as long as the offset of the first tensor
  std::vector<TensorLocation>
      tensors;  ///< in the order of the file: by element size descending, then by name, so every tensor is aligned to its element
  std::uint64_t total_bytes = 0;  ///< size of the whole file

  const TensorLocation* find(std::string_view name) const;
};

/// Lays out a file: the data starts at a multiple of `header_align` (a multiple of 8), tensors follow without holes.
/// The result depends only on the set of entries. Errors: safetensors_invalid for a duplicate, empty, reserved or over-long name,
/// a shape whose bytes overflow, rank > 16.
Result<SafetensorsLayout> make_layout(std::vector<TensorEntry> entries, const SafetensorsMetadata& metadata = {},
                                      std::uint64_t header_align = 4096);

/// Parses the header in `begin`, the first bytes of a file of `file_bytes` bytes (at least the header must be there; more is
/// ignored). `name` stands for the file in messages. Refuses everything the format forbids and the limits exceed; errors:
/// safetensors_invalid naming tensor and byte.
Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> begin, std::uint64_t file_bytes, std::string_view name,
                                            const SafetensorsLimits& limits = {});

/// Reads and parses the header of an open file. Errors: safetensors_invalid, io_failed.
Result<SafetensorsHeader> read_safetensors_header(File& file, const SafetensorsLimits& limits = {});

}  // namespace parascale::checkpoint
