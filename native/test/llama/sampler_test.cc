// Sampling with real vocabularies, compared with llama.cpp's samplers and grammars.
#include "engine/llama/sampler.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <set>
#include <sstream>

#include "engine/base/text_stream.h"
#include "engine/model/largest_logits.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

std::unique_ptr<LlamaModel> Vocabulary(const char* name) {
  return test::LoadVocabulary(std::string(SVC_LLAMA_SOURCE_DIR) + "/models/ggml-vocab-" + name +
                              ".gguf");
}

std::vector<float> RandomLogits(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

bool IsWholeText(const std::string& piece) {
  TextStream stream({});
  std::string text;
  (void)stream.Push(piece, &text);
  return !piece.empty() && stream.held() == 0 && text == piece && piece[0] != 0;
}

using GrammarPtr = std::unique_ptr<llama_sampler, decltype(&llama_sampler_free)>;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns which tokens llama.cpp's grammar allows.
std::vector<bool> Reference(llama_sampler* grammar, std::size_t vocabulary) {
  std::vector<llama_token_data> data(vocabulary);
  for (std::size_t i = 0; i < vocabulary; ++i) data[i] = {static_cast<Token>(i), 0, 0};
  llama_token_data_array array{data.data(), data.size(), -1, false};
  llama_sampler_apply(grammar, &array);
  std::vector<bool> allowed(vocabulary);
  for (std::size_t i = 0; i < vocabulary; ++i) allowed[i] = data[i].logit > -INFINITY;
  return allowed;
}

// Random texts through llama.cpp's example grammars: both implementations allow the same next
// tokens. Compares only tokens of whole characters, because llama.cpp treats names of control
// tokens as text and accepts some invalid UTF-8.
TEST(GrammarsAllowWhatLlamaCppAllows) {
  std::mt19937 random(1);
  std::size_t steps = 0;
  for (const char* name : {"qwen2", "llama-spm", "gpt-2"}) {
    const std::unique_ptr<LlamaModel> model = Vocabulary(name);
    REQUIRE(model != nullptr);
    const auto index = IndexVocabulary(*model);
    std::vector<Token> comparable;
    for (Token token = 0; token < static_cast<Token>(index->size()); ++token) {
      if (index->Ends(token) || IsWholeText(model->Piece(token, false))) {
        comparable.push_back(token);
      }
    }
    for (const char* grammar : {"arithmetic", "c", "chess", "japanese", "json", "list"}) {
      const std::string gbnf =
          ReadFile(std::string(SVC_LLAMA_SOURCE_DIR) + "/grammars/" + grammar + ".gbnf");
      const GrammarPtr reference(llama_sampler_init_grammar(model->vocab(), gbnf.c_str(), "root"),
                                 llama_sampler_free);
      const auto compiled = CompileGrammar(gbnf);
      if (!compiled.ok()) test::Fail(__FILE__, __LINE__, compiled.status().message());
      REQUIRE(reference != nullptr && compiled.ok());
      GrammarConstraint constraint(compiled.value(), index, nullptr);
      for (int step = 0; step < 8; ++step, ++steps) {
        const std::vector<bool> expected = Reference(reference.get(), index->size());
        const TokenSet& allowed = constraint.Allowed();
        std::vector<Token> next;
        for (const Token token : comparable) {
          if (allowed.Has(token) != expected[token]) {
            test::Fail(__FILE__, __LINE__,
                       std::string(grammar) + ": " + (expected[token] ? "missing " : "extra ") +
                           model->Piece(token, true));
            return;
          }
          if (allowed.Has(token) && !index->Ends(token)) next.push_back(token);
        }
        if (next.empty()) break;
        const Token token = next[random() % next.size()];
        llama_sampler_accept(reference.get(), token);
        constraint.Accept(token);
      }
    }
  }
  EXPECT(steps > 100);
}

// ---- ranking and drawing ------------------------------------------------------------------------

TEST(TheLargestAreTheLargest) {
  for (const std::size_t count : {1U, 7U, 16U, 17U, 1000U}) {
    const std::vector<float> logits = RandomLogits(count, static_cast<unsigned>(count));
    std::vector<Token> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](Token a, Token b) { return logits[a] > logits[b]; });
    EXPECT_EQ(LargestLogit(logits, nullptr), order[0]);
    TokenSet odd(count);
    std::vector<Token> odd_order;
    for (const Token token : order) {
      if (token % 2 == 0) continue;
      odd.Add(token);
      odd_order.push_back(token);
    }
    for (const std::size_t wanted : {1U, 5U, 40U, 2000U}) {
      std::vector<RankedToken> ranked;
      EXPECT_EQ(LargestLogits(logits, nullptr, wanted, &ranked), Ranking::kDistinct);
      REQUIRE(ranked.size() == std::min(wanted, count));
      for (std::size_t i = 0; i < ranked.size(); ++i) EXPECT_EQ(ranked[i].token, order[i]);
      EXPECT_EQ(LargestLogits(logits, &odd, wanted, &ranked), Ranking::kDistinct);
      REQUIRE(ranked.size() == std::min(wanted, odd_order.size()));
      for (std::size_t i = 0; i < ranked.size(); ++i) EXPECT_EQ(ranked[i].token, odd_order[i]);
    }
    EXPECT_EQ(LargestLogit(logits, &odd), odd_order.empty() ? kNoToken : odd_order[0]);
  }
}

