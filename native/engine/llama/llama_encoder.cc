// How the context is set up, and why:
//   * Inputs that share a batch are sequences of one graph run, and pooling needs each of them
//     whole in that run: n_ctx = n_batch = n_ubatch.
//   * A run computes attention between all its rows, even those that a mask then separates. So a
//     batch with more rows than keep the processor busy costs more than two batches: kBatchTokens.
//   * A longer input is computed alone, in a new context of its size. Long inputs are rare, and in
//     some models buffers grow with the square of the rows, so it is created only when needed, and
//     freed after the batch: the memory that is planned for the model is that of kBatchTokens.
//   * Models with a cache (causal ones) start each batch with an empty one.
//   * If a vector is that of the last token (ReadsLast), the other rows are computed first, without
//     outputs. That saves the product with the vocabulary, which libllama computes for each output
//     row of such models, and a long input needs only a larger cache, no larger batch.
//   * No thread pool is attached: libllama starts threads for each batch, which is long enough.
#include "engine/llama/llama_encoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "engine/llama/batch_rows.h"
#include "engine/llama/llama_context_ptr.h"
#include "engine/llama/log_capture.h"
#include "engine/llama/step_watch.h"

namespace svc {
namespace {

constexpr std::uint32_t kMaxInputs = 64;
// Recurrent and hybrid models keep a state for each input.
constexpr std::uint32_t kMaxRecurrentInputs = 16;

// Cost of the second batch, which reads all weights once more, as a number of rows of a large batch
// (Q8_0, AVX-512: bench/compare-embeddings.ts).
constexpr double kRowsOfAPass = 10;

enum llama_pooling_type PoolingType(const llama_model* model) {
  const std::string architecture = ReadMetadata(model, "general.architecture");
  const std::string type = ReadMetadata(model, architecture + ".pooling_type");
  for (const auto pooling : {LLAMA_POOLING_TYPE_MEAN, LLAMA_POOLING_TYPE_CLS,
                             LLAMA_POOLING_TYPE_LAST, LLAMA_POOLING_TYPE_RANK}) {
    if (type == std::to_string(pooling)) return pooling;
  }
  return LLAMA_POOLING_TYPE_NONE;
}

// True if the vector of an input is computed from its last token alone, and no token sees a later
// one (libllama's llm_graph_input_cls).
bool ReadsLast(const llama_model* model) {
  const std::string architecture = ReadMetadata(model, "general.architecture");
  if (ReadMetadata(model, architecture + ".attention.causal") == "false") return false;
  const enum llama_pooling_type type = PoolingType(model);
  return type == LLAMA_POOLING_TYPE_LAST ||
         (type == LLAMA_POOLING_TYPE_RANK &&
          (architecture == "qwen3" || architecture == "qwen3vl"));
}

// Part of a row's products that is the one with the vocabulary.
double PartOfOutput(const llama_model* model) {
  return static_cast<double>(llama_vocab_n_tokens(llama_model_get_vocab(model))) *
         llama_model_n_embd(model) / static_cast<double>(llama_model_n_params(model));
}

class LlamaEncoder final : public Encoder {
 public:
  LlamaEncoder(const LlamaModel& model, const EncoderOptions& options)
      : model_(model),
        options_(options),
        recurrent_(model.is_recurrent()),
        ranks_(Ranks(model)),
        part_of_output_(PartOfOutput(model.get())) {}

  Status Encode(std::span<const std::span<const Token>> inputs, const std::atomic<bool>& abort,
                std::vector<float>* vectors) override {
    std::size_t tokens = 0;
    for (const auto& input : inputs) tokens += input.size();
    SVC_RETURN_IF_ERROR(Reserve(static_cast<std::uint32_t>(tokens)));
    Status status = Compute(inputs, tokens, abort);
    if (status.ok()) status = Take(inputs.size(), vectors);
    if (tokens > kBatchTokens) context_.reset();
    return status;
  }

  std::uint32_t length() const override {
    return ranks_ ? 1 : static_cast<std::uint32_t>(llama_model_n_embd_out(model_.get()));
  }
  std::uint32_t max_tokens() const override { return options_.max_tokens; }
  std::uint32_t max_inputs() const override {
    return recurrent_ ? kMaxRecurrentInputs : kMaxInputs;
  }
  std::uint32_t batch_tokens() const override { return kBatchTokens; }

  // Creates a larger context if the current one is too small for `tokens`. Errors: kOutOfMemory,
  // kModelInvalid.
  Status Reserve(std::uint32_t tokens) {
    const std::uint32_t rows = std::max(kBatchTokens, std::bit_ceil(tokens));
    if (context_ != nullptr && rows <= llama_n_batch(context_.get())) return Status::Ok();

    llama_context_params params = EncoderParams(model_, rows);
    if (reads_last_) params.n_ubatch = kBatchTokens;
    params.n_threads = options_.threads;
    params.n_threads_batch = options_.threads;
    params.abort_callback = StepWatch::IsToBeAborted;
    params.abort_callback_data = &watch_;

    context_.reset();  // freed before the new one is allocated
    const LogCapture log;
    context_.reset(llama_init_from_model(model_.get(), params));
    if (context_ == nullptr) {
      return log.Failure("cannot create a context of " + std::to_string(rows) + " tokens");
    }
    reads_last_ = llama_get_memory(context_.get()) != nullptr && ReadsLast(model_.get());
    return Status::Ok();
  }

