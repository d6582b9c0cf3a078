// Turns the format of an answer into what the runner needs to generate it: the tokens that belong
// to its text, what may follow, and the reader of the text.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/status.h"
#include "engine/grammar/answer_constraint.h"
#include "engine/grammar/grammar_cache.h"
#include "engine/llama/answer/answer_format.h"
#include "engine/llama/llama_model.h"
#include "engine/model/answer_reader.h"

namespace svc {

struct AnswerRules {
  std::map<Token, std::string> spelled;          // control tokens that belong to the text
  std::unique_ptr<AnswerReader> reader;          // null: all text is content
  std::unique_ptr<AnswerConstraint> constraint;  // null: anything may follow
};

// Owner: the engine. Any thread. `model` must outlive it.
class AnswerRulesMaker {
 public:
  explicit AnswerRulesMaker(const LlamaModel& model) : model_(model) {}

  // `format`: of a chat; null for a raw prompt. `grammar`: the request's output format as GBNF;
  // empty: none. If the continued text is a valid beginning of it, the grammar covers that text,
  // too. It does not apply to an answer that must be a call. `budget`: most tokens of reasoning;
  // absent: no limit. Errors: kInvalidRequest, kBusy (grammars take too much memory).
  Result<AnswerRules> Make(std::shared_ptr<const AnswerFormat> format, const std::string& grammar,
                           std::optional<std::uint32_t> budget);

 private:
  std::vector<Token> TokensOf(const std::string& text) const;
  std::map<Token, std::string> Spell(const AnswerFormat& format) const;
  std::map<Token, std::string> Marks(const AnswerFormat& format,
                                     std::map<Token, std::string> spelled) const;
  std::unique_ptr<Thinking> Follow(const AnswerFormat& format,
                                   std::optional<std::uint32_t> budget) const;
  Result<std::unique_ptr<GrammarConstraint>> Constrain(const std::string& grammar,
                                                       const std::map<Token, std::string>& spelled);
  Status AddFormat(const AnswerFormat& format, const std::string& grammar,
                   const std::map<Token, std::string>& spelled, AnswerConstraintParts* parts);
  Status AddFormatOrCalls(const AnswerFormat& format, const std::string& grammar,
                          const std::map<Token, std::string>& spelled,
                          AnswerConstraintParts* parts);
  std::shared_ptr<const VocabularyIndex> Vocabulary(const std::map<Token, std::string>& spelled);

  const LlamaModel& model_;
  GrammarCache grammars_;
  std::mutex mutex_;  // of the rest
  // Made when they are needed, because they take a few megabytes: one without control tokens, and
  // one for the format of tool calls, which hardly changes.
  std::shared_ptr<const VocabularyIndex> plain_;
  std::shared_ptr<const VocabularyIndex> spelling_;
  std::map<Token, std::string> spelled_;  // by spelling_
};

}  // namespace svc
