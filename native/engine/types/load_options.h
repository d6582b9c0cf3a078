// How a model is loaded.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/field.h"
#include "engine/types/adapters.h"

namespace svc {

// Element type of the KV cache. kQ8_0 takes about half the memory of kF16 at little loss of
// quality. Some model shapes do not support it (kModelInvalid).
enum class CacheType { kF16, kQ8_0 };
constexpr auto Names(CacheType) { return std::array{"f16", "q8_0"}; }

// Limits that libllama does not check: a larger value ends the process.
inline constexpr std::uint32_t kMaxContextLength = 1U << 24U;  // no model is trained for more
inline constexpr int kMaxThreads = 512;                        // GGML_MAX_N_THREADS

struct LoadOptions {
  std::string path;
  // Longest context of a request, in tokens, and most cells of the unified KV cache, which all
  // sequences share. 0: the model's trained context length, at most kDefaultContextLength.
  std::uint32_t context_length = 0;
  // Cells to begin with; the cache grows with its requests (growth.h). 0: all of context_length.
  std::uint32_t kv_cells = 0;
  // Compute threads. 0: one for each performance core that this process may use, within its CPU
  // quota, and fewer for a very small model (llama/cpu_threads.h).
  int threads = 0;
  // Compute threads for long prompts (the prefill lane) and for embeddings. 0: as `threads`.
  int prompt_threads = 0;
  // Layers on the GPU. Negative: all, if there is a GPU.
  int gpu_layers = -1;
  // GPU that gets all of these layers: its name, or its index in the list of GPUs. Empty: all GPUs
  // share them.
  std::string main_gpu;
  // Share of each GPU in the layers, in any unit. Empty: by their free memory, or main_gpu. The
  // setting is llama.cpp's; the split is by whole layers.
  std::vector<float> tensor_split;
  // Number of layers, from the first on, whose experts stay in host memory and are computed there.
  std::uint32_t cpu_experts = 0;
  CacheType cache_type = CacheType::kF16;
  // Size of a sequence's state, for models whose sequences cannot share cells: a fixed part and a
  // part for each token, in bytes, as in MemoryEstimates. Both 0: unknown, and the copies of states
  // may be as large as the cache.
  std::uint64_t state_fixed_bytes = 0;
  std::uint64_t state_token_bytes = 0;
  // Sequences in the cache at the same time, at most 255; further generations wait. The prefix
  // cache uses the remaining sequence ids.
  std::uint32_t max_sequences = 64;
  // Folder of the prefix cache's disk tier; empty: no disk tier. The daemon gives each model one of
  // its own (cache/prefix_store.h). Created with access for its owner only, if it does not exist. A
  // prefix that cannot be written is dropped.
  std::string prefix_folder;
  // Name of this model in the folder's file names: letters and digits.
  std::string prefix_model;
  std::uint64_t prefix_bytes = 0;  // limit of all files in the folder
  // Secret key for the authentication codes of these files and the hashes of share names. Absent: a
  // random key, so that no later engine can read these files.
  std::optional<std::array<std::uint64_t, 2>> prefix_key;
  // Draft model for speculative decoding (drafter.h); empty: none. A draft model that cannot be
  // used is not an error: ModelInfo::draft_refusal gives the reason.
  std::string draft_path;
  // Projector, with which the model sees or hears (llama/media/projector.h); empty: none. One that
  // cannot be used is not an error: ModelInfo::projector_refusal gives the reason.
  std::string projector_path;
  // LoRA adapters that requests may name. One that cannot be used is not an error:
  // ModelInfo::adapters gives the reason.
  std::vector<AdapterFile> adapters;
  // Called on the loading thread with the progress (0..1). Returns false to cancel the load
  // (kCancelled).
  std::function<bool(float fraction)> on_progress;

  // Without `path`, `prefix_key` and `on_progress`, which need more than a type.
  SVC_FIELDS(LoadOptions, (context_length, .max = kMaxContextLength),
             (kv_cells, .max = kMaxContextLength), (threads, .max = kMaxThreads),
             (prompt_threads, .max = kMaxThreads),
             (gpu_layers, .min = std::numeric_limits<int>::min()), (main_gpu), (tensor_split),
             (cpu_experts), (cache_type), (state_fixed_bytes), (state_token_bytes), (max_sequences),
             (prefix_folder), (prefix_model), (prefix_bytes), (draft_path), (projector_path),
             (adapters))
};

inline constexpr std::uint32_t kDefaultContextLength = 8192;

}  // namespace svc
