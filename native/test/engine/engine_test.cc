// Requests to a complete engine: refusals, preemption, cancel and pause, and how requests end.
#include "engine/engine.h"

#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "loaded_engine.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

using namespace std::chrono_literals;
using test::Greedy;
using test::LoadEngine;
using test::Prompt;
using test::Request;
using test::Seeded;

TEST(APromptThatDoesNotFitIsRefusedWithBothNumbers) {
  const auto loaded = LoadEngine(test::TinyModels()[0], 256);
  REQUIRE(loaded != nullptr);
  const std::vector<Token> tokens = loaded->engine->Tokenize(Prompt(600, 1), true, true).value();
  const Result<std::uint32_t> refused =
      loaded->engine->Submit(Request(1, Prompt(600, 1), Greedy(), 1));
  EXPECT_EQ(refused.status().code(), StatusCode::kContextOverflow);
  EXPECT(refused.status().message().find(std::to_string(tokens.size())) != std::string::npos);
  EXPECT(refused.status().message().find("256") != std::string::npos);

  // The largest prompt that fits leaves room for one token; a longer one is refused.
  std::vector<Token> fitting(tokens.begin() + 1, tokens.begin() + 255);
  std::string text = loaded->engine->Detokenize(fitting, false);
  std::size_t length = loaded->engine->Tokenize(text, true, true).value().size();
  while (length < 255) length = loaded->engine->Tokenize(text += " the", true, true).value().size();
  REQUIRE(length == 255);
  REQUIRE(loaded->engine->Submit(Request(2, text, Greedy(), 10)).ok());
  REQUIRE(loaded->listener.WaitFor(2));
  EXPECT_EQ(loaded->listener.End(2).reason, FinishReason::kLength);
  EXPECT_EQ(loaded->listener.End(2).usage.output_tokens, 1U);
  EXPECT_EQ(loaded->engine->Submit(Request(3, text + " the", Greedy(), 10)).status().code(),
            StatusCode::kContextOverflow);
}

TEST(AGenerationThatReachesTheContextsEndIsLength) {
  const auto loaded = LoadEngine(test::TinyModels()[1], 256);
  REQUIRE(loaded != nullptr);
  GenerationRequest request = Request(1, Prompt(100, 1), Greedy(), 0);
  request.max_tokens.reset();
  const Result<std::uint32_t> input = loaded->engine->Submit(std::move(request));
  REQUIRE(input.ok() && loaded->listener.WaitFor(1));
  const GenerationOutput end = loaded->listener.End(1);
  EXPECT_EQ(end.reason, FinishReason::kLength);
  EXPECT_EQ(end.usage.input_tokens + end.usage.output_tokens, 256U);
}

TEST(RequestsThatMakeNoSenseAreRefused) {
  const auto loaded = LoadEngine(test::TinyModels()[1]);
  REQUIRE(loaded != nullptr);
  const auto code = [&](const std::string& prompt, const SamplingParams& sampling) {
    return loaded->engine->Submit(Request(1, prompt, sampling, 1)).status().code();
  };
  EXPECT_EQ(code("", {}), StatusCode::kInvalidRequest);  // no BOS in this vocabulary
  for (const auto& spoil : std::vector<void (*)(SamplingParams&)>{
           [](SamplingParams& p) { p.temperature = NAN; },
           [](SamplingParams& p) { p.temperature = -1; },
           [](SamplingParams& p) { p.temperature = INFINITY; },
           [](SamplingParams& p) { p.top_p = 1.1F; },
           [](SamplingParams& p) { p.min_p = NAN; },
           [](SamplingParams& p) { p.top_k = -1; },
           [](SamplingParams& p) { p.repeat_penalty = 0; },
           [](SamplingParams& p) { p.frequency_penalty = INFINITY; },
           [](SamplingParams& p) { p.presence_penalty = NAN; },
           [](SamplingParams& p) { p.repeat_last_n = -2; },
           [](SamplingParams& p) { p.dynatemp_range = NAN; },
           [](SamplingParams& p) { p.dynatemp_exponent = -1; },
           [](SamplingParams& p) { p.typical_p = 1.1F; },
           [](SamplingParams& p) { p.xtc_probability = -0.1F; },
           [](SamplingParams& p) { p.xtc_threshold = 2; },
           [](SamplingParams& p) { p.mirostat = 3; },
           [](SamplingParams& p) { p.mirostat_tau = NAN; },
           [](SamplingParams& p) { p.mirostat_eta = 2; },
           [](SamplingParams& p) { p.dry_multiplier = INFINITY; },
           [](SamplingParams& p) { p.dry_base = 0.5F; },
           [](SamplingParams& p) { p.dry_allowed_length = -1; },
           [](SamplingParams& p) { p.dry_penalty_last_n = 1 << 20; },
           [](SamplingParams& p) { p.dry_sequence_breakers = {""}; },
           [](SamplingParams& p) { p.dry_sequence_breakers.assign(17, "x"); },
           [](SamplingParams& p) {
             p.logit_bias = {{-1, 1.0F}};
           },
           [](SamplingParams& p) {
             p.logit_bias = {{151936, 1.0F}};
           },
           [](SamplingParams& p) {
             p.logit_bias = {{5, NAN}};
           }}) {
    SamplingParams params;
    spoil(params);
    EXPECT_EQ(code("Hello", params), StatusCode::kInvalidRequest);
  }
}

