// Decoder over a llama_context: one unified cache, one persistent thread pool for each number of
// threads in use.
#pragma once

#include <memory>

#include "engine/llama/decoder_options.h"
#include "engine/llama/llama_model.h"
#include "engine/llama/thread_pools.h"
#include "engine/model/decoder.h"

namespace svc {

// `model` must outlive the decoder. Decoders that compute in turn should share the pools. Errors:
// kOutOfMemory, kModelInvalid.
Result<std::unique_ptr<Decoder>> NewLlamaDecoder(
    const LlamaModel& model, const DecoderOptions& options,
    std::shared_ptr<ThreadPools> pools = std::make_shared<ThreadPools>());

}  // namespace svc
