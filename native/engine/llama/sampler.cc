#include "engine/llama/sampler.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/largest_logits.h"

namespace svc {
namespace {

// Largest window of penalties and DRY, in tokens: each generation keeps a ring of that size.
constexpr int kMaxPenaltyWindow = 65536;
// llama.cpp looks up each breaker in the whole vocabulary, and cuts longer ones.
constexpr std::size_t kMaxBreakers = 16;
constexpr std::size_t kMaxBreakerBytes = 40;
// Draws of one token. Only tokens that complete a grammar's trigger are refused one by one; few do.
constexpr int kMaxRedraws = 512;
// Tokens among which Lead looks for one that the grammar allows.
constexpr std::size_t kRankedForLead = 8;
// Tokens from which Mirostat estimates the distribution; llama.cpp's value.
constexpr int kMirostatTokens = 100;

bool HasPenalties(const SamplingParams& params) {
  return params.repeat_last_n > 0 &&
         (params.repeat_penalty != 1.0F || params.frequency_penalty != 0.0F ||
          params.presence_penalty != 0.0F);
}

bool HasDry(const SamplingParams& params) {
  return params.dry_multiplier != 0 && params.dry_penalty_last_n > 0;
}

// True if neither typical nor XTC, which may remove the likeliest token, has an effect.
bool KeepsLargest(const SamplingParams& params) {
  return params.typical_p >= 1 && (params.xtc_probability <= 0 || params.xtc_threshold > 0.5F);
}

bool IsGreedy(const SamplingParams& params) {
  if (params.temperature != 0) return false;
  return params.mirostat != 0 || (params.dynatemp_range == 0 && KeepsLargest(params));
}

// Largest top-k done here: above, a heap is slower than llama.cpp's bucket sort.
constexpr int kMaxRankedTokens = 256;

// Stands for -infinity, which JSON does not have; OpenAI's value.
constexpr float kLeastLogprob = -9999.0F;

// The request's biases, and -infinity for tokens that the model asks never to draw.
std::vector<llama_logit_bias> AllBiases(const llama_vocab* vocab, const SamplingParams& params) {
  std::vector<llama_logit_bias> biases;
  for (const auto& [token, bias] : params.logit_bias) biases.push_back({token, bias});
  std::int32_t count = 0;
  const llama_token* suppressed = llama_vocab_get_suppress_tokens(vocab, &count);
  for (std::int32_t i = 0; i < count; ++i) biases.push_back({suppressed[i], -INFINITY});
  return biases;
}

// Greedy without penalties: no chain, takes the largest logit. Otherwise draws with a chain.
class LlamaSampler final : public Sampler {
 public:
  // The chain's first `penalties` samplers change logits by the tokens before.
  LlamaSampler(std::size_t vocabulary, std::vector<llama_logit_bias> biases,
               llama_sampler_ptr chain, std::size_t top_k, int penalties, SamplerOptions options)
      : vocabulary_(vocabulary),
        biases_(std::move(biases)),
        chain_(std::move(chain)),
        top_k_(top_k),
        penalties_(penalties),
        greedy_(IsGreedy(options.params)),
        constraint_(std::move(options.constraint)),
        known_(std::move(options.known)),
        alternatives_(options.logprobs),
        piece_(std::move(options.piece)) {}

  Token Sample(const float* first) override {
    const std::span<const float> logits(first, vocabulary_);
    if (constraint_ != nullptr) constraint_->KeepSmall();
    if (constraint_ != nullptr && !begun_) {
      begun_ = true;
      constraint_->Begin();
      forced_ = Force();
    }
    if (!forced_.empty()) return TakeForced();

    const Token token = DrawAllowed(Biased(logits));
    if (token < 0) return token;
    Remember(token);
    if (alternatives_.has_value()) Tell(token, logits);
    if (constraint_ != nullptr) forced_ = Force();
    return token;
  }

