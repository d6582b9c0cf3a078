// Settings of the sampler.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/field.h"
#include "engine/base/ids.h"

namespace svc {

// Defaults are llama.cpp's. So is the order: logit bias, penalties, DRY, top-k, typical, top-p,
// min-p, XTC, temperature, draw. With Mirostat: logit bias, penalties, DRY, temperature, Mirostat.
struct SamplingParams {
  float temperature = 0.80F;  // 0: greedy
  // The temperature varies by this much around `temperature`, with the entropy of the candidates;
  // 0: not at all.
  float dynatemp_range = 0.0F;
  float dynatemp_exponent = 1.0F;  // how the entropy maps to the temperature
  int top_k = 40;                  // 0: all
  float typical_p = 1.0F;          // 1: off
  float top_p = 0.95F;             // 1: off
  float min_p = 0.05F;             // 0: off
  // Probability that all candidates above the threshold but the least likely are left out.
  float xtc_probability = 0.0F;  // 0: off
  float xtc_threshold = 0.1F;    // above 0.5: off
  int mirostat = 0;              // 0: off; 1 or 2: version
  float mirostat_tau = 5.0F;     // target surprise, in bits
  float mirostat_eta = 0.1F;     // learning rate
  int repeat_last_n = 64;        // tokens that the three penalties look back at
  float repeat_penalty = 1.0F;
  float frequency_penalty = 0.0F;
  float presence_penalty = 0.0F;
  // DRY: a token that extends a repetition of `length` tokens loses
  // multiplier * base ^ (length - allowed length) of its logit.
  float dry_multiplier = 0.0F;  // 0: off
  float dry_base = 1.75F;
  int dry_allowed_length = 2;   // tokens
  int dry_penalty_last_n = 64;  // tokens that are searched for repetitions
  // A repetition does not go across these texts.
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  std::optional<std::uint32_t> seed;  // absent: drawn from the system's entropy
  std::vector<std::pair<Token, float>> logit_bias;

  SVC_FIELDS(SamplingParams, (temperature), (dynatemp_range), (dynatemp_exponent), (top_k),
             (typical_p), (top_p), (min_p), (xtc_probability), (xtc_threshold), (mirostat),
             (mirostat_tau), (mirostat_eta), (repeat_last_n), (repeat_penalty), (frequency_penalty),
             (presence_penalty), (dry_multiplier), (dry_base), (dry_allowed_length),
             (dry_penalty_last_n), (dry_sequence_breakers), (seed), (logit_bias))
};

}  // namespace svc