TEST(EqualLogitsAreToldApartOrReported) {
  std::vector<RankedToken> ranked;
  const std::vector<float> tie = {1, 5, 3, 3, 0};
  EXPECT_EQ(LargestLogits(tie, nullptr, 1, &ranked), Ranking::kDistinct);
  EXPECT_EQ(LargestLogits(tie, nullptr, 2, &ranked), Ranking::kTied);  // two tie for second
  EXPECT_EQ(LargestLogits(tie, nullptr, 3, &ranked), Ranking::kTied);  // their order is a tie
  EXPECT_EQ(LargestLogit(std::vector<float>(40, 2.0F), nullptr), 0);
  EXPECT_EQ(LargestLogit(std::vector<float>(40, -INFINITY), nullptr), 0);
}

// Runs llama.cpp's sampler chain on all candidates.
std::vector<Token> RunChain(const SamplingParams& params,
                            const std::vector<std::vector<float>>& steps) {
  llama_sampler* chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
  std::vector<llama_logit_bias> biases;
  for (const auto& [token, bias] : params.logit_bias) biases.push_back({token, bias});
  llama_sampler_chain_add(chain, llama_sampler_init_logit_bias(
                                     static_cast<std::int32_t>(steps.front().size()),
                                     static_cast<std::int32_t>(biases.size()), biases.data()));
  llama_sampler_chain_add(chain, llama_sampler_init_top_k(params.top_k));
  llama_sampler_chain_add(chain, llama_sampler_init_top_p(params.top_p, 0));
  llama_sampler_chain_add(chain, llama_sampler_init_min_p(params.min_p, 0));
  llama_sampler_chain_add(chain, llama_sampler_init_temp(params.temperature));
  llama_sampler_chain_add(chain, llama_sampler_init_dist(*params.seed));
  std::vector<Token> tokens;
  for (const std::vector<float>& logits : steps) {
    std::vector<llama_token_data> data(logits.size());
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = {static_cast<Token>(i), logits[i], 0};
    llama_token_data_array array{data.data(), data.size(), -1, false};
    llama_sampler_apply(chain, &array);
    tokens.push_back(array.data[array.selected].id);
    llama_sampler_accept(chain, tokens.back());
  }
  llama_sampler_free(chain);
  return tokens;
}