  std::optional<float> Lead(const float* first) override {
    constexpr float kCertain = std::numeric_limits<float>::infinity();
    const bool forced = !forced_.empty() || (constraint_ != nullptr && !begun_) || Limit();
    if (constraint_ != nullptr) constraint_->KeepSmall();
    if (!greedy_ || forced || !Known().empty()) return kCertain;
    thread_local std::vector<RankedToken> best;
    const std::span<const float> logits = Penalized(Biased({first, vocabulary_}));
    const std::size_t ranked = constraint_ != nullptr ? kRankedForLead : 2;
    if (LargestLogits(logits, nullptr, ranked, &best) == Ranking::kBroken) return std::nullopt;
    for (std::size_t i = 0; i < best.size() && best[i].logit != -INFINITY; ++i) {
      if (constraint_ != nullptr && !constraint_->Allows(best[i].token)) continue;
      // Whether the next one is allowed makes the lead no smaller.
      if (i + 1 < best.size()) return best[i].logit - best[i + 1].logit;
      if (best.size() < ranked) return kCertain;
    }
    return std::nullopt;
  }

  std::vector<Token> Forced() override { return std::exchange(forced_, {}); }
  std::span<const Token> Known() const override {
    return std::span(known_).subspan(std::min(remembered_, known_.size()));
  }
  bool ended() const override { return constraint_ != nullptr && constraint_->ended(); }
  const TokenLogprobs* logprobs() const override {
    return alternatives_.has_value() ? &logprobs_ : nullptr;
  }

 private:
  GrammarConstraint* grammar() const {
    return constraint_ != nullptr ? constraint_->grammar() : nullptr;
  }
  // Token that must follow: of a tag around the reasoning.
  std::optional<Token> Limit() const {
    return constraint_ != nullptr ? constraint_->Forced() : std::nullopt;
  }

  // Draws a token that may follow, and accepts it; or returns why there is none.
  Token DrawAllowed(std::span<const float> biased) {
    Token token = Limit().value_or(-1);
    if (token < 0) token = Draw(biased, nullptr);
    if (token < 0) return kBrokenLogits;
    const bool is_known = !Known().empty();
    if (constraint_ == nullptr) return is_known ? Known().front() : token;
    if (is_known) return DrawKnown(token, biased);
    if (!constraint_->Accept(token)) {
      token = Redraw(token, biased, [this](Token drawn) { return constraint_->Accept(drawn); });
    }
    return IsTooSlow() ? kSlowGrammar : token;
  }

  // Accepts the next known token. `drawn`, and what would be drawn in its place if it is refused,
  // count only for the state of the samplers.
  Token DrawKnown(Token drawn, std::span<const float> biased) {
    const auto allows = [this](Token token) { return constraint_->Allows(token); };
    if (!allows(drawn)) (void)Redraw(drawn, biased, allows);
    const Token token = Known().front();
    // If not, the constraint is not that of the answer's first run.
    if (!constraint_->Accept(token)) return kNoToken;
    return IsTooSlow() ? kSlowGrammar : token;
  }

  bool IsTooSlow() const { return grammar() != nullptr && grammar()->is_too_slow(); }

  // Draws tokens in place of `refused` until one is accepted; returns it.
  template <typename Accepts>
  Token Redraw(Token refused, std::span<const float> biased, Accepts accepts) {
    GrammarConstraint* const grammar = this->grammar();
    TokenSet allowed = grammar != nullptr ? grammar->Allowed() : TokenSet::All(vocabulary_);
    for (int draws = 0; draws < kMaxRedraws; ++draws) {
      allowed.Remove(refused);
      const Token token = Draw(biased, &allowed);
      if (token < 0 || accepts(token)) return token;
      refused = token;
    }
    return kSlowGrammar;
  }

  std::span<const float> Biased(std::span<const float> logits) const {
    if (biases_.empty()) return logits;
    // thread_local scratch is shared by all generations: the runner samples one after the other.
    thread_local std::vector<float> biased;
    biased.assign(logits.begin(), logits.end());
    for (const auto& [token, bias] : biases_) biased[token] += bias;
    return biased;
  }

