// SipHash-2-4 with 128 bits against the reference's own values, and bytes that come in pieces.
#include "engine/base/siphash.h"

#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "test.h"

namespace svc {
namespace {

using Bytes = std::vector<std::uint8_t>;

// The bytes 0, 1, 2, ...
Bytes Counted(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  return bytes;
}

// The key of the reference's values: the bytes 0 to 15.
constexpr SipKey kKey = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

// Tags of Counted(0), Counted(1), ... Source: the reference implementation
// (github.com/veorq/SipHash), vectors.h, vectors_sip128.
constexpr std::array<SipTag, 64> kTags = {{
    {{0xe6a825ba047f81a3, 0x930255c71472f66d}}, {{0x44af996bd8c187da, 0x45fc229b11597634}},
    {{0xc75da4a48d227781, 0xe4ff0af6de8ba3fc}}, {{0x4ea967520cb6709c, 0x51ed8529b0b6335f}},
    {{0xaf8f9c2dc16481f8, 0x7955cd7b7c6e0f7d}}, {{0x886f778059876813, 0x27960e69077a5254}},
    {{0x1386208b33caee14, 0x5ea1d78f30a05e48}}, {{0x53c1dbd8beebf1a1, 0x3982f01fa64ab8c0}},
    {{0x61f55862baa9623b, 0xb49714f364e2830f}}, {{0xabbad90a06994426, 0xed716dbb028b7fc4}},
    {{0x56691478c30d1100, 0xbafbd0f3d34754c9}}, {{0x77666b3868c55101, 0x18dce5816fdcb4a2}},
    {{0x58f35e9066b226d6, 0x25c13285f64d6382}}, {{0x108bc0e947e26998, 0xf752b9c44f9329d0}},
    {{0x9cded766aceffc31, 0x024949e45f48c77e}}, {{0x11a8b03399e99354, 0xd9c3cf970fec087e}},
    {{0xbb54b067caa4e26e, 0x77052385bf1533fd}}, {{0x98b88d73e8063d47, 0x4077e47ac466c054}},
    {{0x8548bf23e4e526a4, 0x23f7aefe81a44d29}}, {{0xb0fa65cf31770178, 0xb12e51528920d574}},
    {{0x7390223f83fc259e, 0xeb3938e8a544933e}}, {{0x215a52be5a498e56, 0x121d073ecd14228a}},
    {{0x9a6bd15245b5294a, 0xae0aff8e52109c46}}, {{0xe0f5a9d5dd84d1c9, 0x1c69bf9a9ae28ccf}},
    {{0xd850bd78ae79b42d, 0xad32618a178a2a88}}, {{0x7b445e2d045fce8e, 0x6f8f8dcbeab95150}},
    {{0xe807c3b3b4530b9c, 0x661f147886e0ae7e}}, {{0xe4eaa669af48f2ab, 0x94eb9e122febd3bf}},
    {{0x884b576816da6406, 0xf4ae587302f335b9}}, {{0xe97d33bfc49d4baa, 0xb76a7c463cfdd40c}},
    {{0xde6baf1f477f5cea, 0x87226d68d4d71a2b}}, {{0xfcfa233218b03929, 0x353dc4524fde2317}},
    {{0x3efcea5eca56397c, 0x68eb4665559d3e36}}, {{0x321cf0467107c677, 0xcfffa94e5f9db6b6}},
    {{0xdf7e84b86c98a637, 0xde549b30f1f02509}}, {{0xf9a8a99de6f005a7, 0xc88c3c922e1a2407}},
    {{0x4648c4291f7dc43d, 0x11674f90ed769e1e}}, {{0x1a0efce601bf620d, 0x2b69d3c551473c0d}},
    {{0x9e667cca8b46038c, 0xb5e7be4b085efde4}}, {{0x9c2caf3bb95b8a52, 0xd92bd2d0e5cc7344}},
    {{0xad5dc9951e306adf, 0xd83b91c6c80cae97}}, {{0x397f852c90891180, 0xdbb6705e289135e7}},
    {{0xbb31c2c96a3417e6, 0x5b0ccacc34ae5036}}, {{0xaa21b7ef3734d927, 0x89df5aecdc211840}},
    {{0x785e9ced9d7d2389, 0x4273cc66b1c9b1d8}}, {{0x657d5ebf91806d4a, 0x4cb150a294fa8911}},
    {{0x89aee75560f9330e, 0x022949cf3d0efc3f}}, {{0xd1190b722b431ce6, 0x1b1563dc4bd8c88e}},
    {{0xcf82f749f5aee5f7, 0x169b2608a6559037}}, {{0x4fa5b7d00f038d43, 0x03641a20adf237a8}},
    {{0xe304bf4feed390a5, 0x3f4286f2270d7e24}}, {{0xc493fe72a1c1e25f, 0x38f5f9ae7cd35cb1}},
    {{0x6eb306bd5c32972c, 0x7c013a8bd03d13b2}}, {{0x94ca6b7a2214c892, 0x9ed32a009f65f09f}},
    {{0x8c32d80b1150e8dc, 0x871d91d64108d5fb}}, {{0x1279dac78449f167, 0xda832592b52be348}},
    {{0xe94ed572cff23819, 0x362a1da96f16947e}}, {{0xfe49ed46961e4874, 0x8e6904163024620f}},
    {{0xd8d6a998dea5fc57, 0x1d8a3d58d0386400}}, {{0xbe1cdcef1cdeec9f, 0x595357d9743676d4}},
    {{0x53f128eb000c04e3, 0x40e772d8cb73ca66}}, {{0xfe1d836a9a009776, 0x7a0f6793591ca9cc}},
    {{0xa067f52123545358, 0xbd5947f0a447d505}}, {{0x4a83502f77d15051, 0x7cbd3f979a063e50}},
}};

TEST(TheValuesOfTheReferenceAreFound) {
  for (std::size_t size = 0; size < kTags.size(); ++size) {
    EXPECT(SipHash128(kKey, Counted(size)) == kTags[size]);
  }
}

TEST(PiecesHaveTheTagOfTheWhole) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    const Bytes bytes = Counted(random() % 600);
    SipHasher hasher(kKey);
    std::span<const std::uint8_t> left = bytes;
    while (left.size() >= 8 && random() % 8 != 0) {
      const std::size_t words = random() % (left.size() / 8 + 1);  // an empty piece, too
      hasher.Add(left.first(8 * words));
      left = left.subspan(8 * words);
    }
    hasher.Add(left);
    EXPECT(hasher.Finish() == SipHash128(kKey, bytes));
  }
  EXPECT(SipHasher(kKey).Finish() == kTags[0]);
}

