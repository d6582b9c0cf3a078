// Tokens and states for tests of the prefix cache's disk tier.
#pragma once

#include <numeric>
#include <vector>

#include "engine/cache/prefix_file.h"
#include "test.h"

namespace svc::test {

using Tokens = std::vector<Token>;

inline Tokens Sequence(Token first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Returns bytes that differ for each piece. The default length is odd, a multiple of no block size.
inline StateBytes StateOf(const PrefixHead& head, std::size_t bytes = 5003) {
  StateBytes state(bytes);
  std::uint64_t word = head.begin + 31 * head.tokens.size() + head.tokens.back();
  for (std::uint8_t& each : state) {
    word = word * 6364136223846793005ULL + 1442695040888963407ULL;
    each = static_cast<std::uint8_t>(word >> 56U);
  }
  return state;
}

}  // namespace svc::test
