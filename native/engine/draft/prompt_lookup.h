// Prompt lookup decoding: drafts the next tokens of a text from its own earlier tokens, prompt
// included. It pays for quoted documents, code with small edits, lists of similar entries and
// repetitive models.
//
// Source: prompt lookup decoding (A. Saxena, 2023; llama.cpp's `lookup` example keeps a similar
// index). The last few tokens are looked up earlier in the text, and the tokens that followed them
// there are the draft. The longest run of kLongest..kShortest tokens wins, at its latest position;
// that position is then followed for as long as it predicts right. A draft that reaches the end of
// the known text continues with its own tokens, so a loop of three tokens yields many drafts.
//
// The acceptance probability depends on the text and on the number of preceding tokens that match
// (the match length). It is learned by classes of that length: each generated token is compared
// with the token that would have been drafted, whether or not a draft was computed. So a text
// without repetition is recognized without computing a single wrong draft, and so is the point
// where it begins to repeat.
//
// The index is a hash table from a run of tokens to the latest position after it, one entry per
// slot: a later run may overwrite another, which is then not found. A lookup compares the tokens
// themselves. So the cost per token does not depend on the length of the text, and the table has at
// most kMostPlaces slots.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/decoder.h"

namespace svc {

struct DraftToken {
  Token token = 0;
  double chance = 0;  // of acceptance, if all drafts before it are accepted
  double cost = 0;    // of drafting it, in the unit of a step's cost; 0: already drafted
};

// Exponentially decayed counts of right drafts and of all drafts.
struct DraftRecord {
  double right = 0;
  double all = 0;

  void Add(bool is_right, double fade) {
    right = right * fade + (is_right ? 1 : 0);
    all = all * fade + 1;
  }
  // Observed acceptance rate, smoothed towards a prior that counts as `weight` drafts.
  double Chance(double prior, double weight) const {
    return (right + prior * weight) / (all + weight);
  }
};

// Index of one generation's text. Owner and thread: the Loop. Stores no tokens: each call gets all
// of them.
class PromptLookup {
 public:
  // Adds new tokens to the index. Tokens from index `judged_from` on update the acceptance
  // estimates: those that the model generated, not the prompt. REQUIRES: `tokens` begin with those
  // of the last call.
  void Follow(std::span<const Token> tokens, std::size_t judged_from);

  // Drafts up to `most` tokens. REQUIRES: `tokens` are those of the last Follow.
  std::vector<DraftToken> Propose(std::span<const Token> tokens, std::size_t most) const;

  std::size_t places() const { return places_.size(); }

  static constexpr std::size_t kShortest = 2;
  static constexpr std::size_t kLongest = 4;
  static constexpr std::size_t kMostPlaces = 1U << 17U;

 private:
  static constexpr std::size_t kClasses = 5;

  static std::size_t ClassOf(std::size_t length);
  double Chance(std::size_t length) const;
  void Note(std::span<const Token> tokens, std::size_t end);
  void Grow(std::span<const Token> tokens);
  void Look(std::span<const Token> tokens);
  std::uint32_t& Place(std::span<const Token> run);

  std::vector<std::uint32_t> places_;  // by hash of a run: position after it; 0: empty
  std::size_t known_ = 0;              // tokens in the index
  std::size_t next_ = 0;               // position followed: earlier occurrence of the next token
  std::size_t length_ = 0;             // matching tokens before it; 0: no position is followed
  std::array<DraftRecord, kClasses> records_{};
};

}  // namespace svc
