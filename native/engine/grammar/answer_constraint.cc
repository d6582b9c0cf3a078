#include "engine/grammar/answer_constraint.h"

#include <utility>

namespace svc {

AnswerConstraint::AnswerConstraint(AnswerConstraintParts parts) : parts_(std::move(parts)) {}

void AnswerConstraint::Begin() {
  if (!parts_.continued.empty() && parts_.grammar->AllowsText(parts_.continued)) {
    parts_.grammar_prefix = std::move(parts_.continued);
  }
  const bool waits =
      parts_.trigger.has_value() || (parts_.thinking != nullptr && parts_.thinking->is_open());
  if (!waits || !parts_.grammar_prefix.empty()) Start(parts_.grammar_prefix);
  if (!applies_ || !MayThink("")) return;
  unused_.emplace(parts_.after_reasoning != nullptr ? *parts_.after_reasoning : *parts_.grammar);
}

void AnswerConstraint::KeepSmall() {
  if (parts_.grammar != nullptr) parts_.grammar->KeepSmall();
  if (unused_) unused_->KeepSmall();
}

std::optional<Token> AnswerConstraint::Forced() const {
  return parts_.thinking != nullptr ? parts_.thinking->Forced() : std::nullopt;
}

AnswerConstraint::Piece AnswerConstraint::Spell(Token token) const {
  if (parts_.thinking == nullptr && !parts_.trigger) return {};  // it is not needed
  const auto control = parts_.spelled.find(token);
  if (control != parts_.spelled.end()) return {.text = control->second, .is_control = true};
  return {.text = parts_.piece(token)};
}

bool AnswerConstraint::MayThink(std::string_view text) const {
  return parts_.thinking != nullptr && parts_.thinking->MayOpen(text);
}

std::optional<GrammarTrigger::Match> AnswerConstraint::Begins(const std::string& text) const {
  if (applies_ || parts_.grammar == nullptr) return std::nullopt;
  if (parts_.thinking == nullptr || !parts_.thinking->is_open()) {
    return parts_.trigger ? parts_.trigger->Find(text) : std::nullopt;
  }
  const std::optional<Thinking::End> end = parts_.thinking->Ends(text);
  if (!end) return std::nullopt;
  // The end tag may be a trigger: some models go from their reasoning to a call.
  if (parts_.trigger) return parts_.trigger->Find(end->text);
  std::string rest = end->text;
  while (auto mark = parts_.marks ? parts_.marks->Find(rest) : std::nullopt) {
    if (parts_.grammar->AllowsText(mark->text.substr(0, mark->length))) return mark;
    rest = mark->text.substr(1);
  }
  return GrammarTrigger::Match{.text = end->text.substr(end->length)};
}

// A text that looks like a trigger need not be one: then the grammar does not allow even that.
bool AnswerConstraint::MayBegin(const GrammarTrigger::Match& match) const {
  return parts_.grammar->AllowsText(match.text) ||
         !parts_.grammar->AllowsText(match.text.substr(0, match.length));
}

bool AnswerConstraint::MayFollow(Token token, const std::string& text) const {
  return grammar()->Allows(token) || (unused_ && MayThink(text));
}

bool AnswerConstraint::Allows(Token token) const {
  const std::string text = Spell(token).text;
  if (applies_) return MayFollow(token, text);
  const std::optional<GrammarTrigger::Match> begins = Begins(text);
  return !begins || MayBegin(*begins);
}

bool AnswerConstraint::Accept(Token token) {
  const auto [text, is_control] = Spell(token);
  if (applies_ && !MayFollow(token, text)) return false;
  const std::optional<GrammarTrigger::Match> begins = Begins(text);
  if (begins && !MayBegin(*begins)) return false;
  std::string read = text;  // by the trigger
  if (Thinking* const thinking = parts_.thinking.get(); thinking != nullptr) {
    if (const std::optional<Thinking::End> end = thinking->Ends(text)) read = end->text;
    thinking->Accept(text, is_control);
    if (thinking->is_open()) read.clear();
  }
  if (applies_) {
    Follow(token);
  } else if (begins) {
    Start(begins->text);
  } else if (parts_.trigger) {
    parts_.trigger->Add(read);
  }
  return true;
}

// Advances the grammar; or, if it does not allow the token, the model begins its reasoning first.
void AnswerConstraint::Follow(Token token) {
  if (grammar()->Allows(token)) {
    grammar()->Accept(token);
    TurnIfEnded();
    if (unused_ && !MayThink("")) unused_.reset();
    return;
  }
  parts_.grammar = std::make_unique<GrammarConstraint>(*unused_);
  unused_.reset();
  applies_ = false;
  if (!parts_.thinking->is_open()) parts_.thinking->Open();
}

// The grammar begins with `text`, which is already written. If it does not allow that, the rest of
// the answer is free.
void AnswerConstraint::Start(const std::string& text) {
  applies_ = parts_.grammar != nullptr && parts_.grammar->AcceptText(text);
  parts_.trigger.reset();
  if (!applies_) parts_.grammar = nullptr;
  TurnIfEnded();
}

// Replaces the grammar of the content's prefix by that of the content, once the prefix is complete.
void AnswerConstraint::TurnIfEnded() {
  if (parts_.then == nullptr || !applies_ || !parts_.grammar->ended()) return;
  parts_.grammar = std::move(parts_.then);
  unused_.reset();
}

}  // namespace svc