  // Draws a token. kNoToken: no allowed logit is above -infinity.
  Token Draw(std::span<const float> logits, const TokenSet* allowed) {
    if (chain_ == nullptr) return Largest(logits, allowed);
    thread_local std::vector<llama_token_data> scratch;
    thread_local std::vector<RankedToken> ranked;
    std::vector<llama_token_data>& candidates = scratch;  // resolves the thread_local once
    candidates.clear();
    Ranking ranking = Ranking::kTied;
    if (top_k_ > 0) {
      ranking = LargestLogits(logits, allowed, top_k_, &ranked);
      if (ranking == Ranking::kBroken) return kBrokenLogits;
    }
    const bool sorted = ranking == Ranking::kDistinct;
    if (sorted) {
      if (ranked.empty() || ranked[0].logit == -INFINITY) return kNoToken;
      for (const auto& [token, logit] : ranked) candidates.push_back({token, logit, 0.0F});
    } else {
      // Checked first, because the chain sorts and exponentiates: undefined for NaN, and for
      // -infinity alone.
      if (const Token largest = Largest(logits, allowed); largest < 0) return largest;
      for (Token token = 0; token < static_cast<Token>(vocabulary_); ++token) {
        if (allowed != nullptr && !allowed->Has(token)) continue;
        candidates.push_back({token, logits[token], 0.0F});
      }
    }
    llama_token_data_array array{candidates.data(), candidates.size(), -1, sorted};
    llama_sampler_apply(chain_.get(), &array);
    return array.data[array.selected].id;
  }

  static Token Largest(std::span<const float> logits, const TokenSet* allowed) {
    const Token token = LargestLogit(logits, allowed);
    return token >= 0 && logits[token] == -INFINITY ? kNoToken : token;
  }

  // Logits after penalties. Valid until the next call.
  std::span<const float> Penalized(std::span<const float> logits) const {
    if (penalties_ == 0) return logits;
    thread_local std::vector<llama_token_data> candidates;
    thread_local std::vector<float> penalized;
    candidates.clear();
    for (Token token = 0; token < static_cast<Token>(vocabulary_); ++token) {
      candidates.push_back({token, logits[token], 0.0F});
    }
    llama_token_data_array array{candidates.data(), candidates.size(), -1, false};
    for (int i = 0; i < penalties_; ++i) {
      llama_sampler_apply(llama_sampler_chain_get(chain_.get(), i), &array);
    }
    penalized.resize(vocabulary_);
    for (std::size_t i = 0; i < array.size; ++i) {
      penalized[array.data[i].id] = array.data[i].logit;
    }
    return penalized;
  }

  void Remember(Token token) {
    ++remembered_;
    if (chain_ != nullptr) llama_sampler_accept(chain_.get(), token);
  }

  // Forced tokens, remembered. None if log probabilities are requested: those need the logits of
  // each token.
  std::vector<Token> Force() {
    if (alternatives_.has_value() || !constraint_->MayForce()) return {};
    std::vector<Token> tokens = constraint_->grammar()->Force();
    for (const Token token : tokens) Remember(token);
    return tokens;
  }
  Token TakeForced() {
    const Token token = forced_.front();
    forced_.erase(forced_.begin());
    return token;
  }

  // Fills logprobs_ from the raw logits, before biases, penalties and samplers.
  void Tell(Token token, std::span<const float> logits) {
    const float largest = logits[LargestLogit(logits, nullptr)];
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - largest);
    const float log_sum = largest + static_cast<float>(std::log(sum));
    const auto tell = [&](Token which) {
      return TokenLogprob{.bytes = piece_(which),
                          .logprob = std::max(logits[which] - log_sum, kLeastLogprob)};
    };
    logprobs_ = {.chosen = tell(token)};
    if (*alternatives_ == 0) return;
    std::vector<RankedToken> ranked;
    (void)LargestLogits(logits, nullptr, *alternatives_, &ranked);
    for (const RankedToken& each : ranked) logprobs_.top.push_back(tell(each.token));
  }

