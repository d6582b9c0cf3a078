// All generations of one model, advanced a step at a time.
//
//   Add, SetPaused, Cancel ──► [ Plan ──► Compute ──► TakeOutputs ] ──► ...
//
// Plan decides who is in the cache and what the next step computes, Compute does it and samples.
// Between the two the caller may still find that nobody wants the batch, and leave it.
//
// Each time that outputs are handed on, threads and processes wake up all the way to the client,
// which costs as much as a step of a very small model does. So where steps are short, the text of
// some of them may be handed on together (MayWait).
//
// All generations live in one list in order of arrival. A generation is waiting (no sequence id) or
// in the cache. The waiting ones are admitted in the order that scheduler.h describes, each when a
// sequence id and cells for all its tokens are free or can be freed; for that, paused ones and less
// urgent prompts that are still being computed go back to wait. Nobody overtakes one that waits for
// room. What the prefix cache has of its tokens it need not compute. While another computes a
// prompt that begins like its own, it waits for that prompt's chunks to appear there instead of
// computing them too; the other one, the leader, is then as urgent as its most urgent follower.
//
// While a generation decodes it takes one cell a step. When the cells run out, prefixes that nobody
// uses are evicted; then generations are preempted, paused ones first, then the most junior: what
// they have computed goes to the prefix cache, and what is lost of it by the time they return is
// computed again. Preempting changes when a generation ends, never what it says. The most senior
// that is not paused is never preempted, so there is always one that moves on.
//
// A long prompt is computed in the decoder's lane, where there is one (prefill_lane.h): Compute
// then advances it by a layer or so, or makes a step for the others, as scheduler.h describes.
//
// Where what a text says next can be drafted, the drafts are computed in the rows behind its own,
// and those that turn out right need no step any more (speculation.h). They take cells only for the
// step, nobody makes way for them, and the text is the same. What the text itself does not tell, a
// draft model may (drafter.h): it is asked within Compute, because it computes, too.
//
// A failure of the device fails the generations of that batch; the others go on.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "engine/base/output_list.h"
#include "engine/base/request.h"
#include "engine/cache/prefix_cache.h"
#include "engine/cache/prefix_tiers.h"
#include "engine/draft/draft_budget.h"
#include "engine/draft/drafter.h"
#include "engine/draft/speculation.h"
#include "engine/draft/tie_guard.h"
#include "engine/model/cost_model.h"
#include "engine/model/decoder.h"
#include "engine/run/fair_queue.h"
#include "engine/run/generation.h"
#include "engine/run/prefiller.h"
#include "engine/run/rate_meter.h"
#include "engine/run/scheduler.h"
#include "engine/run/step_record.h"
#include "engine/run/thread_governor.h"

namespace svc {

struct LoopOptions {
  CostModel cost;
  // Spent on measuring the cost of steps. 0: `cost` is it.
  double measure_ms = 0;
  StepTargets targets;
  Now now = Clock::now;
  // Processor time of the process, in milliseconds. Absent: the threads stay as they are.
  std::function<double()> cpu_ms;
  // The prefix cache's disk tier. Absent: there is none.
  std::unique_ptr<PrefixStore> store;
  // The draft model. Absent: there is none.
  std::unique_ptr<Drafter> drafter;
};

// For whom the planned step may be aborted, and what that costs.
struct StepOwner {
  bool may_yield = false;
  double predicted_ms = 0;  // 0: not known
  std::uint32_t rows = 0;
  // Shares with requests or with more tokens than others: their arrivals abort nothing.
  std::vector<ShareId> known = {};
};

// Owner: the Runner. Thread: one at a time.
class Loop {
 public:
  Loop(std::unique_ptr<Decoder> decoder, LoopOptions options);
  // One without generations and with empty cells in the place of one that an exception has left
  // half done. It keeps what was learned and counted, and the disk tier; it has no draft model.
  static std::unique_ptr<Loop> Anew(std::unique_ptr<Loop> broken);

  // Before anything else, on the thread that will compute: drivers of GPUs may want no other one.
  void Measure();

  // REQUIRES: no generation alive has its id.
  void Add(Submission submission);
  // Ids of generations that have ended are ignored.
  void SetPaused(GenerationId id, bool paused);
  void Cancel(GenerationId id);
  void CancelAll();

