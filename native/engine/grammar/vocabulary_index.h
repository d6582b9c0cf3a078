// The bytes of all tokens of a vocabulary, sorted, so that testing the whole vocabulary against a
// grammar reads each common prefix once.
//
// Immutable after construction; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/token_set.h"
#include "engine/grammar/grammar_automaton.h"

namespace svc {

class VocabularyIndex {
 public:
  // pieces: the bytes that each token adds to a text; a token without bytes is never allowed. ends:
  // the tokens that end a text.
  VocabularyIndex(const std::vector<std::string>& pieces, std::vector<Token> ends);

  std::size_t size() const { return places_.size(); }
  std::string_view piece(Token token) const { return Piece(places_[token]); }

  // State after the token; kDead: it may not follow.
  GrammarAutomaton::State After(GrammarAutomaton& automaton, GrammarAutomaton::State state,
                                Token token) const;
  // True if the token ends a text.
  bool Ends(Token token) const;
  // All tokens that may follow; includes those that end the text if it may end here.
  TokenSet Allowed(GrammarAutomaton& automaton, GrammarAutomaton::State state) const;

 private:
  std::string_view Piece(std::uint32_t place) const {
    return std::string_view(text_).substr(offsets_[place], offsets_[place + 1] - offsets_[place]);
  }

  std::string text_;                    // all pieces, sorted by bytes
  std::vector<std::uint32_t> offsets_;  // by place: offset in text_; and the total size
  std::vector<std::uint32_t> shared_;   // by place: bytes in common with the previous piece
  std::vector<Token> tokens_;           // by place
  std::vector<std::uint32_t> places_;   // by token
  std::array<std::uint32_t, 257>
      first_with_{};  // by first byte: first place with this or a later first byte
  std::size_t longest_ = 0;
  std::vector<Token> ends_;  // sorted
};

}  // namespace svc