TEST(FewCandidatesDrawTheSameTokens) {
  const std::unique_ptr<LlamaModel> model = Vocabulary("qwen2");
  REQUIRE(model != nullptr);
  const auto size = static_cast<std::size_t>(llama_vocab_n_tokens(model->vocab()));
  std::vector<std::vector<float>> steps;
  steps.reserve(12);
  for (unsigned i = 0; i < 12; ++i) steps.push_back(RandomLogits(size, i));
  for (float& logit : steps[3]) logit = std::round(logit);  // ties everywhere
  steps[4].assign(size, -INFINITY);
  steps[4][77] = 1;
  std::set<std::vector<Token>> different;
  for (const int top_k : {1, 5, 40, 256, 0}) {
    for (const float top_p : {1.0F, 0.9F}) {
      for (const float temperature : {0.0F, 0.7F, 2.0F}) {
        SamplingParams params;
        params.top_k = top_k;
        params.top_p = top_p;
        params.min_p = top_p == 1 ? 0 : 0.02F;
        params.temperature = temperature;
        params.seed = 42;
        auto sampler = NewSampler(model->vocab(), {.params = params});
        REQUIRE(sampler.ok());
        std::vector<Token> tokens;
        tokens.reserve(steps.size());
        for (const auto& logits : steps) tokens.push_back(sampler.value()->Sample(logits.data()));
        if (temperature == 0) {
          // Among equal logits greedy takes the first token; llama.cpp's depends on its sort.
          for (std::size_t i = 0; i < steps.size(); ++i) {
            EXPECT_EQ(tokens[i], LargestLogit(steps[i], nullptr));
          }
        } else {
          EXPECT(tokens == RunChain(params, steps));
        }
        different.insert(tokens);
      }
    }
  }
  EXPECT(different.size() > 10);
}

TEST(BiasedLogitsDrawTheSameTokens) {
  const std::unique_ptr<LlamaModel> model = Vocabulary("qwen2");
  REQUIRE(model != nullptr);
  const auto size = static_cast<std::size_t>(llama_vocab_n_tokens(model->vocab()));
  std::vector<std::vector<float>> steps;
  for (unsigned i = 0; i < 12; ++i) steps.push_back(RandomLogits(size, i));
  SamplingParams params;
  params.seed = 42;
  // Bans the best token of step 0 and favors token 77, whose bias is given twice.
  params.logit_bias = {{LargestLogit(steps[0], nullptr), -100.0F}, {77, 7.0F}, {77, 6.0F}};
  for (const int top_k : {1, 40, 0}) {
    for (const float temperature : {0.0F, 0.8F}) {
      params.top_k = top_k;
      params.temperature = temperature;
      auto sampler = NewSampler(model->vocab(), {.params = params});
      REQUIRE(sampler.ok());
      std::vector<Token> tokens;
      tokens.reserve(steps.size());
      for (const auto& logits : steps) tokens.push_back(sampler.value()->Sample(logits.data()));
      EXPECT(tokens == RunChain(params, steps));
      EXPECT(tokens[0] != params.logit_bias[0].first);
      EXPECT(std::count(tokens.begin(), tokens.end(), 77) > 0);
    }
  }
}

// ---- logprobs -----------------------------------------------------------------------------------

TEST(LogprobsAreOfTheModelsOwnDistribution) {
  const std::unique_ptr<LlamaModel> model = Vocabulary("qwen2");
  REQUIRE(model != nullptr);
  const auto size = static_cast<std::size_t>(llama_vocab_n_tokens(model->vocab()));
  std::vector<float> logits(size, -INFINITY);
  logits[10] = std::log(0.5F);
  logits[20] = std::log(0.25F);
  logits[30] = std::log(0.125F);
  logits[40] = std::log(0.125F);
  SamplingParams params;
  params.temperature = 5;  // changes the draw, not the logprobs
  params.logit_bias = {{20, 100.0F}};
  params.seed = 1;
  auto sampler =
      NewSampler(model->vocab(), {.params = params, .logprobs = 5, .piece = [](Token token) {
                                    return "t" + std::to_string(token);
                                  }});
  REQUIRE(sampler.ok());
  EXPECT_EQ(sampler.value()->Sample(logits.data()), 20);
  const TokenLogprobs* told = sampler.value()->logprobs();
  REQUIRE(told != nullptr && told->top.size() == 5);
  EXPECT_EQ(told->chosen.bytes, "t20");
  EXPECT(std::abs(told->chosen.logprob - std::log(0.25F)) < 1e-5);
  EXPECT_EQ(told->top[0].bytes, "t10");
  EXPECT(std::abs(told->top[0].logprob - std::log(0.5F)) < 1e-5);
  EXPECT_EQ(told->top[1].bytes, "t20");
  EXPECT_EQ(told->top[4].logprob, -9999.0F);  // JSON has no infinity

  auto silent = NewSampler(model->vocab(), {.params = params});
  REQUIRE(silent.ok());
  (void)silent.value()->Sample(logits.data());
  EXPECT(silent.value()->logprobs() == nullptr);
  auto none =
      NewSampler(model->vocab(),
                 {.params = params, .logprobs = 0, .piece = [](Token) { return std::string(); }});
  REQUIRE(none.ok());
  (void)none.value()->Sample(logits.data());
  EXPECT(none.value()->logprobs()->top.empty());
}