  bool HasWork() const;
  // Prepares a step; false: there is nothing to compute.
  bool Plan();
  const std::vector<GenerationId>& planned() const { return planned_; }
  StepOwner step_owner() const;
  // Counts tokens that were computed in vain for a share's sake.
  void Charge(ShareId share, double tokens) { fair_.Charge(share, tokens); }
  // Computes what was planned. `abort` may be set by another thread at any time.
  void Compute(const std::atomic<bool>& abort);

  // ---- the disk tier (prefix_tiers.h) ----

  // Called on a thread of its own when TakeFetched or SaveOne may have something to do. Set it
  // before anything else.
  void OnStoreChange(std::function<void()> listener);
  void TakeFetched();
  // For when there is no work: a prefix that is in memory alone is copied, to be written.
  bool WantsToSave() const { return tiers_.WantsToSave(); }
  void SaveOne();
  // All of them, as far as time allows; the last write may go on.
  void SaveUntil(Clock::time_point deadline);

  // Whether what has been said need not be taken before the step that is planned, or another like
  // the last one: it is neither the first text of a generation nor its end, and soon there is more.
  bool MayWait() const;
  // What has been said and ended since the last call.
  std::vector<GenerationOutput> TakeOutputs();

  // All but step_age_ms.
  EngineStats stats() const;

 private:
  // A generation's part of the batch.
  struct Part {
    Generation* generation;
    std::uint32_t rows;
    std::size_t last_row;
    std::uint32_t drafts = 0;  // in the rows behind that
    bool by_model = false;     // these
  };

  // What a share holds in the cache.
  struct ShareLoad {
    std::uint32_t sequences = 0;
    std::uint32_t cells = 0;
  };
  // Its share's counter, then its deadline; smaller goes first.
  using Urgency = std::pair<double, double>;

  Generation* Find(GenerationId id);
  std::vector<Generation*> InOrder(bool in_cache) const;
  Demand DemandOf(const Generation& generation) const;
  double Remaining(std::uint32_t rows) const;
  double Deadline(const Generation& generation) const;
  std::uint32_t Cached(const Generation& generation) const;
  SequenceId FreeSequence() const {
    return free_sequences_.empty() ? -1 : *free_sequences_.begin();
  }

  void Admit();
  bool FollowsAnother(const Generation& candidate, std::uint32_t cached);
  bool EnterCache(Generation& candidate);
  bool MakeWayOfPaused();
  bool MakeWayOfPrompt(const Generation& candidate);
  void LeaveCache(Generation& generation, bool keep_prefix);
  void Publish(Generation& generation);
  void PublishPrompt(Generation& generation);
  void MakeRoom();
  bool PreemptOne();

  std::uint32_t RowsToCheckpoint(const Generation& generation, std::uint32_t rows) const;
  void ComputeStep(const std::atomic<bool>& abort);
  void TakeComputed(Generation& generation, std::uint32_t rows);
  std::uint32_t Padded(std::uint32_t rows, bool all_wanted) const;
  void Pad(bool all_wanted);
  DecodeOutcome Decode(const std::atomic<bool>& abort, StepStats& step);
  void Recover(DecodeOutcome outcome);
  void Learn(const StepStats& step, std::uint32_t outputs, double cpu_ms);
  void Count(const StepStats& step);
  void Record(std::uint64_t before);
  // Appends to *text. True: the generation has ended.
  bool Sample(Generation& generation, const float* logits, std::string* text);
  void EndWithoutToken(Generation& generation, Token token, std::string text);
  void Say(Generation& generation, std::string text);
  // Adds the token, with which the text is `whole`, and its text. True: the generation has ended.
  bool Take(Generation& generation, Token token, bool whole, std::string* text);
  void Finish(Generation& generation, GenerationOutput output, bool keep_prefix = true);
  void Tell(GenerationOutput output, bool awaited);

  bool FreeCellsFor(std::uint32_t rows);

  // ---- loop_shares.cc ----
  void CountShares();
  Urgency UrgencyOf(const Generation& generation) const;
  bool MakeWayOfShare(const Generation& candidate);
  std::optional<ShareId> LargestShare() const;
  // Of that share, or of all; null: none is in the cache. Paused ones count as the most junior.
  Generation* JuniorOf(std::optional<ShareId> share) const;
  void Preempt(Generation& generation);
  void CountLeaving(const Generation& generation);
  bool IsDue(const Generation& generation) const;
  StepYield YieldTo(std::vector<Generation*>* candidates) const;
  void OrderDecoding(std::vector<Generation*>* decoding) const;

