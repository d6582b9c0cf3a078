// llama.cpp's samplers, in its order, so that a seed gives the text that llama-server gives:
// logit bias, penalties, top-k, top-p, min-p, temperature, draw. (Its DRY, top-n-sigma, typical-p
// and XTC stand between these and do nothing by default; they have no random state of their own
// that the draw would notice.)
//
// Biases are added here, and where top-k comes next it is done here too, over plain logits: the
// chain then gets k candidates instead of the whole vocabulary. A grammar is asked about the token
// drawn, as in llama.cpp; only when that is refused, one is drawn anew from those that the grammar
// allows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/base/request.h"
#include "engine/grammar/grammar_constraint.h"
#include "engine/llama/llama_model.h"
#include "engine/model/decoder.h"
#include "llama.h"

namespace svc {

struct SamplerOptions {
  SamplingParams params;
  // What penalties see before the first token.
  std::span<const Token> prompt;
  std::unique_ptr<GrammarConstraint> grammar;  // null: none
  std::optional<std::uint32_t> logprobs;       // alternatives to tell; absent: nothing
  // The bytes of any token, for logprobs.
  std::function<std::string(Token)> piece;
};

// What grammars know of a model's vocabulary.
std::shared_ptr<const VocabularyIndex> IndexVocabulary(const LlamaModel& model);

// How the model writes a text that goes on with another: also vocabularies that put a space before
// every text. The model must outlive it.
GrammarConstraint::Tokenizer TokenizerWithin(const LlamaModel& model);

// Any thread; the vocabulary must outlive the sampler. kInvalidRequest names the parameter that is
// out of range.
Result<std::unique_ptr<Sampler>> NewSampler(const llama_vocab* vocab, SamplerOptions options);

}  // namespace svc
