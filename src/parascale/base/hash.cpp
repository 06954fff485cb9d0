#include "parascale/base/hash.h"

#include <fmt/core.h>
#include <openssl/evp.h>
#include <xxhash.h>

#include <array>

#include "parascale/base/check.h"

namespace parascale {

namespace {

std::string hex128(XXH128_hash_t hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }

std::array<unsigned char, 32> sha256(const void* data, std::size_t size) {
  std::array<unsigned char, 32> digest{};
  unsigned length = 0;
  PS_CHECK(EVP_Digest(data, size, digest.data(), &length, EVP_sha256(), nullptr) == 1 && length == digest.size(),
           "SHA-256 is available");
  return digest;
}

}  // namespace

std::uint64_t xxh3_64(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string xxh3_128_hex(std::span<const std::byte> bytes) { return hex128(XXH3_128bits(bytes.data(), bytes.size())); }

std::string sha256_hex(std::string_view text) {
  std::string out;
  for (const unsigned char byte : sha256(text.data(), text.size())) {
    out += fmt::format("{:02x}", byte);
  }
  return out;
}

std::string sha256_bytes(std::span<const std::byte> bytes) {
  const auto digest = sha256(bytes.data(), bytes.size());
  return {digest.begin(), digest.end()};
}

std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

struct Xxh3Stream::State {
  XXH3_state_t* raw = XXH3_createState();
  State() { PS_CHECK(raw != nullptr && XXH3_128bits_reset(raw) == XXH_OK, "a hash state can be made"); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(raw); }
};

Xxh3Stream::Xxh3Stream() : state_(std::make_unique<State>()) {}
Xxh3Stream::Xxh3Stream(Xxh3Stream&&) noexcept = default;
Xxh3Stream& Xxh3Stream::operator=(Xxh3Stream&&) noexcept = default;
Xxh3Stream::~Xxh3Stream() = default;

void Xxh3Stream::update(std::span<const std::byte> bytes) {
  // The 64-bit and 128-bit digests share one accumulator, so one pass serves both.
  XXH3_128bits_update(state_->raw, bytes.data(), bytes.size());
}
std::uint64_t Xxh3Stream::digest_64() const { return XXH3_64bits_digest(state_->raw); }
std::string Xxh3Stream::digest_128_hex() const { return hex128(XXH3_128bits_digest(state_->raw)); }

struct Sha256Stream::State {
  EVP_MD_CTX* raw = EVP_MD_CTX_new();
  State() { PS_CHECK(raw != nullptr && EVP_DigestInit_ex(raw, EVP_sha256(), nullptr) == 1, "SHA-256 is available"); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(raw); }
};

Sha256Stream::Sha256Stream() : state_(std::make_unique<State>()) {}
Sha256Stream::~Sha256Stream() = default;

void Sha256Stream::update(std::span<const std::byte> bytes) {
  PS_CHECK(EVP_DigestUpdate(state_->raw, bytes.data(), bytes.size()) == 1, "SHA-256 can be updated");
}

std::string Sha256Stream::finish_hex() {
  std::array<unsigned char, 32> digest{};
  unsigned length = 0;
  PS_CHECK(EVP_DigestFinal_ex(state_->raw, digest.data(), &length) == 1 && length == digest.size(), "SHA-256 can be finished");
  std::string out;
  for (const unsigned char byte : digest) {
    out += fmt::format("{:02x}", byte);
  }
  return out;
}

}  // namespace parascale
