// llama.cpp's samplers, in its order, so that a seed gives the text that llama-server gives:
// logit bias, penalties, top-k, top-p, min-p, temperature, draw. (Its DRY, top-n-sigma, typical-p
// and XTC stand between these and do nothing by default; they have no random state of their own
// that the draw would notice.)
#pragma once

#include <memory>
#include <span>

#include "engine/decoder.h"
#include "engine/engine.h"
#include "llama.h"

namespace svc {

// `prompt` is what penalties see before the first token. Any thread; the vocabulary must outlive
// the sampler. kInvalidRequest names the parameter that is out of range.
Result<std::unique_ptr<Sampler>> NewSampler(const llama_vocab* vocab, const SamplingParams& params,
                                            std::span<const Token> prompt);

}  // namespace svc
