// Why a sampler drew no token.
#pragma once

#include "engine/base/ids.h"
#include "engine/base/status.h"
#include "engine/model/decoder.h"

namespace svc {

// `token`: what Sampler::Sample returned. REQUIRES: it is negative.
inline Status WhyNoToken(Token token) {
  switch (token) {
    case kBrokenLogits:
      return {StatusCode::kInternal,
              "the model computed values that are not numbers (NaN or infinity); try another "
              "quantization of it, or engine.gpu_layers 0 if it runs on a GPU"};
    case kSlowGrammar:
      return {StatusCode::kInvalidRequest,
              "following the grammar takes too long; make it simpler or less ambiguous", "grammar"};
    default:
      return {StatusCode::kInvalidRequest,
              "the grammar allows no token of this model's vocabulary here", "grammar"};
  }
}

}  // namespace svc
