// How many drafted tokens a step computes beside those that are known.
//
// A row that holds a draft costs little beside a row that must be computed anyway, because a step
// is bound by the weights it reads; and if the draft is what the model says, its token is had
// without a step of its own. What is said is not touched by it: the sampler draws at each row as it
// would have drawn, and a draft only decides whether the next row is of use (Leviathan et al.,
// "Fast inference from transformers via speculative decoding", 2023, with drafts that are certain
// of themselves). So the question is one of cost alone: of all ways to add drafts to the batch,
// take the one that says most tokens in a millisecond,
//
//   (sequences + sum over the drafts of the chance that they and all before them are right)
//   / (predicted cost of the step + that of drafting them)
//
// and none unless that gains more than the prediction errs. Quantised kernels take rows in groups,
// so that two drafts may be dearer than three: all counts are looked at, not only until it gets
// worse. With few sequences there is much to gain; with many, whose rows already fill the step,
// little, and then there are no drafts.
//
// What the text itself drafts costs nothing. What a draft model drafts does, so the same question
// is asked before each of its drafts, with what is expected of it (loop_drafter.cc); once it has
// drafted, that is paid and no longer part of it.
//
// A pure function: no threads, no clock, no model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/draft/prompt_lookup.h"

namespace svc {

// In one step, for one generation.
inline constexpr std::uint32_t kMostDrafts = 15;

// A sequence that decodes, with what it may say next.
struct Proposal {
  std::vector<DraftToken> drafts;
  // The chance that what is computed for a row beside others is of use at all (see tie_guard.h).
  double trust = 1;
  // By the draft model (drafter.h); else by the text itself.
  bool by_model = false;
};

struct DraftLimits {
  std::uint32_t rows = 0;  // of the step
  double ms = 0;           // that it may take, if it does not take more without any draft
};

// Of each proposal so many drafts, from the first on. `cost`: of a step of so many rows, all of
// them with outputs; in any unit if that of the limit is the same.
std::vector<std::uint32_t> ChooseDrafts(std::span<const Proposal> proposals,
                                        const DraftLimits& limits,
                                        const std::function<double(std::uint32_t rows)>& cost);

}  // namespace svc
