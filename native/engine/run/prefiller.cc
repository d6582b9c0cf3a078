#include "engine/run/prefiller.h"

#include <algorithm>

namespace svc {
namespace {

// Fewer rows are computed in the decoder's own cache: they are no long wait for anybody. Of a
// prompt that is in the lane already, the end is computed there, too.
constexpr std::uint32_t kLeastRows = 128;
constexpr std::uint32_t kLeastRowsOfHeld = 32;
// Tokens that are copied to the lane at a time, so that the copy is small.
constexpr std::uint32_t kPiece = 512;

}  // namespace

bool Prefiller::Takes(const Generation& generation) const {
  const std::uint32_t least = held_ == &generation ? kLeastRowsOfHeld : kLeastRows;
  return generation.pending() >= least && generation.tokens.size() <= decoder_->lane_cells();
}

bool Prefiller::Open(const Generation& generation) {
  lane_ = decoder_->lane(static_cast<std::uint32_t>(generation.tokens.size()));
  if (lane_ == nullptr) held_ = nullptr;
  return lane_ != nullptr;
}

bool Prefiller::Begin(Generation& generation, std::uint32_t rows, std::uint32_t padded) {
  if (held_ != &generation || length_ != generation.computed) {
    lane_->Clear();
    held_ = nullptr;
    for (std::uint32_t at = 0; at < generation.computed; at += kPiece) {
      const std::uint32_t end = std::min(at + kPiece, generation.computed);
      if (!lane_->LoadState(decoder_->SaveState(generation.sequence, at, end), at, end)) {
        lane_->Clear();
        return false;
      }
    }
    held_ = &generation;
    length_ = generation.computed;
  }
  rows_ = rows;
  const bool fits = padded <= max_rows() && length_ + padded <= lane_->cells();
  lane_->Begin(std::span(generation.tokens).subspan(length_, rows), fits ? padded - rows : 0);
  return true;
}

PrefillLane::Progress Prefiller::Advance(PrefillLane::Stretch stretch,
                                         const std::atomic<bool>& abort) {
  const PrefillLane::Progress progress = lane_->Advance(stretch, abort);
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
