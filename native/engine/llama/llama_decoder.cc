// How the context is set up, and why:
//   * kv_unified: any sequence may use any cell, and sequence ids up to 255 cost nothing. n_seq_max
//     stays 1, because libllama sizes host buffers by it. Recurrent and hybrid models keep a state
//     for each of n_seq_max sequences, so there the number of ids is n_seq_max, and small.
//   * Id 0 is our scratch sequence where n_seq_max is 1: libllama can save only the state of ids
//     below n_seq_max. A sequence to be saved is shared with the scratch sequence first.
//   * swa_full: layers with a sliding window keep all cells. The small window cache is sized by
//     n_seq_max and would be full with the second sequence. Even so, cells that have left the
//     window of their sequence may be reused: such a model cannot share cells.
//   * n_outputs_max: logits for at most max_outputs() rows; otherwise libllama reserves a buffer of
//     n_batch x vocabulary floats. n_outputs_max_per_seq matters only for samplers on the device.
//   * n_batch = n_ubatch: a step is one graph run, so that an abort leaves nothing half done. A GPU
//     with enough memory gets larger batches, which it needs to be busy.
//   * Thread pools of our own: without one, each decode starts and joins threads. One pool for each
//     number of threads in use, because pool threads that take no part in a step spin while they
//     wait for the next one; threads of a pool that is not attached sleep.
//
// On a CPU there is a prefill lane. It has a quarter of the cells or, for a longer prompt, half or
// all of them, as far as the memory for copies allows: a lane that grows takes it from the
// swapped-out prefixes. A GPU needs no lane: it computes large batches without a noticeable delay,
// and has no memory to spare.
#include "engine/llama/llama_decoder.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <vector>

#include "engine/llama/batch_rows.h"
#include "engine/llama/cpu_threads.h"
#include "engine/llama/llama_context_ptr.h"
#include "engine/llama/llama_prefill_lane.h"
#include "engine/llama/log_capture.h"
#include "llama-ext.h"

namespace svc {
namespace {

constexpr std::uint32_t kMaxRows = 512;
// On GPUs with at least kRoomyBytes, where the larger buffers do not matter.
constexpr std::uint32_t kMaxRowsOnGpu = 2048;
constexpr std::uint64_t kRoomyBytes = std::uint64_t{8} << 30U;
constexpr std::uint32_t kMaxRecurrentSequences = 16;
constexpr std::uint32_t kSequenceIds = 256;  // LLAMA_MAX_SEQ
constexpr llama_seq_id kScratch = 0;

// A CPU walks over every cell up to the last one in use: with half a billion weights, 12,000 idle
// cells make a row half as slow again. So only a few stay: too few to slow a step noticeably,
// enough for a short prompt to be reused without a copy.
constexpr std::uint32_t kIdleCells = 64;

constexpr std::uint32_t kLanePart = 4;  // the initial lane has 1/4 of the cells
constexpr std::uint32_t kLeastLaneCells = 512;

// See CopyBytes: caches up to kCopiedWhole bytes may be copied whole, larger ones by a fraction.
constexpr std::uint64_t kCopiedWhole = std::uint64_t{512} << 20U;
constexpr std::uint64_t kCopiedPart = 4;
constexpr std::uint64_t kLongestStates = 2;  // see StateCopyBytes

std::uint32_t MaxOutputs(std::uint32_t max_sequences) {
  return std::max(max_sequences + kPaddingIds, kLeastOutputs);
}

std::uint32_t Sequences(const LlamaModel& model, const DecoderOptions& options) {
  return std::min(options.max_sequences,
                  model.is_recurrent() ? kMaxRecurrentSequences : kSequenceIds - 1 - kScratch);
}

class LlamaDecoder final : public Decoder {
 public:
  // `context` was created with `params`.
  LlamaDecoder(const LlamaModel& model, std::shared_ptr<ThreadPools> pools, ContextPtr context,
               const llama_context_params& params, const DecoderOptions& options)
      : model_(model),
        pools_(std::move(pools)),
        context_(std::move(context)),
        params_(params),
        state_size_(options.state_size),
        max_cells_(std::max(options.context_length, llama_n_ctx(context_.get()))),
        threads_(options.threads),
        on_cpu_(model.device() == "CPU"),
        max_threads_(on_cpu_ ? options.threads : 1),
        max_sequences_(Sequences(model, options)),
        can_share_(CanShareCells(model)),
        first_id_(model.is_recurrent() ? 0 : kScratch + 1) {
    Adopt();
  }

