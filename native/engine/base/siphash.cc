#include "engine/base/siphash.h"

#include <bit>
#include <cstddef>
#include <cstring>

namespace svc {
namespace {

constexpr int kBlockRounds = 2;
constexpr int kFinalRounds = 4;
constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

struct State {
  std::uint64_t v0, v1, v2, v3;

  void Round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void Add(std::uint64_t word) {
    v3 ^= word;
    for (int i = 0; i < kBlockRounds; ++i) Round();
    v0 ^= word;
  }
  std::uint64_t Finish() {
    for (int i = 0; i < kFinalRounds; ++i) Round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

}  // namespace

SipTag SipHash128(const SipKey& key, std::span<const std::uint8_t> bytes) {
  State state{.v0 = 0x736f6d6570736575ULL ^ key[0],
              .v1 = 0x646f72616e646f6dULL ^ key[1] ^ 0xee,
              .v2 = 0x6c7967656e657261ULL ^ key[0],
              .v3 = 0x7465646279746573ULL ^ key[1]};
  const std::size_t words = bytes.size() / kWordBytes;
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i * kWordBytes, kWordBytes);
    state.Add(word);
  }
  std::uint64_t last = std::uint64_t{bytes.size()} << 56U;
  for (std::size_t i = words * kWordBytes; i < bytes.size(); ++i) {
    last |= std::uint64_t{bytes[i]} << (8 * (i % kWordBytes));
  }
  state.Add(last);
  state.v2 ^= 0xee;
  const std::uint64_t low = state.Finish();
  state.v1 ^= 0xdd;
  return {low, state.Finish()};
}

SipKey DeriveKey(const SipKey& key, std::string_view purpose) {
  return SipHash128(key, {reinterpret_cast<const std::uint8_t*>(purpose.data()), purpose.size()});
}

}  // namespace svc
