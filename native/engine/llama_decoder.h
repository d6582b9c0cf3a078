// The Decoder over a llama_context: one unified cache, one persistent thread pool.
#pragma once

#include <memory>

#include "engine/decoder.h"
#include "engine/llama_model.h"

namespace svc {

struct DecoderOptions {
  std::uint32_t context_length = kDefaultContextLength;  // > 0
  int threads = 1;                                       // > 0
  std::uint32_t max_sequences = 64;                      // in 1..256
};

// `model` must outlive the decoder. Errors: kOutOfMemory, kModelInvalid.
Result<std::unique_ptr<Decoder>> NewLlamaDecoder(const LlamaModel& model,
                                                 const DecoderOptions& options);

}  // namespace svc
