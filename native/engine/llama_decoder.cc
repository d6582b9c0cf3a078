// How the context is set up, and why:
//   * kv_unified: any sequence may use any cell, and sequence ids up to 255 cost nothing. n_seq_max
//     stays 1, because libllama sizes host buffers by it. Recurrent and hybrid models keep a state
//     for each of n_seq_max sequences, so there the ids end with it, and there are few.
//   * swa_full: layers with a sliding window keep all cells. The small window cache is sized by
//     n_seq_max and would be full with the second sequence. Even so, cells that have left the
//     window of their sequence may be given to another one: such a model cannot share cells.
//   * n_outputs_max: no more rows ask for logits than there are sequences; without it a buffer of
//     n_batch x vocabulary floats is reserved.
//   * n_batch = n_ubatch: a step is one graph run, so that an abort leaves nothing half done.
//   * thread pools of our own: without one, each decode starts and joins threads. One for each
//   number
//     of threads that has been asked for, because threads of a pool that take no part in a step
//     spin in wait for the next one; those of a pool that is not attached go to sleep.
#include "engine/llama_decoder.h"

#include <algorithm>
#include <exception>
#include <map>
#include <vector>

#include "engine/log_capture.h"

namespace svc {
namespace {

constexpr std::uint32_t kMaxRows = 512;
constexpr std::uint32_t kMaxRecurrentSequences = 16;
constexpr std::uint32_t kSequenceIds = 256;  // LLAMA_MAX_SEQ

// A ggml thread pool, through the registry of the CPU module: it is opened at run time.
class ThreadPool {
 public:
  explicit ThreadPool(int threads) {
    ggml_backend_reg_t cpu =
        ggml_backend_dev_backend_reg(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
    using New = ggml_threadpool* (*)(ggml_threadpool_params*);
    const auto make =
        reinterpret_cast<New>(ggml_backend_reg_get_proc_address(cpu, "ggml_threadpool_new"));
    free_ = reinterpret_cast<Free>(ggml_backend_reg_get_proc_address(cpu, "ggml_threadpool_free"));
    ggml_threadpool_params params = ggml_threadpool_params_default(threads);
    if (make != nullptr && free_ != nullptr) pool_ = make(&params);
  }
  ~ThreadPool() {
    if (pool_ != nullptr) free_(pool_);
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  ggml_threadpool* get() const { return pool_; }

 private:
  using Free = void (*)(ggml_threadpool*);
  Free free_ = nullptr;
  ggml_threadpool* pool_ = nullptr;
};

struct FreeContext {
  void operator()(llama_context* context) const { llama_free(context); }
};
using ContextPtr = std::unique_ptr<llama_context, FreeContext>;

class LlamaDecoder final : public Decoder {
 public:
  LlamaDecoder(const LlamaModel& model, ContextPtr context, int threads, bool on_cpu,
               std::uint32_t max_sequences, bool can_share)
      : model_(model),
        context_(std::move(context)),
        max_threads_(on_cpu ? threads : 1),
        max_sequences_(max_sequences),
        can_share_(can_share) {
    SetThreads(threads);
    llama_set_abort_callback(
        context_.get(),
        [](void* user) {
          const auto* abort = static_cast<LlamaDecoder*>(user)->abort_;
          return abort != nullptr && abort->load(std::memory_order_relaxed);
        },
        this);
  }

  DecodeOutcome Decode(std::span<const Row> rows, const std::atomic<bool>& abort) override {
    const std::size_t count = rows.size();
    tokens_.resize(count);
    positions_.resize(count);
    sequences_.resize(count);
    sequence_counts_.assign(count, 1);
    sequence_pointers_.resize(count);
    wants_logits_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      tokens_[i] = rows[i].token;
      positions_[i] = rows[i].position;
      sequences_[i] = rows[i].sequence;
      sequence_pointers_[i] = &sequences_[i];
      wants_logits_[i] = rows[i].wants_logits ? 1 : 0;
    }
    llama_batch batch{};
    batch.n_tokens = static_cast<std::int32_t>(count);
    batch.token = tokens_.data();
    batch.pos = positions_.data();
    batch.n_seq_id = sequence_counts_.data();
    batch.seq_id = sequence_pointers_.data();
    batch.logits = wants_logits_.data();

    abort_ = &abort;
    const AbortedLog log(abort);
    const DecodeOutcome outcome = Run(batch);
    abort_ = nullptr;
    return outcome;
  }

  const float* Logits(std::size_t index) override {
    return llama_get_logits_ith(context_.get(), static_cast<std::int32_t>(index));
  }

  std::int32_t NextPosition(SequenceId sequence) const override {
    return llama_memory_seq_pos_max(memory(), sequence) + 1;
  }
  void RemoveSequence(SequenceId sequence) override {
    llama_memory_seq_rm(memory(), sequence, -1, -1);
  }

  bool can_share() const override { return can_share_; }
  void ShareCells(SequenceId from, SequenceId to, std::uint32_t begin, std::uint32_t end) override {
    llama_memory_seq_cp(memory(), from, to, static_cast<llama_pos>(begin),
                        static_cast<llama_pos>(end));
  }
  void RemoveCells(SequenceId sequence, std::uint32_t begin, std::uint32_t end) override {
    llama_memory_seq_rm(memory(), sequence, static_cast<llama_pos>(begin),
                        static_cast<llama_pos>(end));
  }

  bool IsEndOfGeneration(Token token) const override {
    return llama_vocab_is_eog(model_.vocab(), token);
  }
  std::string Piece(Token token) const override { return model_.Piece(token, /*special=*/false); }

  void SetThreads(int threads) override {
    std::unique_ptr<ThreadPool>& pool = pools_[threads];
    if (pool == nullptr) pool = std::make_unique<ThreadPool>(threads);
    if (pool->get() != nullptr) {
      llama_attach_threadpool(context_.get(), pool->get(), pool->get());
    }
    llama_set_n_threads(context_.get(), threads, threads);
  }
  int max_threads() const override { return max_threads_; }

  std::uint32_t max_rows() const override { return llama_n_batch(context_.get()); }
  std::uint32_t max_sequences() const override { return max_sequences_; }
  std::uint32_t sequence_ids() const override { return can_share_ ? kSequenceIds : max_sequences_; }
  std::uint32_t vocabulary() const override {
    return static_cast<std::uint32_t>(llama_vocab_n_tokens(model_.vocab()));
  }
  std::uint32_t cells_total() const override { return llama_n_ctx(context_.get()); }

 private:
  llama_memory_t memory() const { return llama_get_memory(context_.get()); }

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

  const LlamaModel& model_;
  std::map<int, std::unique_ptr<ThreadPool>> pools_;  // outlive the context
  const ContextPtr context_;
  const int max_threads_;
  const std::uint32_t max_sequences_;
  const bool can_share_;
  const std::atomic<bool>* abort_ = nullptr;  // of the decode that runs

  // The batch's columns, kept to spare allocations.
  std::vector<llama_token> tokens_;
  std::vector<llama_pos> positions_;
  std::vector<llama_seq_id> sequences_;
  std::vector<std::int32_t> sequence_counts_;
  std::vector<llama_seq_id*> sequence_pointers_;
  std::vector<std::int8_t> wants_logits_;
};

}  // namespace

Result<std::unique_ptr<Decoder>> NewLlamaDecoder(const LlamaModel& model,
                                                 const DecoderOptions& options) {
  const bool recurrent =
      llama_model_is_recurrent(model.get()) || llama_model_is_hybrid(model.get());
  const std::uint32_t max_sequences =
      recurrent ? std::min(options.max_sequences, kMaxRecurrentSequences) : options.max_sequences;

  llama_context_params params = llama_context_default_params();
  params.n_ctx = options.context_length;
  params.n_batch = kMaxRows;
  params.n_ubatch = kMaxRows;
  params.n_seq_max = recurrent ? max_sequences : 1;
  params.n_outputs_max = max_sequences + kPaddingIds;
  params.n_outputs_max_per_seq = 1;
  params.n_threads = options.threads;
  params.n_threads_batch = options.threads;
  params.kv_unified = true;
  params.swa_full = true;
  params.no_perf = true;

  const LogCapture log;
  ContextPtr context(llama_init_from_model(model.get(), params));
  if (context == nullptr) {
    const std::string reason = log.Reason().empty() ? "libllama refuses it" : log.Reason();
    return Status(log.OutOfMemory() ? StatusCode::kOutOfMemory : StatusCode::kModelInvalid,
                  "no cache of " + std::to_string(options.context_length) + " tokens: " + reason);
  }
  if (llama_get_memory(context.get()) == nullptr) {
    return Status(StatusCode::kModelInvalid, "the model has no cache, so it cannot generate text");
  }
  const bool can_share = !recurrent && llama_model_n_swa(model.get()) == 0;
  return std::unique_ptr<Decoder>(
      std::make_unique<LlamaDecoder>(model, std::move(context), options.threads,
                                     model.device() == "CPU", max_sequences, can_share));
}

}  // namespace svc
