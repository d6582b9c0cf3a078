// Reference for the vectors and scores of encoders: one input in a plain context of libllama, which
// takes the pooling type from the file.
#pragma once

#include <vector>

#include "engine/llama/llama_encoder.h"
#include "engine/llama/llama_model.h"
#include "llama-cpp.h"
#include "test.h"

namespace svc::test {

// Returns the input's vector, or its score alone.
inline std::vector<float> PooledReference(const LlamaModel& model, std::vector<Token> tokens) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 2048;
  params.n_batch = 2048;
  params.n_ubatch = 2048;
  params.n_threads = 1;
  params.n_threads_batch = 1;
  params.embeddings = true;
  const llama_context_ptr context(llama_init_from_model(model.get(), params));
  EXPECT_EQ(llama_pooling_type(context.get()) == LLAMA_POOLING_TYPE_RANK, Ranks(model));
  const auto count = static_cast<std::int32_t>(tokens.size());
  EXPECT_EQ(llama_decode(context.get(), llama_batch_get_one(tokens.data(), count)), 0);
  const float* pooled = llama_get_embeddings_seq(context.get(), 0);
  return {pooled, pooled + (Ranks(model) ? 1 : llama_model_n_embd_out(model.get()))};
}

}  // namespace svc::test
