// SipHash-2-4 with 128 bits of output: a message authentication code for data that another program
// may have written. Source: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF",
// 2012, and the reference implementation's siphash.c (double mode). The key must be secret.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace svc {

using SipKey = std::array<std::uint64_t, 2>;
using SipTag = std::array<std::uint64_t, 2>;

SipTag SipHash128(const SipKey& key, std::span<const std::uint8_t> bytes);

// The same tag for bytes that come in pieces.
class SipHasher {
 public:
  explicit SipHasher(const SipKey& key);

  // REQUIRES: the size of all earlier pieces is a multiple of 8.
  void Add(std::span<const std::uint8_t> bytes);
  // REQUIRES: not called before.
  SipTag Finish();

 private:
  void Round();
  void AddWord(std::uint64_t word);

  std::uint64_t v0_, v1_, v2_, v3_;
  std::uint64_t bytes_ = 0;
  std::uint64_t last_ = 0;  // the bytes after the last whole word
};

// Returns a key for one purpose, so that tags made for different purposes never match.
SipKey DeriveKey(const SipKey& key, std::string_view purpose);

}  // namespace svc
