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

std::optional<GrammarTrigger::Match> AnswerConstraint::Triggered(Token token) const {
  const bool thinks = parts_.thinking != nullptr && parts_.thinking->is_open();
  if (!parts_.trigger || thinks) return std::nullopt;
  return parts_.trigger->Find(parts_.spell(token));
}

bool AnswerConstraint::Allows(Token token) const {
  if (applies_) return grammar()->Allows(token) || MayThink(token);
  const std::optional<GrammarTrigger::Match> triggered = Triggered(token);
  return !triggered || MayBegin(*triggered);
}

// A text that looks like a trigger need not be one: then the grammar does not allow even that.
bool AnswerConstraint::MayBegin(const GrammarTrigger::Match& match) const {
  return parts_.grammar->AllowsText(match.text) ||
         !parts_.grammar->AllowsText(match.text.substr(0, match.length));
}

bool AnswerConstraint::Accept(Token token) {
  if (applies_ && !Allows(token)) return false;
  std::optional<GrammarTrigger::Match> triggered = Triggered(token);
  if (triggered && !MayBegin(*triggered)) return false;

  Thinking* const thinking = parts_.thinking.get();
  const bool thought = thinking != nullptr && thinking->is_open();
  if (thinking != nullptr) thinking->Accept(token);
  is_first_ = false;
  if (parts_.grammar == nullptr) return true;
  if (applies_) {
    if (grammar()->Allows(token)) {
      grammar()->Accept(token);
    } else {
      applies_ = false;  // the model thinks first
    }
    return true;
  }
  if (thinking != nullptr && thinking->is_open()) return true;
  if (!parts_.trigger) {
    if (thought) Start("");
    return true;
  }
  std::string text;
  if (thought) {
    // The end tag may be a trigger: some models go from their reasoning to a call.
    for (const Token each : thinking->EndTag()) text += parts_.spell(each);
    triggered = parts_.trigger->Find(text);
  } else {
    text = parts_.spell(token);
  }
  if (triggered) {
    Start(triggered->text);
  } else {
    parts_.trigger->Add(text);
  }
  return true;
}

// The grammar begins with `text`, which is already written. If it does not allow that, the rest of
// the answer is free.
void AnswerConstraint::Start(const std::string& text) {
  applies_ = parts_.grammar != nullptr && parts_.grammar->AcceptText(text);
  parts_.trigger.reset();
  if (!applies_) parts_.grammar = nullptr;
}

}  // namespace svc
