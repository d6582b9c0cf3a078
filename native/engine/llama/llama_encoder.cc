// How the context is set up, and why:
//   * Inputs that share a batch are sequences of one graph run, and pooling needs each of them
//     whole in that run: n_ctx = n_batch = n_ubatch.
//   * A run computes attention between all its rows, even those that a mask then separates. So a
//     batch with more rows than keep the processor busy costs more than two batches: kBatchTokens.
//   * A longer input is computed alone, in a new context of its size. Long inputs are rare, and in
//     some models buffers grow with the square of the rows, so it is created only when needed, and
//     freed after the batch: the memory that is planned for the model is that of kBatchTokens.
//   * Models with a cache (causal ones) start each batch with an empty one.
//   * No thread pool is attached: libllama starts threads for each batch, which is long enough.
#include "engine/llama/llama_encoder.h"

#include <algorithm>
#include <array>
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

std::string Metadata(const llama_model* model, const std::string& key) {
  std::array<char, 128> text{};
  const int length = llama_model_meta_val_str(model, key.c_str(), text.data(), text.size());
  return length < 0 ? "" : text.data();
}

enum llama_pooling_type PoolingType(const llama_model* model) {
  const std::string architecture = Metadata(model, "general.architecture");
  const std::string type = Metadata(model, architecture + ".pooling_type");
  for (const auto pooling : {LLAMA_POOLING_TYPE_MEAN, LLAMA_POOLING_TYPE_CLS,
                             LLAMA_POOLING_TYPE_LAST, LLAMA_POOLING_TYPE_RANK}) {
    if (type == std::to_string(pooling)) return pooling;
  }
  return LLAMA_POOLING_TYPE_NONE;
}

class LlamaEncoder final : public Encoder {
 public:
  LlamaEncoder(const LlamaModel& model, const EncoderOptions& options)
      : model_(model), options_(options), recurrent_(model.is_recurrent()), ranks_(Ranks(model)) {}

  Status Encode(std::span<const std::span<const Token>> inputs, const std::atomic<bool>& abort,
                std::vector<float>* vectors) override {
    Fill(inputs);
    if (Status status = Reserve(static_cast<std::uint32_t>(batch_.size())); !status.ok()) {
      return status;
    }
    Status status = Compute(inputs.size(), abort, vectors);
    if (batch_.size() > kBatchTokens) context_.reset();
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
    if (context_ != nullptr && rows <= llama_n_ubatch(context_.get())) return Status::Ok();

    llama_context_params params = EncoderParams(model_, rows);
    params.n_threads = options_.threads;
    params.n_threads_batch = options_.threads;
    params.abort_callback = StepWatch::IsToBeAborted;
    params.abort_callback_data = &watch_;

    context_.reset();  // freed before the new one is allocated
    const LogCapture log;
    context_.reset(llama_init_from_model(model_.get(), params));
    if (context_ != nullptr) return Status::Ok();
    const std::string reason = log.Reason().empty() ? "libllama gave no reason" : log.Reason();
    return {log.OutOfMemory() ? StatusCode::kOutOfMemory : StatusCode::kModelInvalid,
            "cannot create a context of " + std::to_string(rows) + " tokens: " + reason};
  }

 private:
  void Fill(std::span<const std::span<const Token>> inputs) {
    batch_.Clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      for (std::size_t position = 0; position < inputs[i].size(); ++position) {
        // All rows are outputs: pooling covers all tokens of an input.
        batch_.Add(inputs[i][position], static_cast<llama_pos>(position),
                   static_cast<llama_seq_id>(i), /*wants_logits=*/true);
      }
    }
  }

  Status Compute(std::size_t inputs, const std::atomic<bool>& abort, std::vector<float>* vectors) {
    if (Status status = Run(abort); !status.ok()) return status;
    vectors->resize(inputs * length());
    for (std::size_t i = 0; i < inputs; ++i) {
      const float* pooled = llama_get_embeddings_seq(context_.get(), static_cast<llama_seq_id>(i));
      if (pooled == nullptr || !Take(pooled, vectors->data() + i * length())) {
        return {StatusCode::kInternal, ranks_ ? "the model computed no usable score"
                                              : "the model computed no usable embedding"};
      }
    }
    return Status::Ok();
  }

  Status Run(const std::atomic<bool>& abort) {
    const llama_batch batch = batch_.Batch();
    const llama_memory_t memory = llama_get_memory(context_.get());
    watch_.Begin(abort);
    const AbortedLog log(watch_.aborted());
    int code = 0;
    try {
      if (memory != nullptr) llama_memory_clear(memory, /*data=*/false);
      code = memory == nullptr ? llama_encode(context_.get(), batch)
                               : llama_decode(context_.get(), batch);
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
  bool Take(const float* from, float* to) const {
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
  if (Status status = encoder->Reserve(kBatchTokens); !status.ok()) return status;
  return std::unique_ptr<Encoder>(std::move(encoder));
}

}  // namespace svc
