// The bytes of all tokens of a vocabulary in alphabetical order, so that a whole vocabulary is
// tried against a grammar without reading a common beginning twice.
//
// Immutable once made; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/request.h"
#include "engine/base/token_set.h"
#include "engine/grammar/grammar_automaton.h"

namespace svc {

class VocabularyIndex {
 public:
  // pieces: the bytes each token adds to a text. A token that adds none is in no grammar, but those
  // of `ends`, which end a text.
  VocabularyIndex(const std::vector<std::string>& pieces, std::vector<Token> ends);

  std::size_t size() const { return places_.size(); }
  std::string_view piece(Token token) const { return Piece(places_[token]); }

  // What the token leads to; kDead: it may not follow.
  GrammarAutomaton::State After(GrammarAutomaton& automaton, GrammarAutomaton::State state,
                                Token token) const;
  bool Ends(Token token) const;
  // All tokens that may follow; those that end the text where it may end.
  TokenSet Allowed(GrammarAutomaton& automaton, GrammarAutomaton::State state) const;

 private:
  std::string_view Piece(std::uint32_t place) const {
    return std::string_view(text_).substr(offsets_[place], offsets_[place + 1] - offsets_[place]);
  }

  std::string text_;                    // all pieces in alphabetical order
  std::vector<std::uint32_t> offsets_;  // by place: where in text_ it begins; and the end
  std::vector<std::uint32_t> shared_;   // by place: bytes in common with the one before
  std::vector<Token> tokens_;           // by place
  std::vector<std::uint32_t> places_;   // by token
  std::array<std::uint32_t, 257>
      first_with_{};  // by first byte: the first place with it or a later one
  std::size_t longest_ = 0;
  std::vector<Token> ends_;  // sorted
};

}  // namespace svc