 private:
  enum class Rows { kAll, kAllButLast, kLast };  // of each input

  Status Compute(std::span<const std::span<const Token>> inputs, std::size_t tokens,
                 const std::atomic<bool>& abort) {
    const llama_memory_t memory = llama_get_memory(context_.get());
    if (memory != nullptr) llama_memory_clear(memory, /*data=*/false);
    const double saved_rows = static_cast<double>(tokens - inputs.size()) * part_of_output_;
    const bool is_worth_it = saved_rows >= kRowsOfAPass || tokens > kBatchTokens;
    if (!reads_last_ || !is_worth_it) return Run(inputs, Rows::kAll, abort);
    SVC_RETURN_IF_ERROR(Run(inputs, Rows::kAllButLast, abort));
    return Run(inputs, Rows::kLast, abort);
  }

  void Fill(std::span<const std::span<const Token>> inputs, Rows rows) {
    batch_.Clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::size_t size = inputs[i].size();
      const std::size_t begin = rows == Rows::kLast ? size - 1 : 0;
      const std::size_t end = rows == Rows::kAllButLast ? size - 1 : size;
      for (std::size_t position = begin; position < end; ++position) {
        // Pooling covers all rows.
        batch_.Add(inputs[i][position], static_cast<llama_pos>(position),
                   static_cast<llama_seq_id>(i), /*wants_logits=*/rows != Rows::kAllButLast);
      }
    }
  }

  Status Take(std::size_t inputs, std::vector<float>* vectors) const {
    vectors->resize(inputs * length());
    for (std::size_t i = 0; i < inputs; ++i) {
      const float* pooled = llama_get_embeddings_seq(context_.get(), static_cast<llama_seq_id>(i));
      if (pooled == nullptr || !Copy(pooled, vectors->data() + i * length())) {
        return {StatusCode::kInternal, ranks_ ? "the model computed no usable score"
                                              : "the model computed no usable embedding"};
      }
    }
    return Status::Ok();
  }

  Status Run(std::span<const std::span<const Token>> inputs, Rows rows,
             const std::atomic<bool>& abort) {
    Fill(inputs, rows);
    llama_set_embeddings(context_.get(), rows != Rows::kAllButLast);
    const llama_batch batch = batch_.Batch();
    const bool is_cached = llama_get_memory(context_.get()) != nullptr;
    watch_.Begin(abort);
    const AbortedLog log(watch_.aborted());
    int code = 0;
    try {
      code = is_cached ? llama_decode(context_.get(), batch) : llama_encode(context_.get(), batch);
    } catch (const std::bad_alloc&) {
      code = -2;
    } catch (const std::exception&) {
      code = -3;
    }
    watch_.End();
    switch (code) {
      case 0:
        return Status::Ok();
      case 2:
        return {StatusCode::kCancelled, "the batch was aborted"};
      case -2:
        return {StatusCode::kOutOfMemory,
                "not enough memory to compute " + std::to_string(batch_.size()) + " tokens"};
      default:
        return {StatusCode::kInternal, "the model could not compute a batch"};
    }
  }

  // Copies what a user gets of the pooled numbers. False: it is not usable.
  bool Copy(const float* from, float* to) const {
    if (!ranks_) return Normalize(from, to);
    *to = *from;  // of several classes, the first is relevance
    return std::isfinite(*to);
  }

  // Scales to length 1. False: the vector is zero or not finite.
  bool Normalize(const float* from, float* to) const {
    const std::size_t count = length();
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(from[i]) * from[i];
    if (!std::isfinite(sum) || sum == 0) return false;
    const auto scale = static_cast<float>(1 / std::sqrt(sum));
    for (std::size_t i = 0; i < count; ++i) to[i] = from[i] * scale;
    return true;
  }

  const LlamaModel& model_;
  const EncoderOptions options_;
  const bool recurrent_;
  const bool ranks_;
  const double part_of_output_;
  bool reads_last_ = false;  // known once there is a context
  ContextPtr context_;
  StepWatch watch_;
  BatchRows batch_;
};

}  // namespace

std::uint32_t MaxInputTokens(const LoadOptions& options, std::uint32_t trained) {
  const std::uint32_t wanted =
      options.context_length > 0 ? options.context_length : kDefaultContextLength;
  return trained > 0 ? std::min(wanted, trained) : wanted;
}

llama_context_params EncoderParams(const LlamaModel& model, std::uint32_t tokens) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = tokens;
  params.n_batch = tokens;
  params.n_ubatch = tokens;
  params.n_seq_max = model.is_recurrent() ? kMaxRecurrentInputs : 1;
  params.embeddings = true;
  params.pooling_type = PoolingType(model.get());
  params.kv_unified = true;
  params.swa_full = true;
  params.no_perf = true;
  return params;
}

bool MakesEmbeddings(const LlamaModel& model) {
  return PoolingType(model.get()) != LLAMA_POOLING_TYPE_NONE;
}

bool Ranks(const LlamaModel& model) { return PoolingType(model.get()) == LLAMA_POOLING_TYPE_RANK; }

Result<std::unique_ptr<Encoder>> NewLlamaEncoder(const LlamaModel& model,
                                                 const EncoderOptions& options) {
  auto encoder = std::make_unique<LlamaEncoder>(model, options);
  SVC_RETURN_IF_ERROR(encoder->Reserve(kBatchTokens));
  return std::unique_ptr<Encoder>(std::move(encoder));
}

}  // namespace svc
