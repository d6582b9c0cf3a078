// Estimates the memory that a model would take, without loading it. libllama reads the metadata and
// the vocabulary and lays out weights, cache and compute buffers as for a load, but allocates none
// of them (llama_model_params::no_alloc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/types/load_options.h"

namespace svc {

// Bytes on one device.
struct DeviceMemory {
  std::string name;  // as Device::name
  bool is_host = false;
  std::uint64_t weights_bytes = 0;
  // Part of weights_bytes: used in place in the mapped file, in pages that the system may drop and
  // read again.
  std::uint64_t mapped_bytes = 0;
  // KV cache; on the host also copies of it and the prefill lane's cache.
  std::uint64_t cache_bytes = 0;
  std::uint64_t compute_bytes = 0;  // when the context is full and all sequences compute
  // Currently free. Absent: the backend does not measure it; always absent for the host.
  std::optional<std::uint64_t> free_bytes;
  std::optional<std::uint64_t> total_bytes;

  SVC_FIELDS(DeviceMemory, (name), (is_host), (weights_bytes), (mapped_bytes), (cache_bytes),
             (compute_bytes), (free_bytes), (total_bytes))
};

struct MemoryEstimate {
  std::uint32_t context_length = 0;   // as the engine would use it
  std::vector<DeviceMemory> devices;  // the host is first

  SVC_FIELDS(MemoryEstimate, (context_length), (devices))
};

struct MemoryEstimates {
  std::uint32_t trained_context_length = 0;
  std::uint32_t layers = 0;
  bool has_experts = false;
  bool makes_embeddings = false;
  // Memory of this process beside all that: data of the code, vocabulary. Absent: this system does
  // not measure it.
  std::optional<std::uint64_t> process_bytes;
  // For LoadOptions of the same names; 0 if sequences can share cells.
  std::uint64_t state_fixed_bytes = 0;
  std::uint64_t state_token_bytes = 0;
  std::vector<MemoryEstimate> estimates;  // one per context length, in the same order

  SVC_FIELDS(MemoryEstimates, (trained_context_length), (layers), (has_experts), (makes_embeddings),
             (process_bytes), (state_fixed_bytes), (state_token_bytes), (estimates))
};

// Estimates each of `context_lengths` (0: the default); otherwise `options` as for Engine::Load.
// Includes the draft model, the projector and the adapters if they can be used. Blocks, for a
// second if the vocabulary is large. Any thread, one call at a time. Errors: kModelInvalid,
// kOutOfMemory, kCancelled, kEngineUnavailable.
Result<MemoryEstimates> EstimateMemory(const LoadOptions& options,
                                       const std::vector<std::uint32_t>& context_lengths);

}  // namespace svc
