// Speculative decoding with a draft model: a small model with the same vocabulary drafts the target
// model's next tokens (Leviathan et al., "Fast inference from transformers via speculative
// decoding", 2023).
//
// The draft model has a KV cache of its own, with places for a few generations. Before it can draft
// for a generation, it must have computed all its tokens. A place keeps what it has computed, so
// only the last few tokens are missing from step to step, and only the new ones on a conversation's
// next turn. Each round of drafting computes one row for each generation that wants a draft; the
// most likely token is the draft.
//
// The acceptance probability of a draft is estimated from the draft model's own probability for the
// token. The estimate is learned by classes of that probability: each draft whose predecessors were
// right is compared with the actual token, whether or not the target model computed a row for it.
// The time that drafting takes is measured. The Loop decides when to draft (run/draft_round.cc).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/ids.h"
#include "engine/draft/prompt_lookup.h"
#include "engine/model/cost_model.h"
#include "engine/model/decoder.h"

namespace svc {

// Owner: the Loop. Thread: the runner's.
class Drafter {
 public:
  // Places: generations that can be drafted for at the same time. With more generations, their rows
  // fill a step anyway and drafts gain nothing.
  static constexpr std::uint32_t kPlaces = 2;
  // Maximum missing rows at a call of Draft; with more, CatchUp must come first.
  static constexpr std::uint32_t kRowsBeside = 4;

  // `vocabulary`: vocabulary size of the target model; Lack returns 0 for generations with tokens
  // that only one of the two models knows. REQUIRES: the decoder can share cells and has kPlaces
  // sequences.
  Drafter(std::unique_ptr<Decoder> decoder, std::uint32_t vocabulary, Now now = Clock::now);

  // Measures ms_per_draft and ms_per_row on the empty cache.
  void Measure();
  // As Decoder::SetThreads; clamped to max_threads().
  void SetThreads(int threads);
  // Makes the cache as large as the target model's, if it can be; what is in it is dropped.
  void Grow(std::uint32_t cells);

  // Compares the last drafts with the tokens generated since, and learns from them. True: the first
  // draft was right. `tokens`, here and below: all tokens of the generation.
  bool Follow(GenerationId id, std::span<const Token> tokens);

  // Returns the number of rows to compute before the next draft, at least 1; gives the generation a
  // place. 0: cannot draft for this generation now (no room, unknown tokens, or the model has
  // failed).
  std::uint32_t Lack(GenerationId id, std::span<const Token> tokens);
  // Computes the first `rows` missing rows. False: aborted or failed. REQUIRES: Lack was called
  // since the tokens grew; rows < Lack.
  bool CatchUp(GenerationId id, std::span<const Token> tokens, std::uint32_t rows,
               const std::atomic<bool>& abort);

  struct Line {
    GenerationId id = 0;
    std::span<const Token> tokens;
    std::vector<DraftToken> drafts;  // follow `tokens`
  };
  // Adds one draft to each line. False: aborted or failed, no draft was added. REQUIRES: Lack was
  // called since the tokens grew; it returned at most kRowsBeside, or CatchUp has reduced it to
  // that.
  bool Draft(std::span<Line* const> lines, const std::atomic<bool>& abort);

  // Frees the place of a generation that has ended or waits. The place keeps its tokens until it is
  // reused.
  void Release(GenerationId id);

  // Prior probability that the next draft is accepted, given that all before it were.
  double expected() const;
  // Recent averages; 0: unknown.
  double ms_per_draft() const { return ms_per_draft_; }
  double ms_per_row() const { return ms_per_row_; }
  // Maximum rows of a CatchUp.
  std::uint32_t max_rows() const { return decoder_->max_rows(); }
  // Compute time since the last call, in ms; resets it.
  double TakeSpentMs();

 private:
  // Classes of the draft model's probability: below 1/3, 0.5, 0.7, 0.85, 0.95, and above.
  static constexpr std::size_t kClasses = 6;

  struct Unjudged {
    Token token = 0;
    double probability = 0;
  };
  // A generation's part of the draft model's cache. Its index in places_ is the sequence id.
  struct Place {
    std::optional<GenerationId> owner;
    std::vector<Token> computed;  // tokens in the cache
    std::vector<Unjudged> drafted;
    std::size_t drafted_at = 0;  // number of tokens before the drafts
    std::size_t reserved = 0;    // cells that the owner may use until the next Lack
    std::uint64_t used = 0;      // larger: more recent
  };

  static std::size_t ClassOf(double probability);
  double Chance(double probability) const;
  Place* Find(GenerationId id);
  Place& PlaceFor(GenerationId id, std::span<const Token> tokens);
  bool Reserve(Place* place, std::size_t cells);
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
  bool failed_ = false;  // device or batch failure: drafts no more

  std::array<DraftRecord, kClasses> records_{};
  DraftRecord lately_;
  double ms_per_draft_ = 0;
  double ms_per_row_ = 0;
  double spent_ms_ = 0;
};

}  // namespace svc
