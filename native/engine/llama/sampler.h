// Sampler over llama.cpp's samplers in llama.cpp's order (SamplingParams), so that a seed gives the
// same text as llama-server. (top-n-sigma and adaptive-p are left out: they are off by default and
// use no random numbers that would shift the draw.)
//
// Two steps are done here for speed: the biases and, where top-k comes next, top-k over the plain
// logits, so that the chain gets k candidates instead of the whole vocabulary. As in llama.cpp, the
// grammar first checks only the drawn token; if it is refused, a token is drawn again among those
// that the grammar allows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/status.h"
#include "engine/grammar/answer_constraint.h"
#include "engine/grammar/grammar_constraint.h"
#include "engine/llama/llama_model.h"
#include "engine/model/decoder.h"
#include "engine/types/sampling_params.h"
#include "llama.h"

namespace svc {

struct SamplerOptions {
  SamplingParams params;
  // Tokens that penalties see before the first drawn token.
  std::span<const Token> prompt;
  std::unique_ptr<AnswerConstraint> constraint;  // null: anything may follow
  // First tokens of the answer (Continuation).
  std::vector<Token> known = {};
  std::optional<std::uint32_t> logprobs;  // alternatives to report; absent: none
  // Returns the bytes of a token, for logprobs.
  std::function<std::string(Token)> piece;
};

// Index of the model's vocabulary for grammars. `spelled`: control tokens that a grammar may
// demand, with their texts.
std::shared_ptr<const VocabularyIndex> IndexVocabulary(
    const LlamaModel& model, const std::map<Token, std::string>& spelled = {});

// Tokenizer for a text in the middle of another one; also for vocabularies that put a space before
// every text. parse_special: texts of control tokens become these. The model must outlive it.
GrammarConstraint::Tokenizer TokenizerWithin(const LlamaModel& model, bool parse_special = false);

// Creates a sampler. Any thread; the vocabulary must outlive it. Error: kInvalidRequest (the
// message names the parameter that is out of range).
Result<std::unique_ptr<Sampler>> NewSampler(const llama_vocab* vocab, SamplerOptions options);

}  // namespace svc
