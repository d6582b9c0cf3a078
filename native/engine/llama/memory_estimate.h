// How much memory a model would take, found out without loading it: libllama reads the metadata and
// the vocabulary and lays out weights, cache and compute buffers as for a load, but allocates none
// of them (llama_model_params::no_alloc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/request.h"

namespace svc {

// Bytes on one device.
struct DeviceMemory {
  std::string name;  // as Device::name
  bool is_host = false;
  std::uint64_t weights_bytes = 0;
  // Of the weights: used as they lie in the file, in pages that the system may drop and read again.
  std::uint64_t mapped_bytes = 0;
  // Of the cache; of the host also those of copies of it, and of the lane for prompts.
  std::uint64_t cache_bytes = 0;
  std::uint64_t compute_bytes = 0;  // when the context is full and all sequences compute
  // As it is now. Absent: the backend does not measure it; of the host always.
  std::optional<std::uint64_t> free_bytes;
  std::optional<std::uint64_t> total_bytes;
};

struct MemoryEstimate {
  std::uint32_t context_length = 0;   // as the engine would have it
  std::vector<DeviceMemory> devices;  // the host first
};

struct MemoryEstimates {
  std::uint32_t trained_context_length = 0;
  std::uint32_t layers = 0;
  bool makes_embeddings = false;
  // What this process holds beside all that: its code's data, the vocabulary. Absent: not measured
  // on this system.
  std::optional<std::uint64_t> process_bytes;
  std::vector<MemoryEstimate> estimates;  // one for each context length, in their order
};

// `options` as for Engine::Load, but for the context length: each of `context_lengths` is tried, 0
// being the default. What a draft model takes is part of it, where it can be used. Blocks, for a
// second where the vocabulary is large. Any thread, one at a time. Errors: kModelInvalid,
// kOutOfMemory, kCancelled, kEngineUnavailable.
Result<MemoryEstimates> EstimateMemory(const LoadOptions& options,
                                       const std::vector<std::uint32_t>& context_lengths);

// Memory of this process that no file backs: what is gone for others while it lives. Absent: not
// measured on this system.
std::optional<std::uint64_t> PrivateBytes();

}  // namespace svc