  const std::size_t vocabulary_;
  const std::vector<llama_logit_bias> biases_;
  const llama_sampler_ptr chain_;  // null: take the largest logit
  const std::size_t top_k_;        // top-k of the chain if done here; else 0
  const int penalties_;
  const bool greedy_;
  const std::unique_ptr<AnswerConstraint> constraint_;  // null: anything may follow
  const std::vector<Token> known_;
  std::size_t remembered_ = 0;  // tokens of the answer so far
  const std::optional<std::uint32_t> alternatives_;
  const std::function<std::string(Token)> piece_;
  bool begun_ = false;
  std::vector<Token> forced_;
  TokenLogprobs logprobs_;
};

struct Bounds {
  const char* name;
  float value;
  float min;
  float max;
};

Status Check(const SamplingParams& params, std::int32_t vocabulary) {
  constexpr float kAny = std::numeric_limits<float>::max();
  const auto refuse = [](const std::string& what) {
    return Status(StatusCode::kInvalidRequest, what);
  };
  const auto whole = [](int value) { return static_cast<float>(value); };
  for (const auto& [name, value, min, max] : std::initializer_list<Bounds>{
           {"temperature", params.temperature, 0, kAny},
           {"dynatemp_range", params.dynatemp_range, 0, kAny},
           {"dynatemp_exponent", params.dynatemp_exponent, 0, kAny},
           {"top_k", whole(params.top_k), 0, kAny},
           {"typical_p", params.typical_p, 0, 1},
           {"top_p", params.top_p, 0, 1},
           {"min_p", params.min_p, 0, 1},
           {"xtc_probability", params.xtc_probability, 0, 1},
           {"xtc_threshold", params.xtc_threshold, 0, 1},
           {"mirostat", whole(params.mirostat), 0, 2},
           {"mirostat_tau", params.mirostat_tau, 0, kAny},
           {"mirostat_eta", params.mirostat_eta, 0, 1},
           {"repeat_last_n", whole(params.repeat_last_n), 0, whole(kMaxPenaltyWindow)},
           {"frequency_penalty", params.frequency_penalty, -kAny, kAny},
           {"presence_penalty", params.presence_penalty, -kAny, kAny},
           {"dry_multiplier", params.dry_multiplier, 0, kAny},
           {"dry_base", params.dry_base, 1, kAny},
           {"dry_allowed_length", whole(params.dry_allowed_length), 0, whole(kMaxPenaltyWindow)},
           {"dry_penalty_last_n", whole(params.dry_penalty_last_n), 0, whole(kMaxPenaltyWindow)},
       }) {
    // Negated, so that a NaN is refused.
    if (value >= min && value <= max) continue;
    const std::string number = std::string(name) + " must be a number";
    if (min == -kAny) return refuse(number);
    std::ostringstream bounds;
    bounds << (max == kAny ? " of at least " : " between ") << min;
    if (max != kAny) bounds << " and " << static_cast<double>(max);
    return refuse(number + bounds.str());
  }
  if (!(params.repeat_penalty > 0 && std::isfinite(params.repeat_penalty) &&
        std::isfinite(1.0F / params.repeat_penalty))) {
    return refuse("repeat_penalty must be a number above 0");
  }
  if (params.dry_sequence_breakers.size() > kMaxBreakers) {
    return refuse("dry_sequence_breakers must be at most 16 texts");
  }
  for (const std::string& breaker : params.dry_sequence_breakers) {
    if (breaker.empty() || breaker.size() > kMaxBreakerBytes) {
      return refuse("dry_sequence_breakers must be texts of 1 to 40 bytes");
    }
  }
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= vocabulary) {
      return {StatusCode::kInvalidRequest, "logit_bias names token " + std::to_string(token) +
                                               ", but the vocabulary has only " +
                                               std::to_string(vocabulary)};
    }
    if (std::isnan(bias) || bias == INFINITY)
      return refuse("a logit_bias must not be NaN or +infinity");
  }
  return Status::Ok();
}

// The chain without the biases.
llama_sampler_ptr NewChain(const llama_vocab* vocab, const SamplingParams& params) {
  llama_sampler_chain_params chain_params = llama_sampler_chain_default_params();
  chain_params.no_perf = true;
  llama_sampler_ptr chain(llama_sampler_chain_init(chain_params));
  const auto add = [&](llama_sampler* sampler) { llama_sampler_chain_add(chain.get(), sampler); };
  const std::int32_t vocabulary = llama_vocab_n_tokens(vocab);
  const std::uint32_t seed = params.seed.value_or(std::random_device()());
  if (HasPenalties(params)) {
    add(llama_sampler_init_penalties(vocabulary, params.repeat_last_n, params.repeat_penalty,
                                     params.frequency_penalty, params.presence_penalty));
  }
  if (HasDry(params)) {
    std::vector<const char*> breakers;
    for (const std::string& breaker : params.dry_sequence_breakers) {
      breakers.push_back(breaker.c_str());
    }
    add(llama_sampler_init_dry(vocab, params.dry_multiplier, params.dry_base,
                               params.dry_allowed_length, params.dry_penalty_last_n,
                               breakers.data(), breakers.size()));
  }
  if (params.mirostat != 0) {
    add(llama_sampler_init_temp(params.temperature));
    add(params.mirostat == 1
            ? llama_sampler_init_mirostat(vocabulary, seed, params.mirostat_tau,
                                          params.mirostat_eta, kMirostatTokens)
            : llama_sampler_init_mirostat_v2(seed, params.mirostat_tau, params.mirostat_eta));
    return chain;
  }
  add(llama_sampler_init_top_k(params.top_k));
  add(llama_sampler_init_typical(params.typical_p, /*min_keep=*/0));
  add(llama_sampler_init_top_p(params.top_p, /*min_keep=*/0));
  add(llama_sampler_init_min_p(params.min_p, /*min_keep=*/0));
  add(llama_sampler_init_xtc(params.xtc_probability, params.xtc_threshold, /*min_keep=*/0, seed));
  add(llama_sampler_init_temp_ext(params.temperature, params.dynatemp_range,
                                  params.dynatemp_exponent));
  add(llama_sampler_init_dist(seed));
  return chain;
}

}  // namespace

