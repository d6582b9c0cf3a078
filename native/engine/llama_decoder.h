// The Decoder over a llama_context: one unified cache, one persistent thread pool.
#pragma once

#include <memory>

#include "engine/decoder.h"
#include "engine/llama_model.h"

namespace svc {

// `model` must outlive the decoder. `threads` > 0, `max_sequences` in 1..256, `context_length` > 0.
// Errors: kOutOfMemory, kModelInvalid.
Result<std::unique_ptr<Decoder>> NewLlamaDecoder(const LlamaModel& model,
                                                 std::uint32_t context_length, int threads,
                                                 std::uint32_t max_sequences);

}  // namespace svc
