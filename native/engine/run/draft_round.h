// Speculative decoding within a step: its draft rows, and whether they paid (draft/speculation.h).
//
// Drafts come from a generation's own text (draft/prompt_lookup.h) and from a draft model
// (draft/drafter.h), whichever is expected to be accepted more often. They use cells that are free
// or can be evicted, and return after the step those that were not accepted.
//
// The draft model. Each generation that decodes is first given as many hypothetical drafts as could
// be used, with the acceptance rate expected of them and their cost. If ChooseDrafts would take
// any, the model makes the first one. Then its real probability is known and its cost is spent, and
// the question is asked again, until no further draft would be taken. So certain text is drafted
// far, and uncertain text hardly at all.
//
// Before it can draft, the model has to prefill the generation's text. That is done in pieces that
// take no longer than a step, so generations beside it decode at half speed for a while at most;
// and it is begun only when the budget (draft/draft_budget.h) covers all of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/draft/draft_budget.h"
#include "engine/draft/drafter.h"
#include "engine/draft/speculation.h"
#include "engine/draft/tie_guard.h"
#include "engine/model/decoder.h"
#include "engine/run/admission.h"
#include "engine/run/padding.h"
#include "engine/run/step.h"
#include "engine/run/step_costs.h"

namespace svc {

// Owner and thread: the Loop. All pointers must outlive it.
class DraftRound {
 public:
  // `drafter`: the draft model, or null.
  DraftRound(std::unique_ptr<Drafter> drafter, Decoder* decoder, const StepCosts* costs,
             const Admission* admission, const Padding* padding);

  // Measures the draft model.
  void Measure();
  void SetThreads(int threads);
  // The decoder's cache has grown to this number of cells.
  void Grow(std::uint32_t cells);
  // The generation has left the cache.
  void Release(const Generation& generation);

  // Before each step of the loop, in the cache or in the lane.
  void Begin();
  // Adds drafts to a step in which all parts decode.
  void Draft(Step* step, const std::atomic<bool>& abort);
  // The next step gets no drafts.
  void SkipNext() { is_skipped_ = true; }

  // True if the row, computed beside drafts, draws the token that it would draw alone
  // (tie_guard.h). If not, it has to be computed again, and is, without drafts.
  bool Believes(const Step& step, const StepPart& part, std::size_t row);
  // `right`: number of the part's drafts that were accepted.
  void Accepted(const StepPart& part, std::uint32_t right);

  // After each step: settles the draft model's budget. `step_ms`: time of the step with sampling.
  void Settle(const Step& step, double step_ms);

 private:
  // Drafts that may be made for the parts of a step by the draft model.
  struct Request {
    std::vector<Drafter::Line> lines;  // of each part: its text and what was drafted
    std::vector<Proposal> hoped;       // of each part: drafts that were made or are hypothetical
    std::vector<std::uint32_t> most;   // of each part: drafts that it could use from the model
  };

  double CostOfDecoding(const Step& step, std::uint32_t rows) const;
  std::vector<std::uint32_t> Choose(const Step& step, const DraftLimits& limits,
                                    const std::vector<Proposal>& proposals) const;
  std::uint32_t MostDrafts(const Generation& generation, std::uint32_t most) const;
  std::vector<Proposal> Proposals(const Step& step, std::uint32_t most);
  void AddRows(Step* step, const std::vector<Proposal>& proposals,
               const std::vector<std::uint32_t>& chosen);

  void AskModel(const Step& step, const DraftLimits& limits, const std::atomic<bool>& abort,
                std::vector<Proposal>* proposals);
  Request MakeRequest(const Step& step, const DraftLimits& limits,
                      const std::vector<Proposal>& proposals, double unit_ms);
  std::vector<std::size_t> PartsToAsk(const Step& step, const DraftLimits& limits,
                                      const std::vector<Proposal>& proposals,
                                      const std::atomic<bool>& abort, Request* request);
  void DraftInTurns(const Step& step, const DraftLimits& limits, const std::atomic<bool>& abort,
                    std::vector<std::size_t> asking, Request* request);
  bool MayAsk(const Generation& generation, std::uint32_t lack, bool expected);
  bool CatchUp(const Generation& generation, std::uint32_t lack, const std::atomic<bool>& abort);

  const std::unique_ptr<Drafter> drafter_;  // null: there is none
  Decoder* const decoder_;
  const StepCosts* const costs_;
  const Admission* const admission_;
  const Padding* const padding_;
  TieGuard ties_;
  TieGuard adapter_ties_;  // of steps with LoRA adapters, whose products round otherwise
  DraftBudget budget_;
  bool is_skipped_ = false;                  // the next step gets no drafts
  std::optional<GenerationId> catching_up_;  // generation whose text the model is prefilling
  double unit_ms_ = 0;   // milliseconds of a unit of CostOfDecoding, where the cost is not measured
  double plain_ms_ = 0;  // of a step without drafts, when the model was last asked; 0: not known

  // ---- in this step ----
  double drafting_ms_ = 0;          // spent by the draft model
  std::uint32_t model_drafts_ = 0;  // its drafts in the step's rows
  std::uint32_t model_right_ = 0;   // of these, accepted
};

}  // namespace svc
