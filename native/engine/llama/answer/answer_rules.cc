#include "engine/llama/answer/answer_rules.h"

#include <algorithm>
#include <utility>

#include "engine/grammar/gbnf.h"
#include "engine/llama/answer/answer_stream.h"
#include "engine/llama/answer/content_opening.h"
#include "engine/llama/sampler.h"
#include "json-schema-to-grammar.h"

namespace svc {
namespace {

std::string GrammarOf(const std::string& text) { return "root ::= " + gbnf_format_literal(text); }

// `message`, and then either `opening` and a text of `content`, or a text of `calls`. All three
// grammars are GBNF. The content is last, because it may end with an empty alternative.
std::string ContentOrCalls(const std::string& message, const std::string& opening,
                           const std::string& content, const std::string& calls) {
  return GrammarOf(message) + " (" + gbnf_format_literal(opening) + " f-root | c-root)\n" +
         WithPrefix(calls, "c-") + "\n" + WithPrefix(content, "f-");
}

}  // namespace

Result<AnswerRules> AnswerRulesMaker::Make(std::shared_ptr<const AnswerFormat> format,
                                           const std::string& grammar,
                                           std::optional<std::uint32_t> budget) {
  static const AnswerFormat kPlain;
  const AnswerFormat& answer = format != nullptr ? *format : kPlain;
  AnswerRules rules{.spelled = Spell(answer)};
  AnswerConstraintParts parts;
  if (!answer.grammar.empty()) {
    // An answer that must be a call has no content that could follow the output format.
    SVC_ASSIGN_OR_RETURN(parts.grammar, Constrain(answer.grammar, rules.spelled));
    if (answer.trigger) parts.trigger.emplace(*answer.trigger);
    if (!answer.trigger) parts.grammar_prefix = answer.generation_prompt;
  } else if (!grammar.empty()) {
    SVC_RETURN_IF_ERROR(answer.calls_beside_format.empty()
                            ? AddFormat(answer, grammar, rules.spelled, &parts)
                            : AddFormatOrCalls(answer, grammar, rules.spelled, &parts));
    parts.marks.emplace(answer.marks);
    parts.continued = answer.continued;
  }
  if (parts.grammar != nullptr || budget) parts.thinking = Follow(answer, budget);
  if (parts.grammar != nullptr || parts.thinking != nullptr) {
    parts.spelled = Marks(answer, rules.spelled);
    parts.piece = [this](Token token) { return model_.Piece(token, /*special=*/false); };
    rules.constraint = std::make_unique<AnswerConstraint>(std::move(parts));
  }
  if (answer.parser != nullptr) rules.reader = std::make_unique<AnswerStream>(std::move(format));
  return rules;
}

// Makes the output format begin after the prefix that the answer's format needs before a content.
Status AnswerRulesMaker::AddFormat(const AnswerFormat& format, const std::string& grammar,
                                   const std::map<Token, std::string>& spelled,
                                   AnswerConstraintParts* parts) {
  SVC_ASSIGN_OR_RETURN(parts->grammar, Constrain(grammar, {}));
  const bool is_open = OpensThinking(format);
  const ContentOpening texts = OpeningOf(format);
  const std::string& first = is_open ? texts.after_reasoning : texts.at_once;
  if (first.empty()) return Status::Ok();
  SVC_ASSIGN_OR_RETURN(std::unique_ptr<GrammarConstraint> opening,
                       Constrain(GrammarOf(first), spelled));
  parts->then = std::exchange(parts->grammar, std::move(opening));
  if (is_open || texts.after_reasoning.empty()) return Status::Ok();
  SVC_ASSIGN_OR_RETURN(parts->after_reasoning,
                       Constrain(GrammarOf(texts.after_reasoning), spelled));
  return Status::Ok();
}

// Both are alternatives of one grammar, because a content and a call may begin with the same
// characters.
Status AnswerRulesMaker::AddFormatOrCalls(const AnswerFormat& format, const std::string& grammar,
                                          const std::map<Token, std::string>& spelled,
                                          AnswerConstraintParts* parts) {
  // By itself first: errors name the places in it.
  if (const auto alone = grammars_.Get(grammar); !alone.ok()) return alone.status();
  const ContentOpening texts = OpeningOf(format);
  const std::string& calls = format.calls_beside_format;
  const std::string& message = texts.message_after_reasoning;
  const std::string behind =
      ContentOrCalls(message, texts.after_reasoning.substr(message.size()), grammar, calls);
  const std::string at_once =
      OpensThinking(format) ? behind : ContentOrCalls("", texts.at_once, grammar, calls);
  SVC_ASSIGN_OR_RETURN(parts->grammar, Constrain(at_once, spelled));
  if (format.thinking_ends.empty() || behind == at_once) return Status::Ok();
  SVC_ASSIGN_OR_RETURN(parts->after_reasoning, Constrain(behind, spelled));
  return Status::Ok();
}

std::vector<Token> AnswerRulesMaker::TokensOf(const std::string& text) const {
  Result<std::vector<Token>> tokens =
      model_.Tokenize(text, /*add_special=*/false, /*parse_special=*/true);
  return tokens.ok() ? std::move(tokens.value()) : std::vector<Token>{};
}

std::map<Token, std::string> AnswerRulesMaker::Spell(const AnswerFormat& format) const {
  std::map<Token, std::string> spelled;
  for (const std::string& text : format.spelled_tokens) {
    const std::vector<Token> tokens = TokensOf(text);
    if (tokens.size() == 1 && model_.Piece(tokens[0], /*special=*/false).empty()) {
      spelled[tokens[0]] = text;
    }
  }
  return spelled;
}

// In gpt-oss some tokens of the format are user-defined, not control tokens. Those in a start tag
// of several tokens are added. A start tag that is one such token is not, because ordinary text may
// quote it.
std::map<Token, std::string> AnswerRulesMaker::Marks(const AnswerFormat& format,
                                                     std::map<Token, std::string> spelled) const {
  const std::vector<Token> start = TokensOf(format.thinking_start);
  if (start.size() < 2) return spelled;
  for (const Token token : start) {
    const std::string text = model_.Piece(token, /*special=*/false);
    const bool is_own =
        (llama_vocab_get_attr(model_.vocab(), token) & LLAMA_TOKEN_ATTR_USER_DEFINED) != 0;
    if (is_own && std::ranges::count(format.spelled_tokens, text) > 0) spelled[token] = text;
  }
  return spelled;
}

std::unique_ptr<Thinking> AnswerRulesMaker::Follow(const AnswerFormat& format,
                                                   std::optional<std::uint32_t> budget) const {
  ThinkingTags tags{.start = format.thinking_start, .ends = format.thinking_ends};
  GrammarConstraint::Tokenizer tokenize = TokenizerWithin(model_, /*parse_special=*/true);
  const auto cannot_write = [&](const std::string& end) { return tokenize(end).empty(); };
  std::erase_if(tags.ends, cannot_write);
  if (tags.start.empty() || tags.ends.empty()) return nullptr;
  return std::make_unique<Thinking>(std::move(tags), OpensThinking(format), budget,
                                    std::move(tokenize));
}

Result<std::unique_ptr<GrammarConstraint>> AnswerRulesMaker::Constrain(
    const std::string& grammar, const std::map<Token, std::string>& spelled) {
  SVC_ASSIGN_OR_RETURN(std::shared_ptr<CompiledGrammar> compiled, grammars_.Get(grammar));
  return std::make_unique<GrammarConstraint>(
      std::move(compiled), Vocabulary(spelled),
      TokenizerWithin(model_, /*parse_special=*/!spelled.empty()));
}

std::shared_ptr<const VocabularyIndex> AnswerRulesMaker::Vocabulary(
    const std::map<Token, std::string>& spelled) {
  const std::lock_guard lock(mutex_);
  if (spelled.empty()) {
    if (plain_ == nullptr) plain_ = IndexVocabulary(model_, spelled);
    return plain_;
  }
  if (spelling_ == nullptr || spelled_ != spelled) {
    spelling_ = IndexVocabulary(model_, spelled);
    spelled_ = spelled;
  }
  return spelling_;
}

}  // namespace svc
