// Compares the tokens of two greedy answers whose rows were computed in other batches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/types/output.h"

namespace svc::test {

// Lead of the best token, in logits, below which other rows in the batch may make another one win.
// batch_test.cc says why, and measures 0.03 to 0.08.
inline constexpr float kNearTie = 0.3F;

// True if both are the same tokens, or are so up to one of a near tie. Behind it the answers may
// differ. Both have the log probabilities of at least the two best tokens.
inline bool SameButForTies(const std::vector<TokenLogprobs>& expected,
                           const std::vector<TokenLogprobs>& actual) {
  const std::size_t common = std::min(expected.size(), actual.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (expected[i].chosen.bytes == actual[i].chosen.bytes) continue;
    const std::vector<TokenLogprob>& top = expected[i].top;
    return top.size() > 1 && top[0].logprob - top[1].logprob < kNearTie;
  }
  return !expected.empty() && expected.size() == actual.size();
}

}  // namespace svc::test