// ---- leads --------------------------------------------------------------------------------------

TEST(TheLeadIsOfTheLogitsAsTheyAreDrawnFrom) {
  const std::unique_ptr<LlamaModel> model = Vocabulary("qwen2");
  REQUIRE(model != nullptr);
  std::vector<float> logits(static_cast<std::size_t>(llama_vocab_n_tokens(model->vocab())), -4);
  logits[500] = 3;
  logits[510] = 2.75F;
  logits[520] = 2;
  const auto lead = [&](const SamplingParams& params, const std::vector<Token>& prompt = {}) {
    auto sampler = NewSampler(model->vocab(), {.params = params, .prompt = prompt});
    EXPECT(sampler.ok());
    const std::optional<float> before = sampler.value()->Lead(logits.data());
    const Token drawn = sampler.value()->Sample(logits.data());
    return std::pair(before.value_or(-1), drawn);
  };
  SamplingParams params;
  params.temperature = 0;
  EXPECT(lead(params) == std::pair(0.25F, Token{500}));
  params.logit_bias = {{520, 2.0F}};
  EXPECT(lead(params) == std::pair(1.0F, Token{520}));
  params.logit_bias = {{510, -INFINITY}};
  EXPECT(lead(params) == std::pair(1.0F, Token{500}));
  params.logit_bias.clear();
  params.presence_penalty = 2;
  EXPECT(lead(params, {500}) == std::pair(0.75F, Token{510}));
  params.temperature = 0.5F;
  EXPECT_EQ(lead(params).first, INFINITY);
}

// ---- grammars in the sampler --------------------------------------------------------------------

struct Answer {
  std::string text;
  int drawn = 0;
  int forced = 0;
};

std::unique_ptr<AnswerConstraint> Constrained(std::shared_ptr<CompiledGrammar> grammar,
                                              std::shared_ptr<const VocabularyIndex> vocabulary,
                                              const LlamaModel& model) {
  AnswerConstraintParts parts;
  parts.grammar = std::make_unique<GrammarConstraint>(std::move(grammar), std::move(vocabulary),
                                                      TokenizerWithin(model));
  return std::make_unique<AnswerConstraint>(std::move(parts));
}

// Draws from random logits until the grammar is complete.
Answer Generate(const LlamaModel& model, const std::string& gbnf, const SamplingParams& params,
                std::optional<std::uint32_t> logprobs = std::nullopt) {
  auto compiled = CompileGrammar(gbnf);
  if (!compiled.ok()) {
    test::Fail(__FILE__, __LINE__, compiled.status().message());
    return {};
  }
  auto sampler = NewSampler(
      model.vocab(), {.params = params,
                      .constraint = Constrained(compiled.value(), IndexVocabulary(model), model),
                      .logprobs = logprobs,
                      .piece = [&](Token token) { return model.Piece(token, true); }});
  Answer answer;
  const auto size = static_cast<std::size_t>(llama_vocab_n_tokens(model.vocab()));
  for (unsigned step = 0; step < 200; ++step) {
    const std::vector<float> logits = RandomLogits(size, step);
    const Token token = sampler.value()->Sample(logits.data());
    if (token == kNoToken || llama_vocab_is_eog(model.vocab(), token)) return answer;
    answer.text += model.Piece(token, false);
    ++answer.drawn;
    for (const Token forced : sampler.value()->Forced()) {
      answer.text += model.Piece(forced, false);
      ++answer.forced;
    }
    if (sampler.value()->ended()) return answer;
  }
  return answer;
}

