// What may follow in an answer: its grammar, from the place where it begins, and the limit of its
// reasoning.
//
//   the grammar begins   at once                      an output format, or a call that must happen,
//                                                     or either
//                        after the reasoning          the same, if the model thinks first
//                        at a trigger                 tool calls that the model may make
//
// Some formats need a prefix before a content ("<|channel|>final<|message|>"). There a grammar of
// that prefix, with its control tokens as text, comes first, and then the output format.
//
// Inside the reasoning no grammar applies, and no trigger counts. A token may complete a trigger,
// or the tag that ends the reasoning, and go on after it. If the grammar does not allow that, the
// token may not follow, so that every call begins within the grammar.
//
// Where the grammar applies at once, the model may still begin its reasoning first. As long as the
// text may become either, both count; a text that the grammar has refused is completed to the tag.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/ids.h"
#include "engine/grammar/grammar_constraint.h"
#include "engine/grammar/grammar_trigger.h"
#include "engine/grammar/thinking.h"

namespace svc {

struct AnswerConstraintParts {
  std::unique_ptr<GrammarConstraint> grammar;  // null: none
  // Output format that replaces `grammar` once that has ended; `grammar` is then that of the
  // content's prefix. Null: none.
  std::unique_ptr<GrammarConstraint> then;
  // Replaces `grammar` if the model reasons first. Null: `grammar` applies then, too.
  std::unique_ptr<GrammarConstraint> after_reasoning;
  std::string grammar_prefix;  // text before the answer that the grammar describes, too
  // Text of the message that the answer continues. Becomes `grammar_prefix` if the grammar allows
  // it; otherwise the grammar begins after it.
  std::string continued;
  std::optional<GrammarTrigger> trigger;  // absent: the grammar waits for none
  // Marks with which a content or a call may end the reasoning, if there is no trigger. The grammar
  // begins at the first one that it allows. Absent: none.
  std::optional<GrammarTrigger> marks;
  std::unique_ptr<Thinking> thinking;    // null: the model does not think, or it need not be known
  std::map<Token, std::string> spelled;  // tokens of the format that the grammar reads as text
  // Returns the bytes of another token. May be null without trigger and reasoning.
  std::function<std::string(Token)> piece;
};

// Owner: one generation's sampler. Made on any thread, then used by the runner's, since generations
// share what the grammars compute.
class AnswerConstraint {
 public:
  explicit AnswerConstraint(AnswerConstraintParts parts);

  // Before the first token.
  void Begin();
  // Before each token.
  void KeepSmall();
  // Token that must follow: of a tag around the reasoning.
  std::optional<Token> Forced() const;
  // The grammar that the next token must follow; null: none.
  GrammarConstraint* grammar() { return applies_ ? parts_.grammar.get() : nullptr; }
  const GrammarConstraint* grammar() const { return applies_ ? parts_.grammar.get() : nullptr; }
  // True if tokens that the grammar forces may be written without sampling.
  bool MayForce() const { return applies_ && !unused_ && parts_.then == nullptr; }
  // True if the token may follow: the grammar allows it, now or from where it begins, or the model
  // begins its reasoning.
  bool Allows(Token token) const;
  // Advances by a token. False: it may not follow; nothing has changed.
  bool Accept(Token token);
  // True if the answer is complete and nothing can follow it.
  bool ended() const { return grammar() != nullptr && grammar()->ended(); }

 private:
  // A token's bytes.
  struct Piece {
    std::string text;
    bool is_control = false;
  };
  Piece Spell(Token token) const;
  void Start(const std::string& text);
  void TurnIfEnded();
  // Where the grammar begins if the text follows: at a trigger or, without one, behind the
  // reasoning.
  std::optional<GrammarTrigger::Match> Begins(const std::string& text) const;
  bool MayBegin(const GrammarTrigger::Match& match) const;
  bool MayThink(std::string_view text) const;
  // REQUIRES: the grammar applies.
  bool MayFollow(Token token, const std::string& text) const;
  void Follow(Token token);

  AnswerConstraintParts parts_;
  bool applies_ = false;  // the grammar does
  // The grammar as it begins after a reasoning, while the model may still begin its reasoning.
  std::optional<GrammarConstraint> unused_;
};

}  // namespace svc
