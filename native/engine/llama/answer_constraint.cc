#include "engine/llama/answer_constraint.h"

#include <utility>

namespace svc {

AnswerConstraint::AnswerConstraint(AnswerConstraintParts parts) : parts_(std::move(parts)) {}

void AnswerConstraint::Begin() {
  const bool waits =
      parts_.trigger.has_value() || (parts_.thinking != nullptr && parts_.thinking->is_open());
  if (!waits || !parts_.grammar_prefix.empty()) Start(parts_.grammar_prefix);
}

std::optional<Token> AnswerConstraint::Forced() const {
  return parts_.thinking != nullptr ? parts_.thinking->Forced() : std::nullopt;
}

bool AnswerConstraint::MayThink(Token token) const {
  return is_first_ && parts_.thinking != nullptr && parts_.thinking->Begins(token);
}

void AnswerConstraint::Accept(Token token) {
  Thinking* const thinking = parts_.thinking.get();
  const bool thought = thinking != nullptr && thinking->is_open();
  if (thinking != nullptr) thinking->Accept(token);
  is_first_ = false;
  if (parts_.grammar == nullptr) return;

  if (applies_) {
    if (grammar()->Allows(token)) {
      grammar()->Accept(token);
    } else {
      applies_ = false;  // the model thinks first
    }
    return;
  }
  if (thinking != nullptr && thinking->is_open()) return;
  if (!parts_.trigger) {
    if (thought) Start("");
    return;
  }
  std::string text;
  if (thought) {
    // The end tag may be a trigger: some models go from their reasoning to a call.
    for (const Token each : thinking->EndTag()) text += parts_.spell(each);
  } else {
    text = parts_.spell(token);
  }
  const std::optional<std::string> triggered = parts_.trigger->Push(text);
  if (triggered) Start(*triggered);
}

// The grammar begins with `text`, which is already written. If it does not allow that, the rest of
// the answer is free: a text that looks like a call need not be one.
void AnswerConstraint::Start(const std::string& text) {
  applies_ = parts_.grammar != nullptr && parts_.grammar->AcceptText(text);
  parts_.trigger.reset();
  if (!applies_) parts_.grammar = nullptr;
}

}  // namespace svc
