// Random texts of a grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/grammar/grammar_automaton.h"

namespace svc::test {

// Walks a grammar at random: by whole words where it allows one, otherwise by bytes.
class Walker {
 public:
  Walker(GrammarAutomaton& automaton, std::vector<std::string> words)
      : automaton_(automaton), words_(std::move(words)) {}

  // Text that follows `begin`; it is complete, unless it has become very long.
  std::string Walk(const std::string& begin) {
    state_ = automaton_.start();
    Take(begin);
    std::string text;
    while (text.size() < kLongest && !automaton_.IsEnded(state_)) {
      if (automaton_.IsComplete(state_) && Random(4) == 0) break;
      const std::string next = Next(text.size() > kLongest / 4);
      if (next.empty() || !Take(next)) break;
      text += next;
    }
    return text;
  }
  bool is_complete() const { return automaton_.IsComplete(state_); }
  std::size_t Random(std::size_t below) {
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>(random_ >> 33U) % below;
  }

 private:
  static constexpr std::size_t kLongest = 4000;

  std::string Next(bool is_long) {
    const int forced = automaton_.ForcedByte(state_);
    if (forced >= 0) return std::string(1, static_cast<char>(forced));
    if (is_long || Random(2) == 0) {
      for (int tries = 0; tries < 40; ++tries) {
        const std::string& word = words_[Random(words_.size())];
        if (Allows(word)) return word;
      }
    }
    for (int tries = 0; tries < 400; ++tries) {
      std::string byte(1, static_cast<char>(32 + Random(95)));
      if (Allows(byte)) return byte;
    }
    return "";
  }
  bool Allows(const std::string& text) {
    const GrammarAutomaton::State before = state_;
    const bool allows = Take(text);
    state_ = before;
    return allows;
  }
  bool Take(const std::string& text) {
    for (const char byte : text) {
      state_ = automaton_.Next(state_, static_cast<std::uint8_t>(byte));
    }
    return state_ != GrammarAutomaton::kDead;
  }

  GrammarAutomaton& automaton_;
  const std::vector<std::string> words_;
  GrammarAutomaton::State state_ = 0;
  std::uint64_t random_ = 1;
};

}  // namespace svc::test
