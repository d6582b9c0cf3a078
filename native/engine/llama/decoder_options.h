// Settings of a decoder, and the sizes that follow from them: also for a dry run
// (memory_estimate.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/llama/llama_model.h"

namespace svc {

inline constexpr std::uint32_t kSequenceIds = 256;  // LLAMA_MAX_SEQ

// Size of a sequence's state: an upper limit that is at most a little too large. All 0: unknown.
struct StateSize {
  std::uint64_t fixed_bytes = 0;  // windows, recurrent states
  std::uint64_t token_bytes = 0;  // for each token in the other layers

  std::uint64_t Of(std::uint32_t tokens) const { return fixed_bytes + token_bytes * tokens; }
};

struct DecoderOptions {
  std::uint32_t context_length = kDefaultContextLength;  // most cells; > 0
  std::uint32_t cells = 0;                               // to begin with; 0: all of them
  int threads = 1;                                       // > 0
  int prompt_threads = 0;                                // for the lane; 0: as `threads`
  std::uint32_t max_sequences = 64;                      // > 0; clamped to 255
  CacheType cache_type = CacheType::kF16;
  StateSize state_size = {};
  std::vector<llama_adapter_lora*> adapters = {};  // of the model (lora/adapters.h)
};

// Resolves the defaults of `options` for this model.
DecoderOptions DecoderOptionsOf(const LoadOptions& options, const LlamaModel& model);

// Most sequences that are computed at the same time, and most rows with logits.
std::uint32_t SequencesOf(const LlamaModel& model, const DecoderOptions& options);
std::uint32_t MaxOutputsOf(std::uint32_t max_sequences);

// Parameters of the decoder's context.
llama_context_params DecoderParams(const LlamaModel& model, const DecoderOptions& options);

// True if the model's cache can be cut back to an earlier token and shared by sequences.
bool CanShareCells(const LlamaModel& model);

// Initial size of the prefill lane beside a context of `cells` cells, in cells; 0: no lane.
std::uint32_t LaneCells(const LlamaModel& model, std::uint32_t cells);

// Largest batch, in rows, for GPUs with these total memory sizes; empty: on the CPU.
std::uint32_t LargestBatch(std::span<const std::uint64_t> gpu_bytes);

// Bytes of the context's cache, summed over all devices.
std::uint64_t CacheBytes(const llama_context* context);

// Limit for copies of a cache of this size in ordinary memory, in bytes, shared with a lane that
// grows beyond LaneCells: the size of a small cache, a quarter of a large one.
std::uint64_t CopyBytes(std::uint64_t cache_bytes);
// The same for copies of whole states, where sequences cannot share cells: at least two states of a
// sequence that fills the cache. One is for the current conversation; the other is for the same one
// shortly before its end, for another, or for one that is being written or read.
std::uint64_t StateCopyBytes(std::uint64_t cache_bytes, const StateSize& size, std::uint32_t cells);

}  // namespace svc
