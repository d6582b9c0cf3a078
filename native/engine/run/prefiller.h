// What is being computed in the lane (prefill_lane.h), and for whom.
//
// A prompt enters with what the decoder's cache has of it, and is computed batch by batch; each
// batch that is done is handed over to its sequence there. Whose prompt it is may change between
// two batches.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/model/decoder.h"
#include "engine/model/prefill_lane.h"
#include "engine/run/generation.h"

namespace svc {

// Owner: the Loop. Thread: the runner's.
class Prefiller {
 public:
  // The decoder must outlive it.
  explicit Prefiller(Decoder* decoder) : decoder_(decoder) {}

  // Whether its prompt is long enough for the lane to pay, and short enough for it. Never, without
  // a lane.
  bool Takes(const Generation& generation) const;
  // Whether there is a lane for that prompt, which it takes; it may be made for it. REQUIRES:
  // nothing is being computed.
  bool Open(const Generation& generation);

  // Whose batch is being computed; null: none is.
  Generation* generation() const { return rows_ > 0 ? held_ : nullptr; }
  // Of that batch.
  std::uint32_t rows() const { return rows_; }
  // Of the largest one. REQUIRES: it is open.
  std::uint32_t max_rows() const { return lane_->max_rows(); }
  int threads() const { return lane_->threads(); }

  // Computes `rows` of it in a batch of `padded`, if that fits. REQUIRES: it is open and takes it,
  // which is in the decoder's cache and has `rows` pending; nothing is being computed. False: the
  // lane failed.
  bool Begin(Generation& generation, std::uint32_t rows, std::uint32_t padded);
  PrefillLane::Progress Advance(PrefillLane::Stretch stretch, const std::atomic<bool>& abort);
  // The rows of the batch that is done: REQUIRES that many free cells. False: the lane failed.
  bool HandOver();
  // Of the last row handed over.
  const float* Logits() { return lane_->Logits(); }

  // It has left the decoder's cache, or is not to go on.
  void Drop(const Generation& generation);
  // Frees the lane if it has grown and holds nothing.
  void Close();

 private:
  Decoder* const decoder_;
  PrefillLane* lane_ = nullptr;
  Generation* held_ = nullptr;  // whose tokens are in the lane
  std::uint32_t length_ = 0;    // how many of them
  std::uint32_t rows_ = 0;      // behind these, begun
};

}  // namespace svc
