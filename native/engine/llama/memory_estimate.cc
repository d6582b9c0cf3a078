// llama-ext.h, which provides the figures, is libllama's staging header for new functions. Headers
// and library are built from the same tag, so the declarations match.
#include "engine/llama/memory_estimate.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/heap.h"
#include "engine/base/private_bytes.h"
#include "engine/llama/draft_model.h"
#include "engine/llama/llama_context_ptr.h"
#include "engine/llama/llama_decoder.h"
#include "engine/llama/llama_encoder.h"
#include "engine/llama/llama_model.h"
#include "engine/llama/llama_prefill_lane.h"
#include "engine/llama/log_capture.h"
#include "engine/llama/lora/adapters.h"
#include "engine/llama/projector_memory.h"
#include "llama-ext.h"

namespace svc {
namespace {

// Overhead of a saved state beside the contents of the cache: tensor headers; position, sequence
// and token of each cell, for up to two caches.
constexpr std::uint64_t kStateHeadBytes = std::uint64_t{64} << 10U;
constexpr std::uint64_t kCellHeadBytes = 64;

// libllama rounds the number of cells up to a multiple of this.
constexpr std::uint32_t kCacheStep = 256;

// True for devices that have layers in memory of their own. Everything else, also a CPU
// accelerator, uses host memory.
bool HasMemory(ggml_backend_dev_t device) {
  const auto type = ggml_backend_dev_type(device);
  return type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU;
}

// True if libllama uses weights in place in the mapped file; mirrors its default decision.
bool UsesMapping(const llama_model* model) {
  if (!llama_supports_mmap()) return false;
  for (int i = 0; i < llama_model_n_devices(model); ++i) {
    ggml_backend_dev_props props;
    ggml_backend_dev_get_props(llama_model_get_device(model, i), &props);
    if (!props.caps.mmap_support) return false;
  }
  return true;
}

DeviceMemory RowOf(ggml_backend_dev_t device) {
  DeviceMemory row{.name = ggml_backend_dev_name(device)};
  std::size_t free = 0;
  std::size_t total = 0;
  ggml_backend_dev_memory(device, &free, &total);
  if (total > 0) row.total_bytes = total;
  if (free < total) row.free_bytes = free;
  return row;
}

std::vector<DeviceMemory> ReadBreakdown(const llama_model* model, const llama_context* context) {
  ggml_backend_dev_t processor = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  std::vector<DeviceMemory> rows = {{.name = ggml_backend_dev_name(processor), .is_host = true}};
  std::map<ggml_backend_dev_t, std::size_t> row_of;
  for (int i = 0; i < llama_model_n_devices(model); ++i) {
    ggml_backend_dev_t device = llama_model_get_device(model, i);
    if (!HasMemory(device)) continue;
    row_of[device] = rows.size();
    rows.push_back(RowOf(device));
  }
  const bool maps = UsesMapping(model);
  for (const auto& [type, bytes] : llama_get_memory_breakdown(context)) {
    ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
    const auto found = ggml_backend_buft_is_host(type) ? row_of.end() : row_of.find(device);
    DeviceMemory& row = rows[found == row_of.end() ? 0 : found->second];
    row.weights_bytes += bytes.model;
    row.cache_bytes += bytes.context;
    row.compute_bytes += bytes.compute;
    // Weights repacked for the CPU are copies, in buffers that do not count as host buffers.
    if (maps && ggml_backend_buft_is_host(type)) row.mapped_bytes += bytes.model;
  }
  return rows;
}

// Size of libllama's output buffer (llama_context::output_reserve). It is created for a few rows,
// grows to the largest number of outputs in a step, and is not in the breakdown.
std::uint64_t OutputBytes(const llama_model* model, const llama_context_params& params) {
  const std::uint64_t vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  const std::uint64_t embedding = params.embeddings ? llama_model_n_embd_out(model) : 0;
  const std::uint64_t rows = params.n_outputs_max > 0 ? params.n_outputs_max : params.n_batch;
  return rows * (vocabulary + embedding) * sizeof(float);
}

// Adds the prefill lane's memory, on the host, if there is a lane.
void AddLane(const LlamaModel& model, const llama_context_params& decoder_params,
             MemoryEstimate* estimate) {
  const std::uint32_t cells = LaneCells(model, estimate->context_length);
  if (cells == 0) return;
  const llama_context_params params = LlamaPrefillLane::Params(decoder_params, cells);
  const ContextPtr context(llama_init_from_model(model.get(), params));
  if (context == nullptr) return;  // then the engine goes without it, too
  const DeviceMemory lane = ReadBreakdown(model.get(), context.get()).front();
  DeviceMemory& host = estimate->devices.front();
  host.cache_bytes += lane.cache_bytes;
  host.compute_bytes += lane.compute_bytes + OutputBytes(model.get(), params);
}

// Cache of a context that has only one sequence and keeps no cells behind its window.
std::uint64_t CacheOfOne(const LlamaModel& model, llama_context_params params,
                         std::uint32_t cells) {
  params.n_ctx = cells;
  params.n_seq_max = 1;
  params.swa_full = false;
  const ContextPtr context(llama_init_from_model(model.get(), params));
  return context == nullptr ? 0 : CacheBytes(context.get());
}

// Size of a sequence's state if sequences cannot share cells. Two contexts of different lengths
// give the parts: above the window and a batch, only cells of the other layers are added.
StateSize StateSizeOf(const LlamaModel& model, const llama_context_params& params) {
  if (CanShareCells(model)) return {};
  const auto window = static_cast<std::uint32_t>(llama_model_n_swa(model.get())) + params.n_ubatch;
  const std::uint32_t cells = (window / kCacheStep + 1) * kCacheStep;
  const std::uint64_t small = CacheOfOne(model, params, cells);
  const std::uint64_t large = CacheOfOne(model, params, 2 * cells);
  if (small == 0 || large < small) return {};
  const std::uint64_t per_token = (large - small + cells - 1) / cells;
  const std::uint64_t fixed = small - std::min(small, per_token * cells);
  const std::uint64_t head = llama_model_is_recurrent(model.get()) ? 0 : kCellHeadBytes;
  return {.fixed_bytes = fixed + kStateHeadBytes, .token_bytes = per_token + head};
}

// The draft model that the engine would use; null: none.
std::unique_ptr<LlamaModel> DraftFor(const LoadOptions& options, const LlamaModel& model) {
  if (options.draft_path.empty() || MakesEmbeddings(model)) return nullptr;
  Result<std::unique_ptr<LlamaModel>> draft = LlamaModel::LoadMetadata(DraftLoadOptions(options));
  if (!draft.ok() || !DraftRefusal(model, *draft.value()).empty()) return nullptr;
  return std::move(draft.value());
}

// Adds the draft model's memory, on each device.
void AddDraft(const LlamaModel& draft, MemoryEstimate* estimate) {
  const llama_context_params params =
      DecoderParams(draft, DraftDecoderOptions(draft, estimate->context_length, /*threads=*/1));
  const ContextPtr context(llama_init_from_model(draft.get(), params));
  if (context == nullptr) return;  // then the engine goes without it, too
  std::vector<DeviceMemory> added = ReadBreakdown(draft.get(), context.get());
  added.front().compute_bytes += OutputBytes(draft.get(), params);
  for (DeviceMemory& row : added) {
    const auto same =
        std::find_if(estimate->devices.begin(), estimate->devices.end(),
                     [&](const DeviceMemory& device) { return device.name == row.name; });
    if (same == estimate->devices.end()) {
      estimate->devices.push_back(std::move(row));
      continue;
    }
    same->weights_bytes += row.weights_bytes;
    same->mapped_bytes += row.mapped_bytes;
    same->cache_bytes += row.cache_bytes;
    same->compute_bytes += row.compute_bytes;
  }
}

// Adds the projector's memory, on each device; none if it cannot be used.
void AddProjector(const LoadOptions& options, MemoryEstimate* estimate) {
  for (const auto& [name, bytes] : ProjectorBytes(options)) {
    const auto device = std::ranges::find(estimate->devices, name, &DeviceMemory::name);
    DeviceMemory& row = device == estimate->devices.end() ? estimate->devices.front() : *device;
    row.weights_bytes += bytes;
  }
}

// Adds the adapters' memory. Each of their tensors lies where the weight lies that it corrects, so
// most of them where most weights are.
void AddAdapters(const LoadOptions& options, const llama_context_params& params,
                 MemoryEstimate* estimate) {
  DeviceMemory& row =
      *std::ranges::max_element(estimate->devices, {}, &DeviceMemory::weights_bytes);
  std::uint64_t correction = 0;
  for (const AdapterFile& file : options.adapters) {
    const AdapterMemory memory = AdapterMemoryOf(file.path);
    row.weights_bytes += memory.weights_bytes;
    correction = std::max({correction, std::uint64_t{memory.widest_rows} * params.n_ubatch,
                           std::uint64_t{memory.output_width} * params.n_outputs_max});
  }
  row.compute_bytes += correction * sizeof(float);
}

Result<MemoryEstimates> Estimate(const LoadOptions& options,
                                 const std::vector<std::uint32_t>& context_lengths) {
  if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) == nullptr) {
    return Status(StatusCode::kEngineUnavailable, "no CPU module has been loaded");
  }
  SVC_ASSIGN_OR_RETURN(const std::unique_ptr<LlamaModel> loaded, LlamaModel::LoadMetadata(options));
  const LlamaModel& model = *loaded;
  const std::unique_ptr<LlamaModel> draft = DraftFor(options, model);

