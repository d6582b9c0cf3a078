// What may follow in an answer: its grammar, from the place where it begins, and the limit of its
// reasoning.
//
//   the grammar begins   at once                      an output format, or a call that must happen
//                        after the reasoning          the same, if the model thinks first
//                        at a trigger                 tool calls that the model may make
//
// Inside the reasoning no grammar applies, and no trigger counts. A token may complete a trigger
// and go on after it. If the grammar does not allow that, the token may not follow, so that every
// call begins within the grammar.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/ids.h"
#include "engine/grammar/grammar_constraint.h"
#include "engine/grammar/grammar_trigger.h"
#include "engine/llama/thinking.h"

namespace svc {

struct AnswerConstraintParts {
  std::unique_ptr<GrammarConstraint> grammar;  // null: none
  std::string grammar_prefix;             // text before the answer that the grammar describes, too
  std::optional<GrammarTrigger> trigger;  // absent: the grammar waits for none
  std::unique_ptr<Thinking> thinking;     // null: the model does not think, or it need not be known
  // Returns the bytes of a token, control tokens of the format included.
  std::function<std::string(Token)> spell;
};

// Owner: one generation's sampler.
class AnswerConstraint {
 public:
  explicit AnswerConstraint(AnswerConstraintParts parts);

  // Before the first token.
  void Begin();
  // Token that must follow, because the reasoning has reached its limit.
  std::optional<Token> Forced() const;
  // The grammar that the next token must follow; null: none.
  GrammarConstraint* grammar() { return applies_ ? parts_.grammar.get() : nullptr; }
  const GrammarConstraint* grammar() const { return applies_ ? parts_.grammar.get() : nullptr; }
  // True if what the grammar forces may be written without a draw.
  bool MayForce() const { return applies_ && !(is_first_ && parts_.thinking != nullptr); }
  // True if the token may follow: the grammar allows it, now or from the trigger on, or it is the
  // first one and begins the reasoning.
  bool Allows(Token token) const;
  // Advances by a token. False: it may not follow; nothing has changed.
  bool Accept(Token token);
  // True if the answer is complete and nothing can follow it.
  bool ended() const { return grammar() != nullptr && grammar()->ended(); }

 private:
  void Start(const std::string& text);
  // The trigger that the token completes.
  std::optional<GrammarTrigger::Match> Triggered(Token token) const;
  bool MayBegin(const GrammarTrigger::Match& match) const;
  bool MayThink(Token token) const;

  AnswerConstraintParts parts_;
  bool is_first_ = true;  // no token was accepted
  bool applies_ = false;  // the grammar does
};

}  // namespace svc