  DecodeOutcome Decode(std::span<const Row> rows, const std::atomic<bool>& abort) override {
    batch_.Clear();
    for (const Row& row : rows) {
      batch_.Add(row.token, row.position, Id(row.sequence), row.wants_logits);
    }
    abort_ = &abort;
    const AbortedLog log(abort);
    const DecodeOutcome outcome = Run(batch_.Batch());
    abort_ = nullptr;
    return outcome;
  }

  const float* Logits(std::size_t index) override {
    return llama_get_logits_ith(context_.get(), static_cast<std::int32_t>(index));
  }

  std::int32_t NextPosition(SequenceId sequence) const override {
    return llama_memory_seq_pos_max(memory(), Id(sequence)) + 1;
  }
  void RemoveSequence(SequenceId sequence) override {
    llama_memory_seq_rm(memory(), Id(sequence), -1, -1);
  }

  void Clear() override {
    lane_ = nullptr;
    llama_memory_clear(memory(), /*data=*/false);
    SetThreads(max_threads_);
  }

  bool can_share() const override { return can_share_; }
  void ShareCells(SequenceId from, SequenceId to, std::uint32_t begin, std::uint32_t end) override {
    llama_memory_seq_cp(memory(), Id(from), Id(to), static_cast<llama_pos>(begin),
                        static_cast<llama_pos>(end));
  }
  void RemoveCells(SequenceId sequence, std::uint32_t begin, std::uint32_t end) override {
    llama_memory_seq_rm(memory(), Id(sequence), static_cast<llama_pos>(begin),
                        static_cast<llama_pos>(end));
  }

  std::uint64_t SizeOfState(SequenceId sequence, std::uint32_t begin, std::uint32_t end) override {
    const std::uint64_t bytes =
        llama_state_seq_get_size(context_.get(), Lend(sequence, begin, end));
    GiveBack();
    return bytes;
  }
  StateBytes SaveState(SequenceId sequence, std::uint32_t begin, std::uint32_t end) override {
    StateBytes state = SaveSequence(context_.get(), Lend(sequence, begin, end));
    GiveBack();
    return state;
  }
  bool LoadState(SequenceId sequence, std::span<const std::uint8_t> state, std::uint32_t begin,
                 std::uint32_t end) override {
    const llama_seq_id id = has_scratch() ? kScratch : Id(sequence);
    bool loaded = LoadSequence(context_.get(), id, state) &&
                  llama_memory_seq_pos_max(memory(), id) + 1 >= static_cast<llama_pos>(end);
    if (can_share_) {
      loaded = loaded && llama_memory_seq_pos_min(memory(), id) <= static_cast<llama_pos>(begin);
    }
    if (has_scratch()) {
      if (loaded) {
        llama_memory_seq_cp(memory(), kScratch, Id(sequence), static_cast<llama_pos>(begin),
                            static_cast<llama_pos>(end));
      }
      llama_memory_seq_rm(memory(), kScratch, -1, -1);
    } else if (!loaded) {
      llama_memory_seq_rm(memory(), id, -1, -1);
    }
    return loaded;
  }

  std::uint32_t idle_cells() const override {
    return on_cpu_ ? std::min(kIdleCells, cells_total()) : cells_total();
  }

  std::uint32_t lane_cells() const override { return lane_cells_; }
  PrefillLane* lane(std::uint32_t tokens) override {
    if (lane_ != nullptr && lane_params_.n_ctx >= tokens) return lane_.get();
    const std::uint32_t cells = LaneFor(tokens);
    lane_ = nullptr;  // freed before the new one is allocated
    lane_params_.n_ctx = cells;
    lane_ = LlamaPrefillLane::New(model_.get(), lane_params_);
    if (lane_ != nullptr) {
      SetLaneThreads();
    } else {
      lane_cells_ = cells > least_lane_cells_ ? cells / 2 : 0;
    }
    return lane_.get();
  }
  void ShrinkLane() override {
    if (lane_ != nullptr && lane_params_.n_ctx > least_lane_cells_) lane_ = nullptr;
  }

