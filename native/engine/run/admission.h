// Which generations are in the cache, and in which order they go.
//
// A generation waits (no sequence id) or is in the cache. Waiting generations are admitted in the
// order of scheduler.h, each when a sequence id and cells for all its tokens are free or can be
// freed. For that, paused generations and less urgent prompts that are still being computed go back
// to wait. No generation overtakes one that waits for room.
//
// Tokens that the prefix cache has need not be computed. While another generation, the leader,
// computes a prompt with the same beginning, the follower waits for that prompt's chunks to appear
// in the prefix cache; the leader is then as urgent as its most urgent follower.
//
// A generation that decodes takes one cell a step. When the cells run out, unused prefixes are
// evicted; then generations are preempted, paused ones first, then the most junior one. The tokens
// of a preempted generation go to the prefix cache; those that are evicted before it returns are
// computed again. Preemption delays a generation. It changes the text only as far as rounding does,
// because the cells may be in another order. The most senior generation that is not paused is never
// preempted, so there is always progress.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/cache/prefix_cache.h"
#include "engine/cache/prefix_tiers.h"
#include "engine/model/decoder.h"
#include "engine/run/fair_shares.h"
#include "engine/run/generation.h"
#include "engine/run/prefiller.h"
#include "engine/run/step_costs.h"

namespace svc {

// True if sequence ids are left beside those of generations: for the prefix cache, and for padding.
bool HasSpareIds(const Decoder& decoder);
// The ids in [max_sequences, EndOfCacheIds) are the prefix cache's, kPaddingIds behind them are for
// padding. Without spare ids all belong to generations.
SequenceId EndOfCacheIds(const Decoder& decoder);

// Owner and thread: the Loop.
class Admission {
 public:
  // What admission works with. All of it must outlive the Admission.
  struct Context {
    Decoder* decoder;
    const Generations* generations;
    FairShares* shares;
    const Prefiller* prefiller;
    const StepCosts* costs;
    EngineStats* counts;
    Now now;
    // Called when a generation leaves the cache, before its cells are freed.
    std::function<void(const Generation&)> on_leave;
  };
  Admission(Context context, std::unique_ptr<PrefixStore> store);

  // A new generation, for which there are enough cells. Starts to read what the disk tier has of
  // its prompt.
  void Arrived(Generation& generation);
  // The decoder's cache has grown. REQUIRES: `outgrown` of all generations is up to date.
  void Grown();
  // Something has changed that may let a waiting generation in.
  void Changed() { may_admit_ = true; }
  // Admits as many waiting generations as there is room for.
  void Admit();
  // Preempts until each generation that decodes has a cell, and a prompt at least one.
  void MakeRoom();
  // False: the generation is the only one in the cache.
  bool PreemptOne();
  // `keep_prefix`: its computed tokens go to the prefix cache. No effect if it is not in the cache.
  void Leave(Generation& generation, bool keep_prefix);
  // Empties the cells. Until the next SetLane the bound on copies leaves room for all that the
  // generations have computed. REQUIRES: cells can be shared.
  void SwapOutAll();

  // Generations that want to continue, in the cache or waiting for it, the most urgent first.
  std::vector<Generation*> InOrder(bool in_cache) const;

  // ---- cells ----

  std::uint32_t FreeCells() const { return tiers_.FreeCells(own_cells_); }
  // Cells that are free or can be evicted.
  std::uint32_t AvailableCells() const { return FreeCells() + cache_.evictable(); }
  // Evicts until `rows` cells are free. False: there are too few.
  bool FreeCellsFor(std::uint32_t rows);
  // Evicts all unused prefixes. False: there are none.
  bool EvictAll();

  // ---- what a step has computed ----

  // The generation has `rows` more of its tokens in the cache, of its prompt or not.
  void Computed(Generation& generation, std::uint32_t rows);
  // Counts one more computed token as the generation's (an accepted draft), or one less (a row that
  // has to be computed again).
  void Accept(Generation& generation);
  void Reject(Generation& generation);
  // After a failed step: counts the generation's cells in the decoder again.
  void Recount(Generation& generation);
  // Removes a generation whose cells may be damaged from all tiers of the prefix cache.
  void Discard(const Generation& generation) {
    tiers_.Discard(generation.scope, generation.tokens);
  }
  // Rows of its next step, at most `rows`. Where the memory cannot be cut, a prompt's step ends
  // where its state is to be kept.
  std::uint32_t RowsToCheckpoint(const Generation& generation, std::uint32_t rows) const;

  // Bounds the swapped-out prefixes beside a lane for this number of tokens.
  void SetLane(std::uint32_t tokens) { cache_.SetMaxCopied(context_.decoder->max_copied(tokens)); }

  // ---- the disk tier (prefix_tiers.h) ----

  // `listener` is called on a thread of its own when TakeFetched or SaveOne may have something to
  // do. Before anything else.
  void OnStoreChange(std::function<void()> listener);
  std::unique_ptr<PrefixStore> TakeStore() { return tiers_.TakeStore(); }
  // Takes over prefixes that have been read. Returns the generations that need not wait any more.
  std::vector<GenerationId> TakeFetched();
  // Evicts checkpoints until states of `bytes` in all can be copied. False: there is no room.
  bool MakeRoomForStates(std::uint64_t bytes) { return tiers_.MakeRoomForStates(bytes); }
  bool WantsToSave() const { return tiers_.WantsToSave(); }
  bool MayLoseUnsaved() const { return tiers_.MayLoseUnsaved(); }
  void SaveOne() { tiers_.SaveOne(FreeSequence(), own_cells_); }
  // Saves all until the deadline; the last write may continue after it.
  void SaveUntil(Clock::time_point deadline);

  // Adds what the cache holds to the statistics.
  void AddTo(EngineStats* stats) const;

 private:
  // Counter of its share, then its deadline; smaller goes first.
  using Urgency = std::pair<double, double>;

  Urgency UrgencyOf(const Generation& generation) const;
  double Deadline(const Generation& generation) const;
  std::uint32_t Cached(const Generation& generation) const;
  SequenceId FreeSequence() const {
    return free_sequences_.empty() ? -1 : *free_sequences_.begin();
  }
  bool FollowsAnother(const Generation& candidate, std::uint32_t cached);
  bool Enter(Generation& candidate);
  void Entered(Generation& candidate, std::uint32_t known);
  bool MakeWayOfPaused();
  bool MakeWayOfPrompt(const Generation& candidate);
  bool MakeWayOfShare(const Generation& candidate);
  Generation* JuniorOf(std::optional<ShareId> share) const;
  void Preempt(Generation& generation);
  void Publish(Generation& generation);

  const Context context_;
  const bool has_spare_ids_;
  PrefixCache cache_;
  PrefixTiers tiers_;
  std::set<SequenceId> free_sequences_;
  std::uint32_t own_cells_ = 0;  // of all generations, without those of the prefix cache
  bool may_admit_ = false;       // something has changed since Admit found no more room
};

}  // namespace svc
