// The Encoder over a llama_context of its own.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/llama/llama_model.h"
#include "engine/model/encoder.h"

namespace svc {

// Whether the file says how the vectors of an input's tokens become one (its `pooling_type` is
// mean, cls or last). Then the model makes embeddings, and no text.
bool MakesEmbeddings(const LlamaModel& model);

// Longest input that the model embeds, in tokens. Beyond what it was trained for (`trained`; 0: not known) a model
// has no positions: some end the process over it.
std::uint32_t MaxInputTokens(const LoadOptions& options, std::uint32_t trained);

// Tokens of a batch, and of the context that is made with the encoder.
inline constexpr std::uint32_t kBatchTokens = 512;

// How the context for batches of so many tokens is set up; also for a dry run.
llama_context_params EncoderParams(const LlamaModel& model, std::uint32_t tokens);

struct EncoderOptions {
  std::uint32_t max_tokens = kDefaultContextLength;  // of one input; > 0
  int threads = 1;                                   // > 0
};

// `model` must outlive the encoder. REQUIRES: MakesEmbeddings. Errors: kOutOfMemory, kModelInvalid.
Result<std::unique_ptr<Encoder>> NewLlamaEncoder(const LlamaModel& model,
                                                 const EncoderOptions& options);

}  // namespace svc
