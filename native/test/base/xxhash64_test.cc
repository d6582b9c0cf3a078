// XXH64 against the values of xxHash's own self-test, and of libxxhash for all short lengths.
#include "engine/base/xxhash64.h"

#include <cstdint>
#include <span>
#include <vector>

#include "test.h"

namespace svc {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::uint64_t kSeed = 2654435761U;

// The bytes that xxHash's self-test hashes.
Bytes TestBytes(std::size_t count) {
  Bytes bytes(count);
  std::uint64_t state = kSeed;
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(state >> 56U);
    state *= 11400714785074694797ULL;
  }
  return bytes;
}

// Source: xxHash 0.8, cli/xsum_sanity_check.c, XSUM_XXH64_testdata.
TEST(TheValuesOfTheReferenceAreFound) {
  struct Vector {
    std::size_t size;
    std::uint64_t seed;
    std::uint64_t hash;
  };
  const std::vector<Vector> vectors = {
      {0, 0, 0xEF46DB3751D8E999},       {0, kSeed, 0xAC75FDA2929B17EF},
      {1, 0, 0xE934A84ADB052768},       {1, kSeed, 0x5014607643A9B4C3},
      {4, 0, 0x9136A0DCA57457EE},       {14, 0, 0x8282DCC4994E35C8},
      {14, kSeed, 0xC3BD6BF63DEB6DF0},  {222, 0, 0xB641AE8CB691C174},
      {222, kSeed, 0x20CB8AB7AE10C14A},
  };
  for (const auto& [size, seed, hash] : vectors) EXPECT_EQ(XxHash64(TestBytes(size), seed), hash);
  EXPECT_EQ(XxHash64({}), 0xEF46DB3751D8E999U);
}

// Each hash is the seed of the next one, so the last one depends on all. Computed with libxxhash
// 0.8.3.
TEST(AllShortLengthsAreHashedAsByTheReference) {
  const Bytes bytes = TestBytes(256);
  std::uint64_t hash = 0;
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    hash = XxHash64(std::span(bytes).first(size), hash);
  }
  EXPECT_EQ(hash, 0x45F65D1A4DBC79D1U);
}

TEST(ADamagedBitIsNoticed) {
  for (const std::size_t size : {1U, 3U, 4U, 7U, 8U, 31U, 32U, 33U, 64U, 100U}) {
    Bytes bytes = TestBytes(size);
    const std::uint64_t hash = XxHash64(bytes);
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      const auto mask = static_cast<std::uint8_t>(1U << bit % 8);
      bytes[bit / 8] ^= mask;
      EXPECT(XxHash64(bytes) != hash);
      bytes[bit / 8] ^= mask;
    }
  }
}

TEST(WhereTheBytesAreInMemoryDoesNotMatter) {
  const Bytes bytes = TestBytes(100);
  for (std::size_t shift = 0; shift < 16; ++shift) {
    Bytes shifted(shift, 0xAA);
    shifted.insert(shifted.end(), bytes.begin(), bytes.end());
    shifted.resize(shifted.size() + 40, 0x55);
    EXPECT_EQ(XxHash64(std::span(shifted).subspan(shift, bytes.size())), XxHash64(bytes));
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
