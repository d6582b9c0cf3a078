// An answer that another request continues, as after a crash.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "loaded_engine.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

using test::Greedy;
using test::Loaded;
using test::LoadEngine;
using test::Prompt;
using test::Request;
using test::Seeded;

constexpr std::uint32_t kTokens = 40;

struct Run {
  std::string text;
  std::vector<Token> tokens;
  GenerationOutput end;
};

Run Generate(Loaded& loaded, GenerationRequest request) {
  const GenerationId id = request.id;
  const bool done = loaded.engine->Submit(std::move(request)).ok() && loaded.listener.WaitFor(id);
  EXPECT(done);
  if (!done) return {};
  return {loaded.listener.Text(id), loaded.listener.Tokens(id), loaded.listener.End(id)};
}

// Samplers with a state of their own: random numbers, penalties, XTC, Mirostat.
std::vector<SamplingParams> Samplings() {
  std::vector<SamplingParams> samplings = {Greedy(), Seeded(1), Seeded(2), Seeded(3), Seeded(4)};
  samplings[1].repeat_penalty = 1.3F;
  samplings[2].xtc_probability = 0.5F;
  samplings[2].xtc_threshold = 0.05F;
  samplings[3].mirostat = 2;
  samplings[4].dry_multiplier = 0.8F;
  return samplings;
}

// In another process, hence in a new engine. Requests with a seed are computed alone and one row at
// a time, so that not even the rounding differs.
TEST(AnAnswerGoesOnAsItWouldHave) {
  int cuts = 0;
  for (const std::string& path : test::TinyModels()) {
    const auto first = LoadEngine(path);
    const auto second = LoadEngine(path);
    REQUIRE(first != nullptr && second != nullptr);
    GenerationId id = 0;
    for (SamplingParams sampling : Samplings()) {
      if (!sampling.seed) sampling.seed = 9;
      GenerationRequest request = Request(++id, Prompt(40, 1), sampling, kTokens);
      request.continuation.emplace();
      const Run whole = Generate(*first, request);
      EXPECT_EQ(whole.tokens.size(), whole.end.usage.output_tokens);
      for (std::size_t cut = 0; cut < whole.tokens.size(); cut += 1 + cut / 2) {
        request.id = ++id;
        request.continuation->tokens.assign(whole.tokens.begin(), whole.tokens.begin() + cut);
        const Run again = Generate(*second, request);
        EXPECT_EQ(again.text, whole.text);
        EXPECT(again.tokens == whole.tokens);
        EXPECT_EQ(again.end.reason, whole.end.reason);
        EXPECT_EQ(again.end.usage.output_tokens, whole.end.usage.output_tokens);
        ++cuts;
      }
    }
  }
  EXPECT(cuts > 100);
  std::printf("     %d cuts\n", cuts);
}

// Without a seed of the request the known tokens are computed many at a time.
TEST(KnownTokensAreDrawnAgainWhateverTheLogitsAre) {
  for (const std::string& path : test::TinyModels()) {
    const auto loaded = LoadEngine(path);
    REQUIRE(loaded != nullptr);
    SamplingParams sampling;
    sampling.temperature = 2;
    GenerationRequest request = Request(1, Prompt(40, 1), sampling, kTokens);
    request.continuation = {.seed = 5, .tokens = {}};
    const Run whole = Generate(*loaded, request);
    if (whole.tokens.size() < 20) continue;

    // Tokens that these logits would hardly give: the answer of another seed.
    request.id = 2;
    request.continuation = {.seed = 6, .tokens = {whole.tokens.begin(), whole.tokens.begin() + 20}};
    const EngineStats before = loaded->engine->stats();
    const Run other = Generate(*loaded, request);
    const EngineStats after = loaded->engine->stats();
    REQUIRE(other.tokens.size() >= 20);
    EXPECT(std::vector(other.tokens.begin(), other.tokens.begin() + 20) ==
           request.continuation->tokens);
    const auto accepted = after.accepted_tokens - before.accepted_tokens;
    std::printf("     %s: %d of 20 without a step of their own\n", path.c_str(),
                static_cast<int>(accepted));
  }
}

TEST(AGrammarGoesOnWhereItStood) {
  constexpr const char* kList = "root ::= (\"- \" [a-z ]{3,9} \"\\n\"){3}";
  for (const std::string& path : test::TinyModels()) {
    const auto first = LoadEngine(path);
    const auto second = LoadEngine(path);
    REQUIRE(first != nullptr && second != nullptr);
    GenerationRequest request = Request(1, Prompt(12, 1), Seeded(3), 200);
    request.grammar = kList;
    request.continuation.emplace();
    const Run whole = Generate(*first, request);
    EXPECT(whole.end.status.ok() && whole.tokens.size() > 3);
    for (std::size_t cut = 1; cut < whole.tokens.size(); ++cut) {
      ++request.id;
      request.continuation->tokens.assign(whole.tokens.begin(), whole.tokens.begin() + cut);
      EXPECT_EQ(Generate(*second, request).text, whole.text);
    }
    // Tokens of another grammar's text.
    ++request.id;
    request.grammar = "root ::= \"other\" | \"different\"";
    request.continuation->tokens = whole.tokens;
    EXPECT(!Generate(*second, request).end.status.ok());
  }
}

TEST(OnlyAContinuationListsTokens) {
  const auto loaded = LoadEngine(test::TinyModels().front());
  REQUIRE(loaded != nullptr);
  EXPECT(Generate(*loaded, Request(1, Prompt(12, 1), Seeded(3), 10)).tokens.empty());
}

}  // namespace
}  // namespace svc

TEST_MAIN()
