// Picking from a vocabulary of logits without sorting it. Pure; any thread.
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

// The largest of all, or of those allowed; the first of equal ones. kNoToken: none is allowed.
// kBrokenLogits: an allowed one is NaN or infinity.
Token LargestLogit(std::span<const float> logits, const TokenSet* allowed);

enum class Ranking {
  kDistinct,
  kTied,    // equal logits leave open which they are or in which order they stand
  kBroken,  // an allowed logit is NaN or infinity; *ranked is empty
};

// The `count` largest, largest first; fewer where fewer are allowed. REQUIRES: count > 0
Ranking LargestLogits(std::span<const float> logits, const TokenSet* allowed, std::size_t count,
                      std::vector<RankedToken>* ranked);

}  // namespace svc