TEST(CancelPauseAndResume) {
  // More tokens than any machine generates before the first one is delivered.
  const auto loaded = LoadEngine(test::TinyModels()[0], 65536);
  REQUIRE(loaded != nullptr);
  REQUIRE(loaded->engine->Submit(Request(1, "Once", Seeded(3), 60000)).ok());
  REQUIRE(loaded->listener.WaitForText(1));
  loaded->engine->Pause(1);
  REQUIRE(loaded->engine->Submit(Request(2, "Twice", Seeded(3), 20)).ok());
  REQUIRE(loaded->listener.WaitFor(2));
  const std::string paused = loaded->listener.Text(1);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(loaded->listener.Text(1), paused);
  EXPECT_EQ(loaded->engine->stats().active, 1U);
  EXPECT(loaded->engine->stats().kv_cells_used > 0);
  loaded->engine->Resume(1);
  loaded->engine->Cancel(1);
  REQUIRE(loaded->listener.WaitFor(1));
  EXPECT_EQ(loaded->listener.End(1).reason, FinishReason::kCancelled);
  EXPECT_EQ(loaded->engine->stats().kv_cells_used, 0U);
}

TEST(ALongPromptIsCancelledWithinAStep) {
  constexpr uint64_t kTokens = 60000;
  const auto loaded = LoadEngine(test::TinyModels()[1], 65536);
  REQUIRE(loaded != nullptr);
  for (GenerationId id = 1;; ++id) {
    const EngineStats before = loaded->engine->stats();
    const int seed = static_cast<int>(id);
    REQUIRE(loaded->engine->Submit(Request(id, Prompt(kTokens, seed), Greedy(), 10)).ok());
    while (loaded->engine->stats().steps == before.steps) std::this_thread::sleep_for(1ms);
    loaded->engine->Cancel(id);
    const uint64_t at_cancel = loaded->engine->stats().prompt_tokens - before.prompt_tokens;
    REQUIRE(loaded->listener.WaitFor(id));
    // On a busy machine the whole prompt may have been computed before this thread ran again.
    if (at_cancel >= kTokens - 10000 && id < 20) continue;
    EXPECT_EQ(loaded->listener.End(id).reason, FinishReason::kCancelled);
    const uint64_t computed = loaded->engine->stats().prompt_tokens - before.prompt_tokens;
    EXPECT(computed - at_cancel < 10000);
    return;
  }
}

// More generations than the cache holds: some are preempted and resumed, and all end normally.
TEST(MoreThanTheCacheHoldsTakeTurns) {
  for (const std::string& path : test::TinyModels()) {
    const auto loaded = LoadEngine(path, 512);
    REQUIRE(loaded != nullptr);
    for (GenerationId id = 0; id < 8; ++id) {
      GenerationRequest request = Request(id, Prompt(60, static_cast<int>(id)), Greedy(), 90);
      request.priority = id % 2 == 0 ? Priority::kInteractive : Priority::kBatch;
      REQUIRE(loaded->engine->Submit(std::move(request)).ok());
    }
    for (GenerationId id = 0; id < 8; ++id) {
      REQUIRE(loaded->listener.WaitFor(id));
      const GenerationOutput end = loaded->listener.End(id);
      EXPECT(end.status.ok());
      EXPECT(end.usage.output_tokens == 90 || end.reason == FinishReason::kStop);
    }
    const EngineStats stats = loaded->engine->stats();
    EXPECT(stats.preemptions > 0);
    EXPECT_EQ(stats.kv_cells_used, 0U);
    EXPECT(stats.last_step.predicted_ms > 0 && stats.last_step.spent_ms > 0);
  }
}

TEST(CloseWhileGenerating) {
  const auto loaded = LoadEngine(test::TinyModels()[0]);
  REQUIRE(loaded != nullptr);
  for (GenerationId id = 0; id < 12; ++id) {
    REQUIRE(loaded->engine->Submit(Request(id, Prompt(50, 1), Seeded(id), 1000)).ok());
  }
  REQUIRE(loaded->listener.WaitForText(3));
  loaded->engine->Close();
  for (GenerationId id = 0; id < 12; ++id) REQUIRE(loaded->listener.WaitFor(id));
  EXPECT_EQ(loaded->engine->Submit(Request(50, "x", {}, 1)).status().code(),
            StatusCode::kEngineUnavailable);
  loaded->engine->Close();
}

TEST(AnEngineMayBeDestroyedWhileItGenerates) {
  const auto loaded = LoadEngine(test::TinyModels()[2]);
  REQUIRE(loaded != nullptr);
  REQUIRE(loaded->engine->Submit(Request(1, "Once", Seeded(3), 1500)).ok());
  REQUIRE(loaded->listener.WaitForText(1));
  loaded->owner.reset();
  REQUIRE(loaded->listener.WaitFor(1));
}

TEST(TwoEnginesLiveSideBySide) {
  const auto one = LoadEngine(test::TinyModels()[0], 512);
  const auto two = LoadEngine(test::TinyModels()[1], 512);
  REQUIRE(one != nullptr && two != nullptr);
  REQUIRE(one->engine->Submit(Request(1, "Once", Seeded(3), 40)).ok());
  REQUIRE(two->engine->Submit(Request(1, "Once", Seeded(3), 40)).ok());
  EXPECT(one->listener.WaitFor(1));
  EXPECT(two->listener.WaitFor(1));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