// The tag includes only the lowest eight bits of the length.
TEST(AlsoZerosOfDifferentLengthsDiffer) {
  std::set<SipTag> tags;
  for (std::size_t size = 0; size < 1000; ++size) tags.insert(SipHash128(kKey, Bytes(size)));
  EXPECT_EQ(tags.size(), 1000U);
}

TEST(EachBitOfTheKeyCounts) {
  const Bytes bytes = Counted(20);
  std::set<SipTag> tags = {SipHash128(kKey, bytes)};
  for (std::size_t bit = 0; bit < 128; ++bit) {
    SipKey key = kKey;
    key[bit / 64] ^= std::uint64_t{1} << bit % 64;
    tags.insert(SipHash128(key, bytes));
  }
  EXPECT_EQ(tags.size(), 129U);
}

TEST(KeysForDifferentPurposesDiffer) {
  std::set<SipKey> keys = {kKey, {1, 2}};
  for (const SipKey& key : {kKey, SipKey{1, 2}}) {
    for (const char* purpose : {"", "a", "b", "ab", "ba", "file", "files"}) {
      EXPECT(DeriveKey(key, purpose) == DeriveKey(key, std::string(purpose)));
      keys.insert(DeriveKey(key, purpose));
    }
  }
  EXPECT_EQ(keys.size(), 2U + 2 * 7);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
