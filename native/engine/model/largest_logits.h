// Selects the largest logits of a vocabulary without sorting it. Pure; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/base/token_set.h"
#include "engine/model/decoder.h"

namespace svc {

struct RankedToken {
  Token token = 0;
  float logit = 0;
};

// Token with the largest logit, among all or the allowed tokens; the first of equal ones. kNoToken:
// no token is allowed. kBrokenLogits: an allowed logit is NaN or infinity.
Token LargestLogit(std::span<const float> logits, const TokenSet* allowed);

enum class Ranking {
  kDistinct,
  kTied,    // equal logits leave the selection or its order undetermined
  kBroken,  // an allowed logit is NaN or infinity; *ranked is empty
};

// Writes the `count` largest tokens to *ranked, largest first; fewer if fewer are allowed.
// REQUIRES: count > 0
Ranking LargestLogits(std::span<const float> logits, const TokenSet* allowed, std::size_t count,
                      std::vector<RankedToken>* ranked);

}  // namespace svc
