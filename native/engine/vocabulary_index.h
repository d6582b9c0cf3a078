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

#include "engine/engine.h"
#include "engine/grammar_automaton.h"

namespace svc {

// One bit for each token.
class TokenSet {
 public:
  explicit TokenSet(std::size_t vocabulary) : words_((vocabulary + 63) / 64) {}

  void Add(Token token) { words_[Word(token)] |= Bit(token); }
  void Remove(Token token) { words_[Word(token)] &= ~Bit(token); }
  bool Has(Token token) const { return (words_[Word(token)] & Bit(token)) != 0; }
  const std::vector<std::uint64_t>& words() const { return words_; }
  std::size_t bytes() const { return words_.size() * sizeof(std::uint64_t); }

 private:
  static std::size_t Word(Token token) { return static_cast<std::size_t>(token) / 64; }
  static std::uint64_t Bit(Token token) { return 1ULL << (static_cast<unsigned>(token) % 64); }
  std::vector<std::uint64_t> words_;
};

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
