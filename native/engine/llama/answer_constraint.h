// What may follow in an answer: its grammar, from the place where it begins, and the limit of its
// reasoning.
//
//   the grammar begins   at once                      an output format, or a call that must happen
//                        after the reasoning          the same, if the model thinks first
//                        at a trigger                 tool calls that the model may make
//
// Inside the reasoning no grammar applies, and no trigger counts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/request.h"
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
  // True if `token`, the first of the answer, may begin the reasoning, though the grammar does not
  // allow it.
  bool MayThink(Token token) const;
  // Advances by a token. REQUIRES: the grammar allows it, or MayThink, or Forced.
  void Accept(Token token);
  // True if the answer is complete and nothing can follow it.
  bool ended() const { return grammar() != nullptr && grammar()->ended(); }

 private:
  void Start(const std::string& text);

  AnswerConstraintParts parts_;
  bool is_first_ = true;  // no token was accepted
  bool applies_ = false;  // the grammar does
};

}  // namespace svc