  MemoryEstimates result;
  result.trained_context_length = static_cast<std::uint32_t>(llama_model_n_ctx_train(model.get()));
  result.layers = static_cast<std::uint32_t>(llama_model_n_layer(model.get()));
  result.has_experts = model.has_experts();
  result.makes_embeddings = MakesEmbeddings(model);
  StateSize state_size;
  if (!result.makes_embeddings) {
    state_size = StateSizeOf(model, DecoderParams(model, DecoderOptionsOf(options, model)));
  }
  result.state_fixed_bytes = state_size.fixed_bytes;
  result.state_token_bytes = state_size.token_bytes;
  for (const std::uint32_t length : context_lengths) {
    LoadOptions asked = options;
    asked.context_length = length;
    asked.kv_cells = 0;
    const std::uint32_t max_tokens = MaxInputTokens(asked, result.trained_context_length);
    const llama_context_params params = result.makes_embeddings
                                            ? EncoderParams(model, kBatchTokens)
                                            : DecoderParams(model, DecoderOptionsOf(asked, model));
    const LogCapture log;
    const ContextPtr context(llama_init_from_model(model.get(), params));
    if (context == nullptr) {
      return log.Failure("cannot lay out a cache of " + std::to_string(params.n_ctx) + " tokens");
    }
    MemoryEstimate estimate{
        .context_length = result.makes_embeddings ? max_tokens : llama_n_ctx(context.get()),
        .devices = ReadBreakdown(model.get(), context.get())};
    estimate.devices.front().compute_bytes += OutputBytes(model.get(), params);
    if (!result.makes_embeddings) {
      AddLane(model, params, &estimate);
      const std::uint64_t cache_bytes = CacheBytes(context.get());
      estimate.devices.front().cache_bytes +=
          CanShareCells(model) ? CopyBytes(cache_bytes)
                               : StateCopyBytes(cache_bytes, state_size, estimate.context_length);
    }
    if (!result.makes_embeddings) AddAdapters(options, params, &estimate);
    if (draft != nullptr) AddDraft(*draft, &estimate);
    if (!options.projector_path.empty()) AddProjector(options, &estimate);
    result.estimates.push_back(std::move(estimate));
    if (!result.process_bytes) {
      TrimHeaps();  // as LlamaModel::Load does
      result.process_bytes = PrivateBytes();
    }
  }
  return result;
}

}  // namespace

Result<MemoryEstimates> EstimateMemory(const LoadOptions& options,
                                       const std::vector<std::uint32_t>& context_lengths) {
  Result<MemoryEstimates> result = Estimate(options, context_lengths);
  // A vocabulary is a hundred thousand small strings. Without this, the allocator would keep their
  // memory for this thread, while the following load runs on another one.
  TrimHeaps();
  return result;
}

}  // namespace svc