TEST(ForcedTokensSpareDraws) {
  const std::string gbnf =
      "root ::= \"{\\\"description\\\": \" (\"true\" | \"false\") \", \\\"temperature\\\": \" "
      "[0-9] \"}\"";
  SamplingParams params;
  params.seed = 3;
  for (const char* name : {"qwen2", "gpt-2", "llama-bpe", "llama-spm", "phi-3"}) {
    const std::unique_ptr<LlamaModel> model = Vocabulary(name);
    REQUIRE(model != nullptr);
    const Answer answer = Generate(*model, gbnf, params);
    EXPECT(answer.text.starts_with("{\"description\": "));
    EXPECT(answer.text.ends_with("}"));
    EXPECT(answer.forced > 4);
    // With logprobs every token is drawn, and the text still matches the grammar.
    const Answer asked = Generate(*model, gbnf, params, 0);
    EXPECT(asked.text.starts_with("{\"description\": ") && asked.text.ends_with("}"));
    EXPECT_EQ(asked.forced, 0);
  }
}

// NaN or infinity at any position, with any options: Sample returns kBrokenLogits.
TEST(LogitsThatAreNoNumbersGiveNoToken) {
  const std::unique_ptr<LlamaModel> model = Vocabulary("qwen2");
  REQUIRE(model != nullptr);
  const auto size = static_cast<std::size_t>(llama_vocab_n_tokens(model->vocab()));
  const std::vector<float> good = RandomLogits(size, 1);
  std::vector<std::vector<float>> broken = {std::vector<float>(size, NAN),
                                            std::vector<float>(size, -INFINITY)};
  for (const std::size_t at : {std::size_t{0}, std::size_t{17}, size / 2, size - 1}) {
    for (const float value : {NAN, -NAN, INFINITY}) {
      broken.push_back(good);
      broken.back()[at] = value;
    }
  }
  const auto index = IndexVocabulary(*model);
  const auto sampler_of = [&](SamplingParams params, bool grammar, bool logprobs) {
    SamplerOptions options{.params = std::move(params),
                           .piece = [&](Token token) { return model->Piece(token, true); }};
    if (grammar) {
      options.constraint = Constrained(CompileGrammar("root ::= [a-z ]+").value(), index, *model);
    }
    if (logprobs) options.logprobs = 3;
    return std::move(NewSampler(model->vocab(), std::move(options)).value());
  };
  SamplingParams greedy;
  greedy.temperature = 0;
  SamplingParams penalized = greedy;
  penalized.repeat_penalty = 1.1F;
  SamplingParams ranked;
  ranked.top_k = 40;
  SamplingParams unranked;
  unranked.top_k = 0;
  SamplingParams biased = greedy;
  biased.logit_bias = {{17, 5.0F}, {18, -INFINITY}};
  for (const SamplingParams& params : {greedy, penalized, ranked, unranked, biased}) {
    for (const bool grammar : {false, true}) {
      for (const bool logprobs : {false, true}) {
        const std::unique_ptr<Sampler> sampler = sampler_of(params, grammar, logprobs);
        for (const std::vector<float>& logits : broken) {
          EXPECT_EQ(sampler->Sample(logits.data()), kBrokenLogits);
          EXPECT(!sampler->Lead(logits.data()) || params.temperature > 0);
        }
        EXPECT(sampler->Sample(good.data()) >= 0);
      }
    }
  }
}

