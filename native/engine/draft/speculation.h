// Chooses how many draft tokens a step computes beside the rows of its sequences.
//
// A draft row costs little beside a row that must be computed anyway, because a step is bound by
// reading the weights; an accepted draft saves a whole step. Drafts do not change the text: the
// sampler draws at each row as it would have drawn, and the draft only decides whether the next row
// can be used (Leviathan et al., "Fast inference from transformers via speculative decoding", 2023,
// with a deterministic draft). So only cost matters: of all ways to add drafts to the batch, take
// the one with the most tokens per millisecond,
//
//   (sequences + sum over the drafts of the probability that they and all before them are accepted)
//   / (predicted cost of the step + cost of drafting them)
//
// and no drafts at all unless the gain exceeds the prediction error. Quantized kernels process rows
// in groups, so two drafts may cost more than three: all counts are evaluated, not only until the
// ratio falls. Few sequences gain much; with many, whose rows already fill the step, no drafts are
// chosen.
//
// Prompt lookup drafts are free. A draft model's are not, so the same question is asked before each
// of its drafts, with the expected values (run/draft_round.cc); once drafted, their cost is spent
// and no longer counts.
//
// A pure function: no threads, no clock, no model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/draft/prompt_lookup.h"

namespace svc {

// Maximum drafts for one generation in one step.
inline constexpr std::uint32_t kMostDrafts = 15;

// A decoding sequence and the drafts for its next tokens.
struct Proposal {
  std::vector<DraftToken> drafts;
  // Probability that a row computed beside others is usable at all (tie_guard.h).
  double trust = 1;
  // True: drafts of the draft model (drafter.h); false: of prompt lookup.
  bool by_model = false;
};

struct DraftLimits {
  std::uint32_t rows = 0;  // maximum rows of the step
  double ms = 0;           // maximum time of the step, unless it takes longer without drafts
};

// Returns the number of drafts to use of each proposal, from its first on. `cost`: cost of a step
// of `rows` rows, all with outputs, in the unit of DraftLimits::ms.
std::vector<std::uint32_t> ChooseDrafts(std::span<const Proposal> proposals,
                                        const DraftLimits& limits,
                                        const std::function<double(std::uint32_t rows)>& cost);

}  // namespace svc
