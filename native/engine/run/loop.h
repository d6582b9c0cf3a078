// All generations of one model, advanced a step at a time.
//
//   Add, SetPaused, Cancel ──► [ Plan ──► Compute ──► TakeOutputs ] ──► ...
//
// Plan decides which generations are in the cache (admission.h) and what the next step computes
// (scheduler.h, fair_shares.h). Compute computes it and samples. In between the caller may find
// that every request of the batch was cancelled, and skip it.
//
// A long prompt is computed in the decoder's lane, where there is one (prefiller.h): Compute then
// advances it by a layer or so, or makes a step for the generations beside it (lane_turns.h).
//
// A step that only decodes may get rows for draft tokens (draft_round.h). Drafts that are accepted
// need no step of their own; the text is the same without them.
//
// Generations with different LoRA adapters share the cache but not a step (adapter_turns.h).
//
// Outputs wait in the outbox (outbox.h) until the caller takes them.
//
// A failure of the device fails the generations of that batch; the others continue.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/ids.h"
#include "engine/cache/prefix_store.h"
#include "engine/draft/drafter.h"
#include "engine/model/cost_model.h"
#include "engine/model/decoder.h"
#include "engine/run/adapter_turns.h"
#include "engine/run/admission.h"
#include "engine/run/draft_round.h"
#include "engine/run/fair_shares.h"
#include "engine/run/generation.h"
#include "engine/run/growth.h"
#include "engine/run/lane_turns.h"
#include "engine/run/outbox.h"
#include "engine/run/padding.h"
#include "engine/run/prefiller.h"
#include "engine/run/rate_meter.h"
#include "engine/run/scheduler.h"
#include "engine/run/step.h"
#include "engine/run/step_costs.h"
#include "engine/types/engine_stats.h"
#include "engine/types/output.h"

namespace svc {

struct LoopOptions {
  CostModel cost;
  // Time to spend on measuring the cost of steps. 0: `cost` is used.
  double measure_ms = 0;
  StepTargets targets;
  Now now = Clock::now;
  // Empty: the number of threads never changes.
  CpuClock cpu_ms;
  // Disk tier of the prefix cache. Null: there is none.
  std::unique_ptr<PrefixStore> store;
  // Draft model. Null: there is none.
  std::unique_ptr<Drafter> drafter;
};

// Whose requests the planned step may be aborted for, and what that costs.
struct StepOwner {
  bool may_yield = false;
  double predicted_ms = 0;  // 0: not known
  std::uint32_t rows = 0;
  // Shares whose new requests do not abort it: they have requests, or more tokens than others.
  std::vector<ShareId> known = {};
};

// Owner: the Runner. Thread: one at a time.
class Loop {
 public:
  Loop(std::unique_ptr<Decoder> decoder, LoopOptions options);
  // Replaces a loop that an exception has left half done: no generations, empty cells. Keeps what
  // was learned and counted, and the disk tier; has no draft model.
  static std::unique_ptr<Loop> Anew(std::unique_ptr<Loop> broken);

  // Before anything else, on the thread that will compute: some GPU drivers accept no other thread.
  void Measure();

  // REQUIRES: no generation alive has its id.
  void Add(Submission submission);
  // Ids of generations that have ended are ignored.
  void SetPaused(GenerationId id, bool paused);
  void Cancel(GenerationId id);
  void CancelAll();

  // The answer to a CellDemand among the outputs (growth.h).
  void GrantCells(std::uint32_t cells, std::string refusal);

  // False also where Plan has found nothing to compute and nothing has changed since.
  bool HasWork() const;
  // Prepares a step; false: there is nothing to compute. `beside_media`: a picture or sound is
  // computed between the steps (media_turns.h).
  bool Plan(bool beside_media = false);
  const std::vector<GenerationId>& planned() const { return step_.planned; }
  StepOwner step_owner() const;
  // True if a generation got no text in the last step (lane_turns.h), so the next step is due soon.
  bool was_silent() const { return lane_turns_.is_silent(); }
  // Charges a share for the rows of a step that was aborted for its request.
  void Charge(ShareId share, double tokens) { shares_.Charge(share, tokens); }
  // Computes what was planned. `abort` may be set by another thread at any time.
  void Compute(const std::atomic<bool>& abort);

  // ---- the disk tier (prefix_tiers.h) ----

  // `listener` is called on a thread of its own when TakeFetched or SaveOne may have something to
  // do. Before anything else.
  void OnStoreChange(std::function<void()> listener) {
    admission_.OnStoreChange(std::move(listener));
  }
  void TakeFetched();
  // For when there is no work: copies one prefix that is in memory alone, to be written.
  bool WantsToSave() const { return admission_.WantsToSave(); }
  bool MayLoseUnsaved() const { return admission_.MayLoseUnsaved(); }
  void SaveOne() { admission_.SaveOne(); }
  // Saves all of them until the deadline; the last write may continue after it.
  void SaveUntil(Clock::time_point deadline) { admission_.SaveUntil(deadline); }

  // True if the outputs need not be taken before the planned step, or another like the last one.
  bool MayWait() const;
  // Outputs since the last call.
  std::vector<GenerationOutput> TakeOutputs();

  // All but step_age_ms.
  EngineStats stats() const;

 private:
  Generation* Find(GenerationId id);
  void Cancel(Generation& generation);
  Demand DemandOf(const Generation& generation) const;

  // ---- planning ----
  bool Grow();
  std::vector<Generation*> Candidates(StepYield* yield);
  void PlanLane(const std::vector<Generation*>& candidates);

  // ---- computing ----
  void ComputeStep(const std::atomic<bool>& abort);
  void ComputeLane(const std::atomic<bool>& abort);
  void EndLaneBatch(PrefillLane::Progress progress, StepStats& stats);
  DecodeOutcome Decode(const std::atomic<bool>& abort, StepStats& stats);
  void Recover(DecodeOutcome outcome);
  void RemoveRows(const StepPart& part);
  bool MayBeRepeated() const;
  void Learn(const StepStats& stats, std::uint32_t outputs, double cpu_ms);
  void UseThreads();
  void Count(const StepStats& stats);

  // ---- tokens and text ----
  void Advance(const StepPart& part);
  bool Sample(Generation& generation, const float* logits, std::string* text);
  bool Append(Generation& generation, Token token, bool whole, std::string* text);
  void EndWithoutToken(Generation& generation, Token token, std::string text);
  void Emit(Generation& generation, std::string text);
  void Finish(Generation& generation, GenerationOutput output, bool keep_prefix = true);
  void Fail(Generation& generation, const char* why);

  std::unique_ptr<Decoder> decoder_;
  const Now now_;
  const double measure_ms_;
  EngineStats counts_;  // the counters of stats()
  Generations generations_;
  StepCosts costs_;
  FairShares shares_;
  Prefiller prefiller_;
  Admission admission_;
  Growth growth_;
  Padding padding_;
  DraftRound drafts_;
  LaneTurns lane_turns_;
  AdapterTurns adapter_turns_;
  Step step_;
  bool may_plan_ = true;         // something has changed since Plan found nothing to compute
  bool is_beside_lane_ = false;  // generations want steps beside the batch in the lane
  Outbox outbox_;
  double last_step_ms_ = 0;  // with sampling, which waits for a GPU
  RateMeter rate_;
};

}  // namespace svc
