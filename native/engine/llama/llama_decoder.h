// The Decoder over a llama_context: one unified cache, one persistent thread pool.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/llama/llama_model.h"
#include "engine/llama/thread_pools.h"
#include "engine/model/decoder.h"

namespace svc {

struct DecoderOptions {
  std::uint32_t context_length = kDefaultContextLength;  // > 0
  int threads = 1;                                       // > 0
  int prompt_threads = 0;                                // of the lane; 0: as `threads`
  std::uint32_t max_sequences = 64;                      // > 0; more than 255 are 255
  CacheType cache_type = CacheType::kF16;
};

// What the options for an engine come to with this model.
DecoderOptions DecoderOptionsOf(const LoadOptions& options, const LlamaModel& model);

// How the decoder's context is set up; also for a dry run.
llama_context_params DecoderParams(const LlamaModel& model, const DecoderOptions& options);

// Whether its memory can be cut back to an earlier token, and shared by sequences.
bool CanShareCells(const LlamaModel& model);

// Of the lane for prompts beside a context of so many cells, where no prompt needs more; 0: there
// is none.
std::uint32_t LaneCells(const LlamaModel& model, std::uint32_t cells);

// The largest batch of a model on GPUs of so much memory in all each; none: on a processor.
std::uint32_t LargestBatch(std::span<const std::uint64_t> gpu_bytes);

// Bytes of the context's cache, on all devices.
std::uint64_t CacheBytes(const llama_context* context);

// Bytes that copies of a cache of that size may take in ordinary memory, and the lane where it
// grows beyond LaneCells: as many as the cache of a small model, a quarter of that of a large one.
std::uint64_t CopyBytes(std::uint64_t cache_bytes);

// `model` must outlive the decoder. Decoders that compute in turn have the same pools. Errors:
// kOutOfMemory, kModelInvalid.
Result<std::unique_ptr<Decoder>> NewLlamaDecoder(
    const LlamaModel& model, const DecoderOptions& options,
    std::shared_ptr<ThreadPools> pools = std::make_shared<ThreadPools>());

}  // namespace svc
