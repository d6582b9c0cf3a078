// Reference for the engine's output: the plain loop of llama.cpp's examples, with one sequence, one
// context, and llama.cpp's common_sampler with llama-server's defaults.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "common.h"
#include "engine/base/text_stream.h"
#include "engine/llama/llama_model.h"
#include "sampling.h"

namespace svc::test {

struct Reference {
  std::string text;
  std::vector<Token> tokens;
  bool ended = false;  // by the model, not by `limit`
  std::uint32_t context_length = 0;
};

inline common_params_sampling LlamaCppSampling(const SamplingParams& params) {
  common_params_sampling sampling;
  sampling.seed = params.seed.value_or(0);
  sampling.temp = params.temperature;
  sampling.top_k = params.top_k;
  sampling.top_p = params.top_p;
  sampling.min_p = params.min_p;
  sampling.typ_p = params.typical_p;
  sampling.xtc_probability = params.xtc_probability;
  sampling.xtc_threshold = params.xtc_threshold;
  sampling.dynatemp_range = params.dynatemp_range;
  sampling.dynatemp_exponent = params.dynatemp_exponent;
  sampling.mirostat = params.mirostat;
  sampling.mirostat_tau = params.mirostat_tau;
  sampling.mirostat_eta = params.mirostat_eta;
  sampling.dry_multiplier = params.dry_multiplier;
  sampling.dry_base = params.dry_base;
  sampling.dry_allowed_length = params.dry_allowed_length;
  sampling.dry_penalty_last_n = params.dry_penalty_last_n;
  sampling.dry_sequence_breakers = params.dry_sequence_breakers;
  sampling.penalty_last_n = params.repeat_last_n;
  sampling.penalty_repeat = params.repeat_penalty;
  sampling.penalty_freq = params.frequency_penalty;
  sampling.penalty_present = params.presence_penalty;
  for (const auto& [token, bias] : params.logit_bias) sampling.logit_bias.push_back({token, bias});
  return sampling;
}

// Generates up to `limit` tokens; also ends when the context is full. `prepare` is called first.
inline Reference RunReference(const LlamaModel& model, const std::vector<Token>& prompt,
                              const SamplingParams& params, std::size_t limit,
                              std::uint32_t context_length, int threads,
                              const std::string& gbnf = "",
                              const std::function<void(llama_context*)>& prepare = {}) {
  constexpr std::size_t kBatch = 512;
  llama_context_params context_params = llama_context_default_params();
  context_params.n_ctx = context_length;
  context_params.n_batch = kBatch;
  context_params.n_ubatch = kBatch;
  context_params.n_threads = threads;
  context_params.n_threads_batch = threads;
  llama_context* context = llama_init_from_model(model.get(), context_params);
  if (prepare) prepare(context);

  common_params_sampling sampling = LlamaCppSampling(params);
  if (!gbnf.empty()) sampling.grammar = {COMMON_GRAMMAR_TYPE_USER, gbnf};
  const common_sampler_ptr sampler(common_sampler_init(model.get(), sampling));
  for (const Token token : prompt) common_sampler_accept(sampler.get(), token, false);

  Reference result;
  result.context_length = llama_n_ctx(context);
  std::vector<Token> pending = prompt;
  TextStream stream({});
  while (result.tokens.size() < limit) {
    for (std::size_t at = 0; at < pending.size(); at += kBatch) {
      const auto count = static_cast<std::int32_t>(std::min(kBatch, pending.size() - at));
      if (llama_decode(context, llama_batch_get_one(&pending[at], count)) != 0) {
        Fail(__FILE__, __LINE__, "the reference cannot decode");
      }
    }
    const Token token = common_sampler_sample(sampler.get(), context, -1);
    common_sampler_accept(sampler.get(), token, true);
    result.tokens.push_back(token);
    if (llama_vocab_is_eog(model.vocab(), token)) {
      result.ended = true;
      break;
    }
    (void)stream.Push(model.Piece(token, false), &result.text);
    if (prompt.size() + result.tokens.size() >= result.context_length) break;
    pending = {token};
  }
  stream.Finish(&result.text);
  llama_free(context);
  return result;
}

}  // namespace svc::test
