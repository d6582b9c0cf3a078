// The text of a complete engine equals that of the plain loop of reference.h, whatever runs beside
// it or is cached.
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "engine/base/text_stream.h"
#include "engine/engine.h"
#include "engine/llama/chat/chat_renderer.h"
#include "loaded_engine.h"
#include "models.h"
#include "reference.h"
#include "test.h"

namespace svc {
namespace {

using test::Greedy;
using test::LoadEngine;
using test::Prompt;
using test::Request;
using test::Seeded;

// Greedy and seeded, with every sampling parameter.
std::vector<SamplingParams> Samplings() {
  std::vector<SamplingParams> samplings = {Greedy(), Seeded(1), Seeded(4242)};
  samplings.push_back(Seeded(7));
  samplings.back().temperature = 1.3F;
  samplings.back().top_k = 0;
  samplings.back().top_p = 0.8F;
  samplings.back().min_p = 0;
  samplings.push_back(Seeded(8));
  samplings.back().repeat_penalty = 1.3F;
  samplings.back().frequency_penalty = 0.4F;
  samplings.back().presence_penalty = 0.2F;
  samplings.back().repeat_last_n = 32;
  samplings.push_back(Seeded(9));
  samplings.back().logit_bias = {{300, 4.0F}, {301, -INFINITY}, {302, 2.5F}};
  samplings.push_back(Greedy());
  samplings.back().repeat_penalty = 1.2F;
  samplings.push_back(Seeded(10));
  samplings.back().typical_p = 0.7F;
  samplings.back().xtc_probability = 0.5F;
  samplings.back().xtc_threshold = 0.05F;
  samplings.push_back(Seeded(11));
  samplings.back().dynatemp_range = 0.6F;
  samplings.back().dynatemp_exponent = 1.5F;
  for (const int version : {1, 2}) {
    samplings.push_back(Seeded(12));
    samplings.back().mirostat = version;
    samplings.back().mirostat_tau = 4;
  }
  for (SamplingParams sampling : {Greedy(), Seeded(13)}) {
    sampling.dry_multiplier = 0.8F;
    sampling.dry_penalty_last_n = 200;
    samplings.push_back(sampling);
  }
  return samplings;
}

// From raw prompts (short, and of several batches) and from chats.
TEST(TextEqualsThePlainLoop) {
  const std::vector<SamplingParams> samplings = Samplings();
  int texts = 0;
  for (const std::string& path : test::TinyModels()) {
    const auto loaded = LoadEngine(path);
    const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(path);
    REQUIRE(loaded != nullptr && model != nullptr);
    const auto renderer = ChatRenderer::New(*model);
    REQUIRE(renderer.ok());
    GenerationId id = 0;
    for (const SamplingParams& sampling : samplings) {
      for (const int words : {3, 40, 900}) {
        GenerationRequest request = Request(++id, Prompt(words, 1), sampling, 48);
        request.reuse_prefix = false;  // as the plain loop
        std::vector<Token> tokens = model->Tokenize(request.prompt, true, true).value();
        if (words == 40) {
          request.messages = {{"user", Prompt(words, 2)}};
          tokens = renderer.value()->RenderTokens(request.messages).value().tokens;
        }
        const test::Reference expected =
            test::RunReference(*model, tokens, sampling, 48, 2048, loaded->engine->info().threads);
        const Result<std::uint32_t> submitted = loaded->engine->Submit(std::move(request));
        REQUIRE(submitted.ok() && loaded->listener.WaitFor(id));
        EXPECT_EQ(submitted.value(), tokens.size());
        const GenerationOutput end = loaded->listener.End(id);
        EXPECT(end.status.ok());
        EXPECT_EQ(loaded->listener.Text(id), expected.text);
        EXPECT_EQ(end.usage.output_tokens, expected.tokens.size());
        EXPECT_EQ(end.reason, expected.ended ? FinishReason::kStop : FinishReason::kLength);
        ++texts;
      }
    }
  }
  std::printf("     %d texts\n", texts);
}

TEST(ASeedRepeatsATextWhateverIsCached) {
  for (const std::string& path : test::TinyModels()) {
    const auto loaded = LoadEngine(path);
    REQUIRE(loaded != nullptr);
    GenerationId id = 0;
    std::vector<std::string> texts;
    for (int round = 0; round < 3; ++round) {
      REQUIRE(loaded->engine->Submit(Request(++id, Prompt(100, 1), Seeded(5), 40)).ok());
      REQUIRE(loaded->listener.WaitFor(id));
      EXPECT_EQ(loaded->listener.End(id).usage.cached_tokens, 0U);
      texts.push_back(loaded->listener.Text(id));
      // Other requests store and reuse prefixes of the same prompt and of longer ones.
      for (const int words : {100, 160, 160}) {
        REQUIRE(loaded->engine->Submit(Request(++id, Prompt(words, 1), Greedy(), 20)).ok());
        REQUIRE(loaded->listener.WaitFor(id));
      }
      EXPECT(loaded->listener.End(id).usage.cached_tokens > 100);
      EXPECT(loaded->engine->stats().kv_cells_cached > 100);
    }
    EXPECT_EQ(texts[1], texts[0]);
    EXPECT_EQ(texts[2], texts[0]);
  }
}

TEST(AGroupWithSeedsComputesItsPromptOnce) {
  for (const std::string& path : test::TinyModels()) {
    const auto loaded = LoadEngine(path);
    REQUIRE(loaded != nullptr);
    GenerationId id = 0;
    // The first token: those after it are computed in a batch with the others'.
    REQUIRE(loaded->engine->Submit(Request(++id, Prompt(300, 1), Seeded(5), 1)).ok());
    REQUIRE(loaded->listener.WaitFor(id));
    const std::string alone = loaded->listener.Text(id);
    const std::uint32_t tokens = loaded->listener.End(id).usage.input_tokens;

    loaded->engine->Hold(true);
    for (std::uint32_t seed = 5; seed < 9; ++seed) {
      GenerationRequest request = Request(++id, Prompt(300, 1), Seeded(seed), 1);
      request.prefix_group = "answers";
      REQUIRE(loaded->engine->Submit(std::move(request)).ok());
    }
    loaded->engine->Hold(false);
    std::uint32_t computed = 0;
    for (GenerationId each = 2; each <= id; ++each) {
      REQUIRE(loaded->listener.WaitFor(each));
      const GenerationUsage usage = loaded->listener.End(each).usage;
      computed += usage.input_tokens - usage.cached_tokens;
    }
    EXPECT_EQ(loaded->listener.Text(2), alone);
    EXPECT_EQ(computed, tokens + 3);
    // Nobody else finds it.
    GenerationRequest other = Request(++id, Prompt(300, 1), Seeded(5), 1);
    other.prefix_group = "others";
    REQUIRE(loaded->engine->Submit(std::move(other)).ok());
    REQUIRE(loaded->listener.WaitFor(id));
    EXPECT_EQ(loaded->listener.End(id).usage.cached_tokens, 0U);
    EXPECT_EQ(loaded->listener.Text(id), alone);
  }
}

TEST(ThreadsDoNotChangeTheText) {
  std::map<int, std::string> texts;
  for (const int threads : {1, 2}) {
    const auto loaded = LoadEngine(test::TinyModels()[0], 512, threads);
    REQUIRE(loaded != nullptr);
    EXPECT_EQ(loaded->engine->info().threads, threads);
    REQUIRE(loaded->engine->Submit(Request(1, "Once", Greedy(), 8)).ok());
    REQUIRE(loaded->listener.WaitFor(1));
    texts[threads] = loaded->listener.Text(1);
  }
  EXPECT_EQ(texts[1], texts[2]);
}

TEST(AnUnseededDrawDiffersFromTheNext) {
  const auto loaded = LoadEngine(test::TinyModels()[0]);
  REQUIRE(loaded != nullptr);
  for (const GenerationId id : {1U, 2U}) {
    REQUIRE(loaded->engine->Submit(Request(id, "Once", {}, 32)).ok());
    REQUIRE(loaded->listener.WaitFor(id));
  }
  EXPECT(loaded->listener.Text(1) != loaded->listener.Text(2));
}

TEST(StopStringsEndTheText) {
  const auto loaded = LoadEngine(test::TinyModels()[0]);
  REQUIRE(loaded != nullptr);
  REQUIRE(loaded->engine->Submit(Request(1, "Once", Seeded(3), 40)).ok());
  REQUIRE(loaded->listener.WaitFor(1));
  const std::string whole = loaded->listener.Text(1);
  REQUIRE(whole.size() > 40);
  const std::string stop = whole.substr(whole.size() / 2, 6);
  GenerationRequest request = Request(2, "Once", Seeded(3), 40);
  request.stop = {"never to be seen", stop};
  REQUIRE(loaded->engine->Submit(std::move(request)).ok());
  REQUIRE(loaded->listener.WaitFor(2));
  EXPECT_EQ(loaded->listener.Text(2), whole.substr(0, whole.find(stop)));
  EXPECT_EQ(loaded->listener.End(2).reason, FinishReason::kStop);
  EXPECT_EQ(loaded->listener.End(2).stop_string.value_or(""), stop);
  EXPECT(!loaded->listener.End(1).stop_string);
}

TEST(LogprobsComeWithTheTextOfTheirTokens) {
  const auto loaded = LoadEngine(test::TinyModels()[1]);
  REQUIRE(loaded != nullptr);
  GenerationRequest request = Request(1, "Tell me", Greedy(), 24);
  request.logprobs = 3;
  REQUIRE(loaded->engine->Submit(std::move(request)).ok() && loaded->listener.WaitFor(1));
  const std::vector<TokenLogprobs> told = loaded->listener.Logprobs(1);
  const GenerationOutput end = loaded->listener.End(1);
  EXPECT(told.size() == end.usage.output_tokens || told.size() + 1 == end.usage.output_tokens);
  std::string bytes;
  for (const TokenLogprobs& token : told) {
    bytes += token.chosen.bytes;
    REQUIRE(token.top.size() == 3);
    EXPECT_EQ(token.top[0].bytes, token.chosen.bytes);  // greedy
    EXPECT_EQ(token.top[0].logprob, token.chosen.logprob);
    EXPECT(token.chosen.logprob <= 0 && token.top[1].logprob <= token.top[0].logprob);
  }
  TextStream stream({});
  std::string text;
  (void)stream.Push(bytes, &text);
  stream.Finish(&text);
  EXPECT_EQ(text, loaded->listener.Text(1));

  // Tokens that a stop string cuts off have no logprobs.
  const std::string stop = text.substr(text.size() / 2, 3);
  GenerationRequest stopped = Request(2, "Tell me", Greedy(), 24);
  stopped.logprobs = 0;
  stopped.stop = {stop};
  REQUIRE(loaded->engine->Submit(std::move(stopped)).ok() && loaded->listener.WaitFor(2));
  std::size_t before_last = 0;
  const std::vector<TokenLogprobs> kept = loaded->listener.Logprobs(2);
  for (std::size_t i = 0; i + 1 < kept.size(); ++i) before_last += kept[i].chosen.bytes.size();
  EXPECT(before_last <= loaded->listener.Text(2).size());
  EXPECT(loaded->listener.Text(2).size() < text.size());
}

}  // namespace
}  // namespace svc

TEST_MAIN()
