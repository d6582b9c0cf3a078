// Set of tokens of one vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/ids.h"

namespace svc {

// One bit for each token.
class TokenSet {
 public:
  explicit TokenSet(std::size_t vocabulary) : words_((vocabulary + 63) / 64) {}

  static TokenSet All(std::size_t vocabulary) {
    TokenSet all(vocabulary);
    for (std::size_t token = 0; token < vocabulary; ++token) all.Add(static_cast<Token>(token));
    return all;
  }

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

}  // namespace svc
