#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace parascale {

/// XXH3 64-bit of `bytes` (xxHash 0.8, seed 0).
std::uint64_t xxh3_64(std::span<const std::byte> bytes);
/// XXH3 128-bit of `bytes` as 32 lower-case hex digits, high half first (canonical form).
std::string xxh3_128_hex(std::span<const std::byte> bytes);
/// SHA-256 of `text` as 64 lower-case hex digits.
std::string sha256_hex(std::string_view text);
/// SHA-256 of `bytes`, 32 raw bytes.
std::string sha256_bytes(std::span<const std::byte> bytes);
/// Returns 16 lower-case hex digits.
std::string hex64(std::uint64_t value);

/// Incremental XXH3 of a stream; gives the 64-bit and the 128-bit digest. *thread-compatible*
class Xxh3Stream {
 public:
  Xxh3Stream();
  Xxh3Stream(Xxh3Stream&&) noexcept;
  Xxh3Stream& operator=(Xxh3Stream&&) noexcept;
  ~Xxh3Stream();

  void update(std::span<const std::byte> bytes);
  std::uint64_t digest_64() const;
  std::string digest_128_hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Incremental SHA-256 of a stream. *thread-compatible*
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(const Sha256Stream&) = delete;
  Sha256Stream& operator=(const Sha256Stream&) = delete;

  void update(std::span<const std::byte> bytes);
  /// Ends the stream; 64 lower-case hex digits.
  std::string finish_hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

}  // namespace parascale
