#include "engine/run/prefiller.h"

#include <algorithm>

#include "engine/model/step_constants.h"

namespace svc {

bool Prefiller::Takes(const Generation& generation) const {
  const bool held = held_ == &generation;
  const std::uint32_t least = held ? kLeastHeldLaneRows : kLeastLaneRows;
  if (generation.pending() < least || generation.tokens.size() > decoder_->lane_cells()) {
    return false;
  }
  // The lane computes tokens only, and at positions that are their indices.
  if (MediaFrom(generation.media, generation.computed) != nullptr ||
      std::ranges::any_of(generation.media, &MediaRows::has_own_positions)) {
    return false;
  }
  // A step beside others does not round as a plain loop does.
  if (generation.IsPlain()) return true;
  return LaneGain(costs_->model(), costs_->targets(), decoding_, decoder_->max_rows()) >=
         (held ? kLeastHeldLaneGain : kLeastLaneGain);
}

bool Prefiller::Open(const Generation& generation) {
  lane_ = decoder_->lane(static_cast<std::uint32_t>(generation.tokens.size()));
  if (lane_ == nullptr) held_ = nullptr;
  return lane_ != nullptr;
}

bool Prefiller::Begin(Generation& generation, const Demand& demand, bool beside) {
  const std::uint32_t most = lane_->max_rows();
  const std::uint32_t rows = RowsOfBatch(demand, beside ? std::min(most, kLaneRowsBeside) : most);
  const std::uint32_t padded = generation.IsPlain() ? rows : costs_->model().Padded(rows);
  spent_ms_ = 0;
  cpu_ms_ = 0;
  // A lane that has been replaced by a larger one is empty.
  const bool has_all = held_ == &generation && length_ == generation.computed &&
                       lane_->length() == generation.computed;
  if (!has_all) {
    lane_->Clear();
    held_ = nullptr;
    lane_->SetAdapters(generation.adapters);
    for (std::uint32_t at = 0; at < generation.computed; at += kLaneCopyTokens) {
      const std::uint32_t end = std::min(at + kLaneCopyTokens, generation.computed);
      if (!lane_->LoadState(decoder_->SaveState(generation.sequence, at, end), at, end)) {
        lane_->Clear();
        return false;
      }
    }
    held_ = &generation;
    length_ = generation.computed;
  }
  rows_ = rows;
  const bool fits = padded <= most && length_ + padded <= lane_->cells();
  lane_->Begin(std::span(generation.tokens).subspan(length_, rows), fits ? padded - rows : 0);
  return true;
}

PrefillLane::Progress Prefiller::Advance(bool beside, const Now& now,
                                         const std::atomic<bool>& abort) {
  const double cpu_before_ms = costs_->CpuMs();
  const Clock::time_point started_at = now();
  const PrefillLane::Progress progress = lane_->Advance(
      beside ? PrefillLane::Stretch::kPartOfLayer : PrefillLane::Stretch::kLayer, abort);
  spent_ms_ += Milliseconds(now() - started_at);
  cpu_ms_ += costs_->CpuMs() - cpu_before_ms;
  if (progress == PrefillLane::Progress::kAborted || progress == PrefillLane::Progress::kFailed) {
    Drop(*held_);
  }
  return progress;
}

bool Prefiller::HandOver() {
  const std::uint32_t end = length_ + rows_;
  if (!decoder_->LoadState(held_->sequence, lane_->SaveState(length_, end), length_, end)) {
    Drop(*held_);
    return false;
  }
  length_ = end;
  rows_ = 0;
  return true;
}

std::vector<Generation*> Prefiller::Beside(const std::vector<Generation*>& candidates,
                                           const FairShares& shares) const {
  const Generation* prefilled = generation();
  std::vector<Generation*> beside;
  std::vector<Generation*> decoding;
  bool less_urgent = false;
  for (Generation* candidate : candidates) {
    if (candidate == prefilled) less_urgent = true;
    if (candidate->ended || candidate == prefilled) continue;
    if (candidate->pending() == 1) {
      decoding.push_back(candidate);
    } else if (!less_urgent && !Takes(*candidate)) {
      beside.push_back(candidate);
    }
  }
  std::ranges::stable_sort(decoding, {}, &Generation::last_step);
  shares.OrderDecoding(&decoding);
  beside.insert(beside.end(), decoding.begin(), decoding.end());
  return beside;
}

void Prefiller::Close() {
  if (held_ != nullptr) return;
  lane_ = nullptr;
  decoder_->ShrinkLane();
}

void Prefiller::Drop(const Generation& generation) {
  if (held_ != &generation) return;
  lane_->Clear();
  held_ = nullptr;
  length_ = 0;
  rows_ = 0;
}

}  // namespace svc