  // ---- loop_prefill.cc ----
  void BeginPrefill(const std::vector<Generation*>& candidates);
  std::vector<Generation*> BesidePrefill(const std::vector<Generation*>& candidates) const;
  bool PrefillMayGoOn(const std::vector<Demand>& demands, const StepLimits& limits) const;
  void Prefill(const std::atomic<bool>& abort);
  void EndPrefill(PrefillLane::Progress progress, StepStats& step);

  // ---- loop_drafts.cc ----
  void Draft(const std::atomic<bool>& abort);
  // In the step that was planned.
  bool HasDrafts() const {
    return std::any_of(parts_.begin(), parts_.end(), [](const Part& p) { return p.drafts > 0; });
  }
  std::uint32_t MostDrafts(const Generation& generation, std::uint32_t most) const;
  std::vector<Proposal> Proposals(std::uint32_t most);
  double CostOfDecoding(std::uint32_t rows) const;
  void Advance(const Part& part);
  bool Believes(const Part& part, std::size_t row);
  void TakeBack(const Part& part, std::uint32_t length);

  // ---- loop_drafter.cc ----
  void AskDrafter(const DraftLimits& limits, const std::atomic<bool>& abort,
                  std::vector<Proposal>* proposals);
  bool MayAskDrafter(const Generation& generation, std::uint32_t lack, bool expected);
  bool CatchUp(const Generation& generation, std::uint32_t lack, const std::atomic<bool>& abort);
  void SettleDrafts();

  std::uint32_t FreeCells() const { return tiers_.FreeCells(own_cells_); }
  // Free, or free as soon as they are wanted.
  std::uint32_t AvailableCells() const { return FreeCells() + cache_.evictable(); }

  std::unique_ptr<Decoder> decoder_;
  const StepTargets targets_;
  const Now now_;
  const std::function<double()> cpu_ms_;
  const bool has_spare_ids_;  // for the prefix cache and for padding
  CostModel cost_;
  const double measure_ms_;
  StepRecord record_;  // where the cost is not measured
  std::uint32_t unrecorded_rows_ = 0;
  double unrecorded_ms_ = 0;
  ThreadGovernor threads_;
  PrefixCache cache_;
  PrefixTiers tiers_;

  std::vector<std::unique_ptr<Generation>> generations_;  // in order of arrival
  FairQueue fair_;
  std::map<ShareId, ShareLoad> loads_;  // of shares with requests, as of Plan
  bool waiting_ = false;                // somebody waits for the cache, as of then
  std::set<SequenceId> free_sequences_;
  std::uint32_t own_cells_ = 0;  // of all generations
  // Something has changed since Admit could do no more.
  bool may_admit_ = false;

  Prefiller prefiller_;
  double prefill_ms_ = 0;  // spent on the batch in the lane, and of the processors
  double prefill_cpu_ms_ = 0;
  bool beside_prefill_ = false;       // somebody wants steps beside the batch in the lane
  Clock::time_point decoding_since_;  // whoever decodes there waits since then
  std::uint64_t due_step_ = 0;        // the first after that
  bool silent_ = false;               // somebody has got no text from all since
  std::uint32_t silent_steps_ = 0;    // that came at once for those who got no text

  std::vector<Part> parts_;
  std::vector<GenerationId> planned_;
  std::vector<Row> rows_;
  std::uint32_t padding_ = 0;  // of them, at the end
  bool may_draft_ = true;      // in the next step
  TieGuard ties_;

  const std::unique_ptr<Drafter> drafter_;  // null: there is none
  DraftBudget budget_;
  std::optional<GenerationId> catching_up_;  // whose tokens the drafter is taking in
  double unit_ms_ = 0;                       // of CostOfDecoding; 0: not known
  double plain_ms_ = 0;                      // of a step without drafts, the last time it was asked
  double drafting_ms_ = 0;                   // in this step
  std::uint32_t model_drafts_ = 0;           // in this step, by the drafter; and of them, said
  std::uint32_t model_right_ = 0;

  OutputList outputs_;
  Clock::time_point told_at_;  // the first of them
  bool awaited_ = false;       // one of them may not wait
  double last_step_ms_ = 0;    // with its sampling, for which a GPU is waited for
  EngineStats counts_;         // the counters of stats()
  RateMeter rate_;
};

}  // namespace svc