  std::uint32_t max_copied(std::uint32_t lane_tokens) const override {
    std::uint32_t cells = LaneFor(lane_tokens);
    if (lane_ != nullptr) cells = std::max(cells, lane_params_.n_ctx);
    return copied_cells_ - std::min(copied_cells_, cells - least_lane_cells_);
  }
  std::uint64_t max_state_bytes() const override {
    return StateCopyBytes(cache_bytes_, state_size_, cells_total());
  }

  bool IsEndOfGeneration(Token token) const override {
    return llama_vocab_is_eog(model_.vocab(), token);
  }
  std::string Piece(Token token) const override { return model_.Piece(token, /*special=*/false); }

  void SetThreads(int threads) override {
    ggml_threadpool* const pool = pools_->Get(threads);
    if (pool != nullptr) llama_attach_threadpool(context_.get(), pool, pool);
    llama_set_n_threads(context_.get(), threads, threads);
    threads_ = threads;
    if (lane_ != nullptr) SetLaneThreads();
  }
  int max_threads() const override { return max_threads_; }

  std::uint32_t max_rows() const override { return llama_n_batch(context_.get()); }
  std::uint32_t max_outputs() const override { return MaxOutputs(max_sequences_); }
  std::uint32_t max_sequences() const override { return max_sequences_; }
  std::uint32_t sequence_ids() const override {
    return can_share_ ? kSequenceIds - static_cast<std::uint32_t>(first_id_) : max_sequences_;
  }
  std::uint32_t vocabulary() const override {
    return static_cast<std::uint32_t>(llama_vocab_n_tokens(model_.vocab()));
  }
  std::uint32_t cells_total() const override { return llama_n_ctx(context_.get()); }

  std::uint32_t max_cells() const override { return max_cells_; }
  bool Grow(std::uint32_t cells) override {
    const std::uint32_t before = cells_total();
    // Freed before the new one is allocated: there is memory for one of them.
    lane_ = nullptr;
    context_ = nullptr;
    const LogCapture log;
    for (const std::uint32_t size : {cells, before}) {
      params_.n_ctx = size;
      context_.reset(llama_init_from_model(model_.get(), params_));
      if (context_ != nullptr) break;
    }
    // Nothing can be computed any more. The requests get a new process.
    if (context_ == nullptr) std::abort();
    Adopt();
    return cells_total() >= cells;
  }

 private:
  llama_memory_t memory() const { return llama_get_memory(context_.get()); }
  llama_seq_id Id(SequenceId sequence) const { return sequence + first_id_; }
  bool has_scratch() const { return first_id_ > kScratch; }

  // An id whose state libllama can save, with the sequence's tokens [begin, end); until GiveBack.
  llama_seq_id Lend(SequenceId sequence, std::uint32_t begin, std::uint32_t end) {
    if (!has_scratch()) return Id(sequence);
    llama_memory_seq_cp(memory(), Id(sequence), kScratch, static_cast<llama_pos>(begin),
                        static_cast<llama_pos>(end));
    return kScratch;
  }
  void GiveBack() {
    if (has_scratch()) llama_memory_seq_rm(memory(), kScratch, -1, -1);
  }

  // Sets up a new context, and what depends on its size.
  void Adopt() {
    cache_bytes_ = CacheBytes(context_.get());
    copied_cells_ = CopiedCells(cache_bytes_, cells_total());
    least_lane_cells_ = LaneCells(model_, cells_total());
    lane_params_ = LlamaPrefillLane::Params(params_, least_lane_cells_);
    lane_cells_ = LargestLane(least_lane_cells_, copied_cells_, cells_total());
    SetThreads(threads_);
    llama_set_abort_callback(
        context_.get(),
        [](void* user) {
          const auto* abort = static_cast<LlamaDecoder*>(user)->abort_;
          return abort != nullptr && abort->load(std::memory_order_relaxed);
        },
        this);
  }

  DecodeOutcome Run(const llama_batch& batch) {
    int code = 0;
    try {
      code = llama_decode(context_.get(), batch);
    } catch (const std::exception&) {
      return DecodeOutcome::kFailed;
    }
    switch (code) {
      case 0:
        return DecodeOutcome::kDone;
      case 1:
        return DecodeOutcome::kNoCells;
      case 2:
        return DecodeOutcome::kAborted;
      default:
        return DecodeOutcome::kFailed;
    }
  }