std::shared_ptr<const VocabularyIndex> IndexVocabulary(
    const LlamaModel& model, const std::map<Token, std::string>& spelled) {
  std::vector<std::string> pieces;
  std::vector<Token> ends;
  const std::int32_t vocabulary = llama_vocab_n_tokens(model.vocab());
  for (Token token = 0; token < vocabulary; ++token) {
    const auto found = spelled.find(token);
    pieces.push_back(found != spelled.end() ? found->second
                                            : model.Piece(token, /*special=*/false));
    if (llama_vocab_is_eog(model.vocab(), token)) ends.push_back(token);
  }
  return std::make_shared<VocabularyIndex>(pieces, std::move(ends));
}

GrammarConstraint::Tokenizer TokenizerWithin(const LlamaModel& model, bool parse_special) {
  return [&model, parse_special](const std::string& text) -> std::vector<Token> {
    Result<std::vector<Token>> tokens = model.Tokenize(text, false, parse_special);
    if (!tokens.ok() || tokens.value().empty()) return {};
    std::size_t spelled = 0;
    for (const Token token : tokens.value()) spelled += model.Piece(token, parse_special).size();
    const bool begins = text.starts_with(model.Piece(tokens.value().front(), parse_special));
    if (begins && spelled <= text.size()) return std::move(tokens.value());
    // The vocabulary puts a space before a text, even before one that begins with a space. Not
    // after a line break, which no token merges with what follows.
    tokens = model.Tokenize("\n" + text, false, parse_special);
    if (!tokens.ok()) return {};
    const auto end = tokens.value().end();
    const auto line_break = std::find_if(tokens.value().begin(), end, [&](Token token) {
      return model.Piece(token, /*special=*/false).ends_with('\n');
    });
    if (line_break == end) return {};
    return {line_break + 1, end};
  };
}

Result<std::unique_ptr<Sampler>> NewSampler(const llama_vocab* vocab, SamplerOptions options) {
  const SamplingParams& params = options.params;
  const std::int32_t vocabulary = llama_vocab_n_tokens(vocab);
  SVC_RETURN_IF_ERROR(Check(params, vocabulary));

  const int penalties = (HasPenalties(params) ? 1 : 0) + (HasDry(params) ? 1 : 0);
  const auto make = [&](llama_sampler_ptr chain, std::size_t top_k) {
    return std::unique_ptr<Sampler>(
        std::make_unique<LlamaSampler>(vocabulary, AllBiases(vocab, params), std::move(chain),
                                       top_k, penalties, std::move(options)));
  };
  if (IsGreedy(params) && penalties == 0) return make(nullptr, 0);

  llama_sampler_ptr chain = NewChain(vocab, params);
  if (penalties > 0) {
    const auto window =
        static_cast<std::size_t>(std::max(params.repeat_last_n, params.dry_penalty_last_n));
    const std::span<const Token> prompt = options.prompt;
    for (const Token token : prompt.last(std::min(prompt.size(), window))) {
      llama_sampler_accept(chain.get(), token);
    }
  }
  const bool begins_with_top_k =
      penalties == 0 && params.mirostat == 0 && params.top_k <= kMaxRankedTokens;
  return make(std::move(chain), begins_with_top_k ? static_cast<std::size_t>(params.top_k) : 0);
}

}  // namespace svc
