// Drafts what a text says next from what it, or its prompt, has said before: a document that is
// quoted, code that is changed in places, a list whose entries are alike, a model that repeats
// itself.
//
// Prompt look-up decoding (A. Saxena, 2023; llama.cpp's `lookup` example keeps an index like this
// one): find where the last few tokens stood before, and draft what followed them there. The
// longest run of kLongest..kShortest tokens is looked for, its latest place is taken, and from then
// on that place is followed for as long as it is right. A draft that reaches the end of what is
// known goes on with itself, so that a loop of three tokens is drafted for many.
//
// How likely a draft is to be right depends on the text, and on how many tokens before it have been
// the same there and here: that much of it is learned. Every token that the text says is compared
// with what would have been drafted, whether or not a draft was computed. So a text that repeats
// nothing is known to be one without having paid for a single wrong draft, and where it begins to
// repeat, that shows, too.
//
// The index is a table of the latest position behind each run of tokens, with one place for each
// hash: a later run may take the place of another, which is then not found. A look compares the
// tokens themselves. So a token costs the same few operations however long the text is, and the
// table has at most kMostPlaces.
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
  double chance = 0;  // that it is right, if those before it are
  double cost = 0;    // of drafting it, if that is yet to be done; in the unit of a step's
};

// Of one generation. Owner and thread: the Loop. It keeps no tokens: each call is given all of
// them.
class PromptLookup {
 public:
  // REQUIRES: `tokens` begin with those of the last call. Those from `judged_from` on show how good
  // drafts are: what a model says, not what it is told.
  void Follow(std::span<const Token> tokens, std::size_t judged_from);

  // At most `most` tokens that may come next. REQUIRES: `tokens` are those of the last Follow.
  std::vector<DraftToken> Propose(std::span<const Token> tokens, std::size_t most) const;

  std::size_t places() const { return places_.size(); }

  static constexpr std::size_t kShortest = 2;
  static constexpr std::size_t kLongest = 4;
  static constexpr std::size_t kMostPlaces = 1U << 17U;

 private:
  // Whether drafts were right, the latest counting most.
  struct Record {
    double right = 0;
    double all = 0;
  };
  static constexpr std::size_t kClasses = 5;

  static std::size_t ClassOf(std::size_t length);
  double Chance(std::size_t length) const;
  void Judge(bool right);
  void Note(std::span<const Token> tokens, std::size_t end);
  void Grow(std::span<const Token> tokens);
  void Look(std::span<const Token> tokens);
  std::uint32_t& Place(std::span<const Token> run);

  std::vector<std::uint32_t> places_;  // behind a run; 0: nothing has been seen
  std::size_t known_ = 0;              // tokens
  std::size_t next_ = 0;               // the place followed: where the next token stood before
  std::size_t length_ = 0;  // tokens before it that were the same; 0: no place is followed
  std::array<Record, kClasses> records_{};
};

}  // namespace svc