  static std::uint32_t CopiedCells(std::uint64_t cache_bytes, std::uint32_t cells) {
    if (cache_bytes == 0) return cells;
    return static_cast<std::uint32_t>(static_cast<double>(CopyBytes(cache_bytes)) /
                                      static_cast<double>(cache_bytes) * cells);
  }
  // Largest size to which the lane may be doubled while its growth fits in the memory for copies.
  static std::uint32_t LargestLane(std::uint32_t least, std::uint32_t copied, std::uint32_t total) {
    std::uint32_t cells = least;
    while (cells > 0 && cells < total && std::min(cells * 2, total) - least <= copied) {
      cells = std::min(cells * 2, total);
    }
    return cells;
  }
  // Lane size for a prompt of `tokens` tokens: the initial size, doubled as often as needed.
  std::uint32_t LaneFor(std::uint32_t tokens) const {
    std::uint32_t cells = least_lane_cells_;
    while (cells < std::min(tokens, lane_cells_)) cells = std::min(cells * 2, lane_cells_);
    return cells;
  }

  // The lane has its own number of threads while the steps use all of theirs; otherwise at most as
  // many as the steps.
  void SetLaneThreads() {
    const int most = lane_params_.n_threads_batch;
    const int threads = threads_ == max_threads_ ? most : std::min(most, threads_);
    lane_->SetThreads(pools_->Get(threads), threads);
  }

  const LlamaModel& model_;
  const std::shared_ptr<ThreadPools> pools_;  // must outlive the context
  ContextPtr context_;
  llama_context_params params_;
  const StateSize state_size_;
  const std::uint32_t max_cells_;

  // ---- set by Adopt ----
  llama_context_params lane_params_ = {};
  std::uint64_t cache_bytes_ = 0;
  std::uint32_t copied_cells_ = 0;  // limit for copies, with the initial lane
  std::uint32_t least_lane_cells_ = 0;
  std::uint32_t lane_cells_ = 0;  // largest lane; 0: no lane

  std::unique_ptr<LlamaPrefillLane> lane_;
  int threads_;
  const bool on_cpu_;
  const int max_threads_;
  const std::uint32_t max_sequences_;
  const bool can_share_;
  const llama_seq_id first_id_;               // libllama's id for our sequence 0
  const std::atomic<bool>* abort_ = nullptr;  // of the running decode
  BatchRows batch_;
};

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
  return CanShareCells(model) && model.device() == "CPU" && part >= kLeastLaneCells ? part : 0;
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
  const std::uint32_t max_sequences = Sequences(model, options);
  llama_context_params params = llama_context_default_params();
  params.n_ctx =
      options.cells > 0 ? std::min(options.cells, options.context_length) : options.context_length;
  params.n_batch = LargestBatch(MemoryOfGpus(model));
  params.n_ubatch = params.n_batch;
  params.n_seq_max = model.is_recurrent() ? max_sequences : 1;
  params.n_outputs_max = MaxOutputs(max_sequences);
  params.n_outputs_max_per_seq = 1;
  params.n_threads = options.threads;
  params.n_threads_batch = options.prompt_threads > 0 ? options.prompt_threads : options.threads;
  params.kv_unified = true;
  params.swa_full = true;
  params.no_perf = true;
  if (options.cache_type == CacheType::kQ8_0) params.type_k = params.type_v = GGML_TYPE_Q8_0;
  return params;
}

Result<std::unique_ptr<Decoder>> NewLlamaDecoder(const LlamaModel& model,
                                                 const DecoderOptions& options,
                                                 std::shared_ptr<ThreadPools> pools) {
  const llama_context_params params = DecoderParams(model, options);
  const LogCapture log;
  ContextPtr context(llama_init_from_model(model.get(), params));
  if (context == nullptr) {
    const std::string reason = log.Reason().empty() ? "libllama gave no reason" : log.Reason();
    return Status(
        log.OutOfMemory() ? StatusCode::kOutOfMemory : StatusCode::kModelInvalid,
        "cannot create a cache of " + std::to_string(params.n_ctx) + " tokens: " + reason);
  }
  if (llama_get_memory(context.get()) == nullptr) {
    return Status(StatusCode::kModelInvalid, "the model has no cache, so it cannot generate text");
  }
  return std::unique_ptr<Decoder>(
      std::make_unique<LlamaDecoder>(model, std::move(pools), std::move(context), params, options));
}

}  // namespace svc
