// The prompt that is being computed in the lane (prefill_lane.h).
//
// A prompt enters with what the decoder's cache has of it and is computed batch by batch. Each
// batch that is done is handed over to the prompt's sequence in that cache. Between two batches
// another prompt may take the lane.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/decoder.h"
#include "engine/model/prefill_lane.h"
#include "engine/run/fair_shares.h"
#include "engine/run/generation.h"
#include "engine/run/step_costs.h"

namespace svc {

// Owner: the Loop. Thread: the runner's.
class Prefiller {
 public:
  // The decoder and the costs must outlive it.
  Prefiller(Decoder* decoder, const StepCosts* costs) : decoder_(decoder), costs_(costs) {}

  // Before each step is planned: number of generations that decode.
  void SetDecoding(std::uint32_t decoding) { decoding_ = decoding; }
  // True if the prompt gets on sooner in the lane than in steps beside those that decode, is long
  // enough for the lane to pay, and short enough to fit. Never without a lane.
  bool Takes(const Generation& generation) const;
  // Opens a lane for the generation's prompt; it may be allocated now. False: there is none.
  // REQUIRES: Takes; no batch is being computed.
  bool Open(const Generation& generation);

  // The generation whose batch is being computed; null: none is.
  Generation* generation() const { return rows_ > 0 ? held_ : nullptr; }
  // Rows of that batch.
  std::uint32_t rows() const { return rows_; }
  int threads() const { return lane_->threads(); }
  // Time spent on that batch, and processor time of the process meanwhile, in milliseconds.
  double spent_ms() const { return spent_ms_; }
  double cpu_ms() const { return cpu_ms_; }

  // Begins the next batch of the prompt; a smaller one while generations decode `beside` it.
  // REQUIRES: it is open for the generation, which is in the decoder's cache; no batch is being
  // computed. False: the lane failed.
  bool Begin(Generation& generation, const Demand& demand, bool beside);
  // Computes the next stretch of the batch: a short one while generations decode `beside` it.
  PrefillLane::Progress Advance(bool beside, const Now& now, const std::atomic<bool>& abort);
  // Copies the batch that is done to the decoder's cache. REQUIRES: as many free cells. False: the
  // lane failed.
  bool HandOver();
  // Logits of the last row handed over.
  const float* Logits() { return lane_->Logits(); }

  // Generations that take part in a step beside the lane: prompts that are more urgent than the one
  // in the lane and too short for a lane, then those that decode, in the order of the shares and
  // the longest wait first. `candidates`: in the cache, the most urgent first.
  std::vector<Generation*> Beside(const std::vector<Generation*>& candidates,
                                  const FairShares& shares) const;

  // The generation has left the decoder's cache, or its batch is not to continue.
  void Drop(const Generation& generation);
  // Frees the lane if it has grown and holds nothing.
  void Close();

 private:
  Decoder* const decoder_;
  const StepCosts* const costs_;
  std::uint32_t decoding_ = 0;  // beside the prompts
  PrefillLane* lane_ = nullptr;
  Generation* held_ = nullptr;  // whose tokens are in the lane
  std::uint32_t length_ = 0;    // how many of them
  std::uint32_t rows_ = 0;      // behind these, begun
  double spent_ms_ = 0;         // on this batch
  double cpu_ms_ = 0;
};

}  // namespace svc
