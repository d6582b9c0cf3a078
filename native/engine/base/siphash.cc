#include "engine/base/siphash.h"

#include <bit>
#include <cstddef>
#include <cstring>

namespace svc {
namespace {

constexpr int kBlockRounds = 2;
constexpr int kFinalRounds = 4;
constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

}  // namespace

SipHasher::SipHasher(const SipKey& key)
    : v0_(0x736f6d6570736575ULL ^ key[0]),
      v1_(0x646f72616e646f6dULL ^ key[1] ^ 0xee),
      v2_(0x6c7967656e657261ULL ^ key[0]),
      v3_(0x7465646279746573ULL ^ key[1]) {}

void SipHasher::Round() {
  v0_ += v1_;
  v1_ = std::rotl(v1_, 13) ^ v0_;
  v0_ = std::rotl(v0_, 32);
  v2_ += v3_;
  v3_ = std::rotl(v3_, 16) ^ v2_;
  v0_ += v3_;
  v3_ = std::rotl(v3_, 21) ^ v0_;
  v2_ += v1_;
  v1_ = std::rotl(v1_, 17) ^ v2_;
  v2_ = std::rotl(v2_, 32);
}

void SipHasher::AddWord(std::uint64_t word) {
  v3_ ^= word;
  for (int i = 0; i < kBlockRounds; ++i) Round();
  v0_ ^= word;
}

void SipHasher::Add(std::span<const std::uint8_t> bytes) {
  // A copy, so that the compiler keeps the state in registers.
  SipHasher state = *this;
  state.bytes_ += bytes.size();
  const std::size_t words = bytes.size() / kWordBytes;
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i * kWordBytes, kWordBytes);
    state.AddWord(word);
  }
  for (std::size_t i = words * kWordBytes; i < bytes.size(); ++i) {
    state.last_ |= std::uint64_t{bytes[i]} << (8 * (i % kWordBytes));
  }
  *this = state;
}

SipTag SipHasher::Finish() {
  AddWord(last_ | bytes_ << 56U);
  v2_ ^= 0xee;
  for (int i = 0; i < kFinalRounds; ++i) Round();
  const std::uint64_t low = v0_ ^ v1_ ^ v2_ ^ v3_;
  v1_ ^= 0xdd;
  for (int i = 0; i < kFinalRounds; ++i) Round();
  return {low, v0_ ^ v1_ ^ v2_ ^ v3_};
}

SipTag SipHash128(const SipKey& key, std::span<const std::uint8_t> bytes) {
  SipHasher hasher(key);
  hasher.Add(bytes);
  return hasher.Finish();
}

SipKey DeriveKey(const SipKey& key, std::string_view purpose) {
  return SipHash128(key, {reinterpret_cast<const std::uint8_t*>(purpose.data()), purpose.size()});
}

}  // namespace svc