// The text fits in many ways, so that its automaton grows with every letter.
TEST(ALongTextUnderAnAmbiguousGrammarIsWhatTheModelDraws) {
  const std::unique_ptr<LlamaModel> model = Vocabulary("qwen2");
  REQUIRE(model != nullptr);
  const auto size = static_cast<std::size_t>(llama_vocab_n_tokens(model->vocab()));
  const Token letter = model->Tokenize(" a", false, false).value().front();
  std::vector<float> logits(size);
  logits[letter] = 10;
  for (const char* gbnf : {R"(root ::= ([a-z ]{1,40} [.,]?){1,200})", "root ::= [a-z ]{0,80000}"}) {
    SamplerOptions options{.params = {.temperature = 0}};
    options.constraint = Constrained(CompileGrammar(gbnf).value(), IndexVocabulary(*model), *model);
    const auto sampler = std::move(NewSampler(model->vocab(), std::move(options)).value());
    for (int i = 0; i < 3000; ++i) REQUIRE(sampler->Sample(logits.data()) == letter);
  }
}

TEST(UnderAGrammarTheLeadIsOfTheBestTokenThatItAllows) {
  const std::unique_ptr<LlamaModel> model = Vocabulary("qwen2");
  REQUIRE(model != nullptr);
  const auto token = [&](const char* text) {
    return model->Tokenize(text, false, false).value().front();
  };
  std::vector<float> logits(static_cast<std::size_t>(llama_vocab_n_tokens(model->vocab())), -4);
  const auto lead = [&]() -> std::optional<float> {
    SamplerOptions options{.params = {.temperature = 0}};
    options.constraint = Constrained(CompileGrammar("root ::= [0-9]+ [a-z]").value(),
                                     IndexVocabulary(*model), *model);
    const auto sampler = std::move(NewSampler(model->vocab(), std::move(options)).value());
    logits[token("7")] = 20;
    EXPECT_EQ(sampler->Sample(logits.data()), token("7"));
    logits[token("7")] = 1;
    const auto before = sampler->Lead(logits.data());
    EXPECT(sampler->Sample(logits.data()) >= 0);
    return before;
  };
  logits[token("3")] = 3;
  logits[token("4")] = 2.5F;
  EXPECT(lead() == 0.5F);
  // A refused token is the best, and one comes before the next that is allowed.
  logits[token("!")] = 9;
  logits[token("?")] = 2.75F;
  EXPECT(lead() == 0.25F);
  // No token among the best is allowed.
  for (const char* each : {"!", "?", "#", "$", "%", "&", "*", "+"}) logits[token(each)] = 9;
  EXPECT(!lead());
}

// As in llama.cpp, where both come before the temperature.
TEST(WithoutTemperatureXtcAndTypicalMayRemoveTheLikeliest) {
  const std::unique_ptr<LlamaModel> model = Vocabulary("qwen2");
  REQUIRE(model != nullptr);
  const auto size = static_cast<std::size_t>(llama_vocab_n_tokens(model->vocab()));
  std::vector<float> logits(size, -20);
  logits[5] = 3;
  for (int i = 10; i < 30; ++i) logits[i] = 2;
  const auto drawn = [&](SamplingParams params) {
    params.temperature = 0;
    const auto sampler =
        std::move(NewSampler(model->vocab(), {.params = std::move(params)}).value());
    return sampler->Sample(logits.data());
  };
  EXPECT_EQ(drawn({}), 5);
  EXPECT_EQ(drawn({.xtc_probability = 1, .xtc_threshold = 0.6F}), 5);
  EXPECT(drawn({.xtc_probability = 1, .xtc_threshold = 0.01F}) != 5);
  EXPECT(drawn({.typical_p = 0.5F}) != 5);
}

TEST(AGrammarThatTheVocabularyCannotWriteEndsInNoToken) {
  const std::unique_ptr<LlamaModel> model = Vocabulary("bert-bge");  // lower case only
  REQUIRE(model != nullptr);
  for (const float temperature : {0.0F, 0.8F}) {
    SamplingParams params;
    params.temperature = temperature;
    EXPECT_EQ(Generate(*model, "root ::= [\\x01-\\x02]+", params).text, "");
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
