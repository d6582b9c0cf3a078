// Constrains one text by its grammar.
//
//   CompiledGrammar    immutable network + automaton states computed so far; shared by all texts
//   GrammarConstraint  one text: its state, the tokens allowed next, the tokens forced next
//
// Forced text is returned as the model's own tokens for it. The last of these tokens is held back:
// the model might draw a longer token there that reaches from the forced text into the free text.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_automaton.h"
#include "engine/grammar/vocabulary_index.h"

namespace svc {

// Created on any thread; afterwards used only by the runner's thread, except `full`.
struct CompiledGrammar {
  std::shared_ptr<GrammarAutomaton> automaton;
  // Allowed tokens by state, up to a size limit: testing the vocabulary takes about a millisecond.
  std::unordered_map<GrammarAutomaton::State, TokenSet> allowed;
  // True: the automaton is full; new texts need a new one.
  std::atomic<bool> full = false;
  // Decrements GrammarCache's count of bytes alive when the last user is gone.
  std::shared_ptr<void> counted;
};

// Compiles a grammar. Error: kInvalidRequest (param "grammar"), also if the automaton cannot follow
// the grammar's start.
Result<std::shared_ptr<CompiledGrammar>> CompileGrammar(const std::string& gbnf);

// Owner: one generation's sampler.
class GrammarConstraint {
 public:
  // Returns the tokens of a text as the model would write it inside a longer text.
  using Tokenizer = std::function<std::vector<Token>(const std::string& text)>;

  GrammarConstraint(std::shared_ptr<CompiledGrammar> grammar,
                    std::shared_ptr<const VocabularyIndex> vocabulary, Tokenizer tokenize)
      : grammar_(std::move(grammar)),
        vocabulary_(std::move(vocabulary)),
        tokenize_(std::move(tokenize)),
        state_(grammar_->automaton->start()) {}

  // Before each token: switches to a fresh automaton of its own when the shared one is full.
  void KeepSmall();
  // True if the token may follow, or cannot be followed within the limits: then is_too_slow() is
  // true after Accept.
  bool Allows(Token token) const;
  // All tokens that may follow. Valid until the next call of another method.
  const TokenSet& Allowed();
  // Advances the state by a token. REQUIRES: Allows(token)
  void Accept(Token token);
  // True if the text may follow.
  bool AllowsText(std::string_view text) const { return After(text) != GrammarAutomaton::kDead; }
  // Advances the state by a text that is already written. False: the grammar does not allow it; the
  // state is then unchanged.
  bool AcceptText(std::string_view text);
  // Returns the tokens that must follow, already accepted.
  std::vector<Token> Force();
  // True if following the grammar took more CPU time than a text of this length may cost, or one
  // token exceeded the automaton's limits. All texts of the model wait for it, so the generation
  // has to be ended.
  bool is_too_slow() const;
  // True if the text is complete and nothing can follow it.
  bool ended() const { return grammar_->automaton->IsEnded(state_); }

 private:
  GrammarAutomaton& automaton() const { return *grammar_->automaton; }
  GrammarAutomaton::State After(std::string_view text) const;

  std::shared_ptr<CompiledGrammar> grammar_;
  const std::shared_ptr<const VocabularyIndex> vocabulary_;
  const Tokenizer tokenize_;
  GrammarAutomaton::State state_;
  double spent_seconds_ = 0;
  std::size_t accepted_ = 0;  // tokens
};

}  // namespace svc
