#include "engine/llama/decoder_options.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "engine/llama/cpu_threads.h"
#include "engine/model/decoder.h"
#include "llama-ext.h"

namespace svc {
namespace {

constexpr std::uint32_t kMaxRows = 512;
// On GPUs with at least kRoomyBytes, where the larger buffers do not matter.
constexpr std::uint32_t kMaxRowsOnGpu = 2048;
constexpr std::uint64_t kRoomyBytes = std::uint64_t{8} << 30U;
constexpr std::uint32_t kMaxRecurrentSequences = 16;

constexpr std::uint32_t kLanePart = 4;  // the initial lane has 1/4 of the cells
constexpr std::uint32_t kLeastLaneCells = 512;

// See CopyBytes: caches up to kCopiedWhole bytes may be copied whole, larger ones by a fraction.
constexpr std::uint64_t kCopiedWhole = std::uint64_t{512} << 20U;
constexpr std::uint64_t kCopiedPart = 4;
constexpr std::uint64_t kLongestStates = 2;  // see StateCopyBytes

// Total memory of each GPU that the model uses, in bytes.
std::vector<std::uint64_t> MemoryOfGpus(const LlamaModel& model) {
  std::vector<std::uint64_t> all;
  for (int i = 0; i < llama_model_n_devices(model.get()); ++i) {
    std::size_t free = 0;
    std::size_t total = 0;
    ggml_backend_dev_memory(llama_model_get_device(model.get(), i), &free, &total);
    all.push_back(total);
  }
  return all;
}

}  // namespace

std::uint32_t MaxOutputsOf(std::uint32_t max_sequences) {
  return std::max(max_sequences + kPaddingIds, kLeastOutputs);
}

std::uint32_t SequencesOf(const LlamaModel& model, const DecoderOptions& options) {
  return std::min(options.max_sequences,
                  model.is_recurrent() ? kMaxRecurrentSequences : kSequenceIds - 1);
}

bool CanShareCells(const LlamaModel& model) {
  return !model.is_recurrent() && llama_model_n_swa(model.get()) == 0;
}

DecoderOptions DecoderOptionsOf(const LoadOptions& options, const LlamaModel& model) {
  std::uint32_t context_length = options.context_length;
  if (context_length == 0) {
    const int trained = llama_model_n_ctx_train(model.get());
    context_length = trained > 0 ? std::min<std::uint32_t>(trained, kDefaultContextLength)
                                 : kDefaultContextLength;
  }
  // What is computed before the cache grows has to fit the larger one.
  const std::optional<std::uint32_t> turn = model.turning_length();
  if (turn && options.kv_cells > 0 && options.kv_cells <= *turn) {
    context_length = std::min(context_length, *turn);
  }
  return {.context_length = context_length,
          .cells = options.kv_cells,
          .threads =
              options.threads > 0 ? options.threads : DefaultThreads(llama_model_size(model.get())),
          .prompt_threads = options.prompt_threads,
          .max_sequences = std::max(options.max_sequences, 1U),
          .cache_type = options.cache_type,
          .state_size = {.fixed_bytes = options.state_fixed_bytes,
                         .token_bytes = options.state_token_bytes}};
}

std::uint32_t LaneCells(const LlamaModel& model, std::uint32_t cells) {
  const std::uint32_t part = cells / kLanePart;
  if (!CanShareCells(model) || model.device() != "CPU" || part < kLeastLaneCells) return 0;
  // Both have to encode positions alike.
  const std::uint32_t turn = model.turning_length().value_or(cells);
  return cells > turn && part <= turn ? 0 : part;
}

std::uint32_t LargestBatch(std::span<const std::uint64_t> gpu_bytes) {
  const bool roomy = std::all_of(gpu_bytes.begin(), gpu_bytes.end(),
                                 [](std::uint64_t bytes) { return bytes >= kRoomyBytes; });
  return roomy && !gpu_bytes.empty() ? kMaxRowsOnGpu : kMaxRows;
}

std::uint64_t CacheBytes(const llama_context* context) {
  std::uint64_t sum = 0;
  for (const auto& [type, bytes] : llama_get_memory_breakdown(context)) sum += bytes.context;
  return sum;
}

std::uint64_t CopyBytes(std::uint64_t cache_bytes) {
  return std::min(cache_bytes, std::max(kCopiedWhole, cache_bytes / kCopiedPart));
}

std::uint64_t StateCopyBytes(std::uint64_t cache_bytes, const StateSize& size,
                             std::uint32_t cells) {
  const std::uint64_t longest = size.Of(cells);
  if (longest == 0) return cache_bytes;
  return std::max(CopyBytes(cache_bytes), kLongestStates * longest);
}

llama_context_params DecoderParams(const LlamaModel& model, const DecoderOptions& options) {
  const std::uint32_t max_sequences = SequencesOf(model, options);
  llama_context_params params = llama_context_default_params();
  params.n_ctx =
      options.cells > 0 ? std::min(options.cells, options.context_length) : options.context_length;
  params.n_batch = LargestBatch(MemoryOfGpus(model));
  params.n_ubatch = params.n_batch;
  params.n_seq_max = model.is_recurrent() ? max_sequences : 1;
  params.n_outputs_max = MaxOutputsOf(max_sequences);
  params.n_outputs_max_per_seq = 1;
  params.n_threads = options.threads;
  params.n_threads_batch = options.prompt_threads > 0 ? options.prompt_threads : options.threads;
  params.kv_unified = true;
  params.swa_full = true;
  params.no_perf = true;
  if (options.cache_type == CacheType::kQ8_0) params.type_k = params.type_v = GGML_TYPE_Q8_0;
  return params;
}

}  // namespace svc
