#include "parascale/base/hash.h"

#include <vector>

#include "tests/support/matchers.h"

namespace parascale {
namespace {

// SHA-256: FIPS 180-2, appendix B. XXH3: digests of the reference implementation, release 0.8.

TEST(HashTest, Sha256KnownVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(HashTest, Sha256BytesAreTheSameDigest) {
  std::string hex;
  for (const char byte : sha256_bytes(as_bytes("abc"))) {
    hex += hex64(static_cast<unsigned char>(byte)).substr(14);
  }
  EXPECT_EQ(hex, sha256_hex("abc"));
}

TEST(HashTest, Xxh3KnownVectors) {
  EXPECT_EQ(hex64(xxh3_64({})), "2d06800538d394c2");
  EXPECT_EQ(xxh3_128_hex({}), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hex64(xxh3_64(as_bytes("abc"))), "78af5f94892f3950");
  EXPECT_EQ(xxh3_128_hex(as_bytes("abc")), "06b05ab6733a618578af5f94892f3950");
}

TEST(HashTest, StreamsEqualOneShotForEveryCut) {
  // Longer than the block of the long-input path (1024), so that every path of the algorithm is met.
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    text += static_cast<char>(i * 31 % 251);
  }
  for (const std::size_t cut : {0UL, 1UL, 16UL, 17UL, 128UL, 240UL, 241UL, 1024UL, 2999UL, 3000UL}) {
    Xxh3Stream stream;
    stream.update(as_bytes(text).first(cut));
    stream.update(as_bytes(text).subspan(cut));
    EXPECT_EQ(stream.digest_64(), xxh3_64(as_bytes(text))) << cut;
    EXPECT_EQ(stream.digest_128_hex(), xxh3_128_hex(as_bytes(text))) << cut;
    Sha256Stream sha;
    sha.update(as_bytes(text).first(cut));
    sha.update(as_bytes(text).subspan(cut));
    EXPECT_EQ(sha.finish_hex(), sha256_hex(text)) << cut;
  }
}

TEST(HashTest, AnEmptyStreamIsTheHashOfNothing) {
  const Xxh3Stream stream;
  EXPECT_EQ(hex64(stream.digest_64()), "2d06800538d394c2");
}

TEST(HashTest, HexHasSixteenDigits) {
  EXPECT_EQ(hex64(0), "0000000000000000");
  EXPECT_EQ(hex64(0xabcULL), "0000000000000abc");
}

}  // namespace
}  // namespace parascale
