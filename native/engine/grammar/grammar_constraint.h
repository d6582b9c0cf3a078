// Where one text stands in its grammar.
//
//   CompiledGrammar   immutable network + what walking it has shown so far; shared by all texts
//   GrammarConstraint one text: its state, what may follow, what must follow
//
// What must follow is told as the model's own tokens for it. The last of them is held back, because
// a token may reach from the text that is forced into the text that is free; the model draws there.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_automaton.h"
#include "engine/grammar/vocabulary_index.h"

namespace svc {

// Made on any thread; from then on used by the runner's thread alone, but for `full`.
struct CompiledGrammar {
  std::shared_ptr<GrammarAutomaton> automaton;
  // By state, up to a bound: looking through the vocabulary costs about a millisecond.
  std::unordered_map<GrammarAutomaton::State, TokenSet> allowed;
  // Too much has been seen to begin another text with.
  std::atomic<bool> full = false;
  // Held by what counts the grammars alive.
  std::shared_ptr<void> counted;
};

// kInvalidRequest, also where the grammar cannot be followed.
Result<std::shared_ptr<CompiledGrammar>> CompileGrammar(const std::string& gbnf);

// Owner: one generation's sampler.
class GrammarConstraint {
 public:
  // The tokens of a text, as the model would write it.
  using Tokenizer = std::function<std::vector<Token>(const std::string& text)>;

  GrammarConstraint(std::shared_ptr<CompiledGrammar> grammar,
                    std::shared_ptr<const VocabularyIndex> vocabulary, Tokenizer tokenize)
      : grammar_(std::move(grammar)),
        vocabulary_(std::move(vocabulary)),
        tokenize_(std::move(tokenize)),
        state_(grammar_->automaton->start()) {}

  bool Allows(Token token) const;
  // Valid until the next call of another method.
  const TokenSet& Allowed();
  // REQUIRES: Allows(token)
  void Accept(Token token);
  // Tokens that must follow, accepted already.
  std::vector<Token> Force();
  // True if following the grammar has taken more CPU time than a text of this length may cost. All
  // texts of the model wait for it: this one has to be given up.
  bool is_too_slow() const;
  // The text is whole and nothing can follow it.
  bool ended() const { return grammar_->automaton->IsEnded(state_); }

 private:
  GrammarAutomaton& automaton() const { return *grammar_->automaton; }
  // Goes on with a memory of its own when the shared one is full.
  void KeepSmall();

  std::shared_ptr<CompiledGrammar> grammar_;
  const std::shared_ptr<const VocabularyIndex> vocabulary_;
  const Tokenizer tokenize_;
  GrammarAutomaton::State state_;
  double spent_seconds_ = 0;
  std::size_t accepted_ = 0;  // tokens
};

}  // namespace svc
