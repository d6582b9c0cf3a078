// Estimates the memory that a model would take, without loading it. libllama reads the metadata and
// the vocabulary and lays out weights, cache and compute buffers as for a load, but allocates none
// of them (llama_model_params::no_alloc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
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

  static constexpr auto Fields() {
    using Self = DeviceMemory;
    return std::make_tuple(SVC_FIELD(name), SVC_FIELD(is_host), SVC_FIELD(weights_bytes),
                           SVC_FIELD(mapped_bytes), SVC_FIELD(cache_bytes),
                           SVC_FIELD(compute_bytes), SVC_FIELD(free_bytes), SVC_FIELD(total_bytes));
  }
};

struct MemoryEstimate {
  std::uint32_t context_length = 0;   // as the engine would use it
  std::vector<DeviceMemory> devices;  // the host is first

  static constexpr auto Fields() {
    using Self = MemoryEstimate;
    return std::make_tuple(SVC_FIELD(context_length), SVC_FIELD(devices));
  }
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

  static constexpr auto Fields() {
    using Self = MemoryEstimates;
    return std::make_tuple(SVC_FIELD(trained_context_length), SVC_FIELD(layers),
                           SVC_FIELD(has_experts), SVC_FIELD(makes_embeddings),
                           SVC_FIELD(process_bytes), SVC_FIELD(state_fixed_bytes),
                           SVC_FIELD(state_token_bytes), SVC_FIELD(estimates));
  }
};

// Estimates each of `context_lengths` (0: the default); otherwise `options` as for Engine::Load.
// Includes the draft model, the projector and the adapters if they can be used. Blocks, for a
// second if the vocabulary is large. Any thread, one call at a time. Errors: kModelInvalid,
// kOutOfMemory, kCancelled, kEngineUnavailable.
Result<MemoryEstimates> EstimateMemory(const LoadOptions& options,
                                       const std::vector<std::uint32_t>& context_lengths);

}  // namespace svc
