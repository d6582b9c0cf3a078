#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace svc {
namespace {

using SamplerPtr = std::unique_ptr<llama_sampler, decltype(&llama_sampler_free)>;

// The largest window a penalty may look back on: it is kept as a ring for each generation.
constexpr int kMaxPenaltyWindow = 65536;

bool HasPenalties(const SamplingParams& params) {
  return params.penalty_last_n > 0 &&
         (params.repeat_penalty != 1.0F || params.frequency_penalty != 0.0F ||
          params.presence_penalty != 0.0F);
}

// The user's biases and the tokens that the model itself asks never to draw.
std::vector<llama_logit_bias> AllBiases(const llama_vocab* vocab, const SamplingParams& params) {
  std::vector<llama_logit_bias> biases;
  for (const auto& [token, bias] : params.logit_bias) biases.push_back({token, bias});
  std::int32_t count = 0;
  const llama_token* suppressed = llama_vocab_get_suppress_tokens(vocab, &count);
  for (std::int32_t i = 0; i < count; ++i) biases.push_back({suppressed[i], -INFINITY});
  return biases;
}

// Temperature 0 and nothing that changes the logits: the largest wins.
class GreedySampler final : public Sampler {
 public:
  explicit GreedySampler(std::size_t vocabulary) : vocabulary_(vocabulary) {}

  Token Sample(const float* logits) override {
    return static_cast<Token>(std::max_element(logits, logits + vocabulary_) - logits);
  }

 private:
  const std::size_t vocabulary_;
};

class ChainSampler final : public Sampler {
 public:
  ChainSampler(SamplerPtr chain, std::size_t vocabulary)
      : chain_(std::move(chain)), vocabulary_(vocabulary) {}

  Token Sample(const float* logits) override {
    // One scratch array serves all generations: the runner samples one after the other.
    thread_local std::vector<llama_token_data> candidates;
    candidates.resize(vocabulary_);
    for (std::size_t i = 0; i < vocabulary_; ++i) {
      candidates[i] = {static_cast<llama_token>(i), logits[i], 0.0F};
    }
    llama_token_data_array array{candidates.data(), candidates.size(), -1, false};
    llama_sampler_apply(chain_.get(), &array);
    const llama_token token = array.data[array.selected].id;
    llama_sampler_accept(chain_.get(), token);
    return token;
  }

 private:
  const SamplerPtr chain_;
  const std::size_t vocabulary_;
};

Status Check(const SamplingParams& params, std::int32_t vocabulary) {
  const auto refuse = [](const char* what) { return Status(StatusCode::kInvalidRequest, what); };
  // Written so that a NaN is refused.
  if (!(params.temperature >= 0 && std::isfinite(params.temperature))) {
    return refuse("temperature must be a number that is not negative");
  }
  if (!(params.top_p >= 0 && params.top_p <= 1)) return refuse("top_p must be between 0 and 1");
  if (!(params.min_p >= 0 && params.min_p <= 1)) return refuse("min_p must be between 0 and 1");
  if (params.top_k < 0) return refuse("top_k must not be negative");
  if (params.penalty_last_n < 0 || params.penalty_last_n > kMaxPenaltyWindow) {
    return refuse("penalty_last_n must be between 0 and 65536");
  }
  if (!(params.repeat_penalty > 0 && std::isfinite(params.repeat_penalty) &&
        std::isfinite(1.0F / params.repeat_penalty))) {
    return refuse("repeat_penalty must be a number above 0");
  }
  if (!std::isfinite(params.frequency_penalty)) return refuse("frequency_penalty must be a number");
  if (!std::isfinite(params.presence_penalty)) return refuse("presence_penalty must be a number");
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= vocabulary) {
      return {StatusCode::kInvalidRequest, "logit_bias names token " + std::to_string(token) +
                                               ", the vocabulary has " +
                                               std::to_string(vocabulary)};
    }
    if (std::isnan(bias) || bias == INFINITY) return refuse("a logit_bias is not a number");
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<Sampler>> NewSampler(const llama_vocab* vocab, const SamplingParams& params,
                                            std::span<const Token> prompt) {
  const std::int32_t vocabulary = llama_vocab_n_tokens(vocab);
  if (Status status = Check(params, vocabulary); !status.ok()) return status;

  const std::vector<llama_logit_bias> biases = AllBiases(vocab, params);
  const bool penalties = HasPenalties(params);
  if (params.temperature == 0 && biases.empty() && !penalties) {
    return std::unique_ptr<Sampler>(std::make_unique<GreedySampler>(vocabulary));
  }

  llama_sampler_chain_params chain_params = llama_sampler_chain_default_params();
  chain_params.no_perf = true;
  SamplerPtr chain(llama_sampler_chain_init(chain_params), llama_sampler_free);
  const auto add = [&](llama_sampler* sampler) { llama_sampler_chain_add(chain.get(), sampler); };
  if (!biases.empty()) {
    add(llama_sampler_init_logit_bias(vocabulary, static_cast<std::int32_t>(biases.size()),
                                      biases.data()));
  }
  if (penalties) {
    add(llama_sampler_init_penalties(vocabulary, params.penalty_last_n, params.repeat_penalty,
                                     params.frequency_penalty, params.presence_penalty));
  }
  add(llama_sampler_init_top_k(params.top_k));
  add(llama_sampler_init_top_p(params.top_p, /*min_keep=*/0));
  add(llama_sampler_init_min_p(params.min_p, /*min_keep=*/0));
  add(llama_sampler_init_temp(params.temperature));
  add(llama_sampler_init_dist(params.seed.value_or(std::random_device()())));

  if (penalties) {
    const auto window = static_cast<std::size_t>(params.penalty_last_n);
    for (const Token token : prompt.last(std::min(prompt.size(), window))) {
      llama_sampler_accept(chain.get(), token);
    }
  }
  return std::unique_ptr<Sampler>(std::make_unique<ChainSampler>(std::move(chain), vocabulary));
}

}  // namespace svc
