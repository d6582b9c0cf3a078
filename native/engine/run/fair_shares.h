// What each share (share.h) holds of the cache and of a step, and who goes first between shares.
//
// The fair queue counts the tokens of each share. While a share that runs far fewer generations
// than another waits for a first token, a step has that prompt and one row of each share that
// decodes, and no other prompt. So the step takes no longer than if each share had one stream. A
// share with more than its part of the cache gives up its most junior generation for a share that
// lacks room.
//
// With a single share none of this has an effect.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/model/decoder.h"
#include "engine/run/fair_queue.h"
#include "engine/run/generation.h"
#include "engine/run/scheduler.h"

namespace svc {

// Owner and thread: the Loop.
class FairShares {
 public:
  // The decoder must outlive it.
  explicit FairShares(const Decoder* decoder) : decoder_(decoder) {}

  // Counts what each share holds. Before each step.
  void Count(const Generations& generations);
  // As of Count: the order between shares matters to a generation that waits for the cache.
  bool MayReorder() const { return several() && has_waiting_; }
  bool several() const { return loads_.size() > 1; }

  double CounterOf(ShareId share) const { return queue_.CounterOf(share); }
  void Charge(ShareId share, double tokens) { queue_.Charge(share, tokens); }
  // Shares whose new requests need not abort a running step.
  std::vector<ShareId> Known() const { return queue_.Known(); }

  void Entered(const Generation& generation) { ++loads_[generation.scope.owner].sequences; }
  void Leaving(const Generation& generation);

  // The share that has to give a generation back for the candidate, which lacks a sequence or
  // cells. Never one that has a single generation left: it would come back and do the same.
  std::optional<ShareId> MakesWayFor(const Generation& candidate, bool lacks_sequence) const;
  // The share with the most cells beyond its part, if it has more than one generation.
  std::optional<ShareId> Largest() const;

  // Puts generations whose first token is due before the others, and returns what the step leaves
  // to them.
  StepYield YieldTo(std::vector<Generation*>* candidates) const;
  // Orders generations that decode, where not all fit into a step: one of each share, then the
  // shares in turn by their counters. REQUIRES: within a share, longest wait first.
  void OrderDecoding(std::vector<Generation*>* decoding) const;

 private:
  struct Load {
    std::uint32_t sequences = 0;
    std::uint32_t cells = 0;
  };
  Load LoadOf(ShareId share) const;
  // A share's fair part of sequences or cells.
  std::uint32_t PartOf(std::uint32_t total) const {
    return total / static_cast<std::uint32_t>(loads_.size());
  }
  // Returns the share that holds the most, among those with several generations and a counter of at
  // least `least_counter`; absent: none holds more than `most`.
  std::optional<ShareId> LargestAbove(std::uint32_t Load::*held, std::uint32_t most,
                                      double least_counter) const;
  bool IsDue(const Generation& generation) const;

  const Decoder* const decoder_;
  FairQueue queue_;
  std::map<ShareId, Load> loads_;  // of shares with requests
  bool has_waiting_ = false;       // a generation that is not paused waits for the cache
};

}  // namespace svc
