// Encoder over a llama_context of its own.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/llama/llama_model.h"
#include "engine/model/encoder.h"

namespace svc {

// True if the file's metadata has a pooling type (`pooling_type` mean, cls, last or rank): such a
// model makes embeddings or scores and generates no text.
bool MakesEmbeddings(const LlamaModel& model);
// True if that type is rank: the model scores inputs.
bool Ranks(const LlamaModel& model);

// Longest input that the model embeds, in tokens. `trained`: its trained context length (0:
// unknown), an upper limit, because a longer input has no positions and makes some models end the
// process.
std::uint32_t MaxInputTokens(const LoadOptions& options, std::uint32_t trained);

// Tokens in a batch, and the initial size of the context.
inline constexpr std::uint32_t kBatchTokens = 512;

// Parameters of a context for batches of `tokens` tokens; also for a dry run (memory_estimate.h).
llama_context_params EncoderParams(const LlamaModel& model, std::uint32_t tokens);

struct EncoderOptions {
  std::uint32_t max_tokens = kDefaultContextLength;  // in one input; > 0
  int threads = 1;                                   // > 0
};

// `model` must outlive the encoder. REQUIRES: MakesEmbeddings. Errors: kOutOfMemory, kModelInvalid.
Result<std::unique_ptr<Encoder>> NewLlamaEncoder(const LlamaModel& model,
                                                 const EncoderOptions& options);

}  // namespace svc
