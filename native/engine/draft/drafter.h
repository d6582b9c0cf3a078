// A small model that drafts what a larger one with the same vocabulary says next (Leviathan et al.,
// "Fast inference from transformers via speculative decoding", 2023).
//
// It has a cache of its own with a place for a few generations. Before it can draft for one it has
// to compute that one's tokens, too: what its place has of them, from the first on, stays there, so
// that it is only the last few from step to step, and of a conversation's next turn what is new.
// Then each round computes one row for each of those who want a draft, and the likeliest token is
// the draft.
//
// How likely a draft is to be right it says itself: its own probability of the token. How much that
// is worth is learned: each draft whose predecessors were right is compared with what was said,
// whether or not a row was computed for it, in classes of that probability. What it takes is
// measured. When to ask it is the Loop's business (loop_drafter.cc).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/request.h"
#include "engine/draft/prompt_lookup.h"
#include "engine/model/cost_model.h"
#include "engine/model/decoder.h"

namespace svc {

// Owner: the Loop. Thread: the runner's.
class Drafter {
 public:
  // Generations that have a place at one time. With more of them, whose rows fill a step anyhow,
  // there is nothing to gain.
  static constexpr std::uint32_t kPlaces = 2;
  // Rows that may be lacking when it drafts; more are to be caught up before.
  static constexpr std::uint32_t kRowsBeside = 4;

  // `vocabulary`: of the model that it drafts for; of tokens that only one of the two knows it says
  // nothing. REQUIRES: the decoder can share cells, and has kPlaces sequences.
  Drafter(std::unique_ptr<Decoder> decoder, std::uint32_t vocabulary, Now now = Clock::now);

  // What a draft and a row take, on an empty cache.
  void Measure();
  // As the Decoder's; more than it can have are as many as it can.
  void SetThreads(int threads);

  // Compares what it drafted last with what has been said since. True: the first of it was right.
  // `tokens`, here and below: all of the generation's.
  bool Follow(GenerationId id, std::span<const Token> tokens);

  // Rows that it has to compute before it knows what follows: at least one. 0: it cannot draft for
  // this one now, because there is no room or it has failed.
  std::uint32_t Lack(GenerationId id, std::span<const Token> tokens);
  // Computes the first `rows` of these. REQUIRES: Lack was asked since the tokens grew, rows <
  // Lack. False: it was aborted, or failed.
  bool CatchUp(GenerationId id, std::span<const Token> tokens, std::uint32_t rows,
               const std::atomic<bool>& abort);

  struct Line {
    GenerationId id = 0;
    std::span<const Token> tokens;
    std::vector<DraftToken> drafts;  // behind these
  };
  // Adds a draft to each line. REQUIRES: Lack was asked since the tokens grew and was at most
  // kRowsBeside, or CatchUp has made it so. False: it was aborted, or failed; no draft was added.
  bool Draft(std::span<Line* const> lines, const std::atomic<bool>& abort);

  // The generation has ended, or waits: its place is anybody's, with what it has.
  void Release(GenerationId id);

  // The chance that a draft is right of which nothing is known yet, if those before it are.
  double expected() const;
  // Lately; 0: not known.
  double ms_per_draft() const { return ms_per_draft_; }
  double ms_per_row() const { return ms_per_row_; }
  // Of a CatchUp.
  std::uint32_t max_rows() const { return decoder_->max_rows(); }
  // That it has computed for since the last call.
  double TakeSpentMs();

 private:
  // Whether drafts were right, the latest counting most.
  struct Record {
    double right = 0;
    double all = 0;
  };
  // Its own probability: below a third, a half, 0.7, 0.85, 0.95 and above.
  static constexpr std::size_t kClasses = 6;

  struct Unjudged {
    Token token = 0;
    double probability = 0;
  };
  // Its index is the sequence's id.
  struct Place {
    std::optional<GenerationId> owner;
    std::vector<Token> computed;  // in the cache
    std::vector<Unjudged> drafted;
    std::size_t drafted_at = 0;  // behind so many tokens
    std::uint64_t used = 0;      // the larger, the later
  };

  static std::size_t ClassOf(double probability);
  double Chance(double probability) const;
  void Judge(double probability, bool right);
  Place* Find(GenerationId id);
  std::size_t held() const;  // cells
  Place& PlaceFor(GenerationId id, std::span<const Token> tokens);
  bool MakeRoom(const Place& place, std::size_t rows);
  void Cut(Place& place, std::size_t length);
  void AddRow(const Place& place, Token token, std::size_t position, bool wants_logits);
  bool Compute(const std::atomic<bool>& abort);
  DraftToken Likeliest(std::size_t row, Place& place);
  SequenceId IdOf(const Place& place) const {
    return static_cast<SequenceId>(&place - places_.data());
  }

  const std::unique_ptr<Decoder> decoder_;
  const std::uint32_t vocabulary_;
  const Now now_;
  std::array<Place, kPlaces> places_;
  std::uint64_t uses_ = 0;
  std::vector<Row> rows_;
  bool failed_ = false;  // the device, or the batch: it is not asked again

  std::array<Record, kClasses> records_{};
  Record lately_;
  double ms_per_draft_ = 0;
  double ms_per_row_ = 0;
  double spent_ms_ = 0;
};

}  // namespace svc
