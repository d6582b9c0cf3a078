// The engine for text: what it makes of requests, what it refuses, preemption, cancel and pause,
// and how requests end.
#include "engine/text_engine.h"

#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/llama/cpu_threads.h"
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

// ---- prompts ------------------------------------------------------------------------------------

TEST(RenderReturnsThePromptOfSubmit) {
  for (const std::string& path : test::TinyModels()) {
    const auto loaded = LoadEngine(path, 256);
    REQUIRE(loaded != nullptr);
    TextEngine& engine = *loaded->engine;
    const std::string text = Prompt(20, 1);
    const Result<RenderedPrompt> raw = engine.Render(Request(1, text, Greedy(), 1));
    REQUIRE(raw.ok());
    EXPECT(raw.value().tokens == engine.Tokenize(text, true, true).value());
    EXPECT_EQ(raw.value().prompt, engine.Detokenize(raw.value().tokens, true));

    GenerationRequest chat = Request(2, "", Greedy(), 1);
    chat.messages = {{"user", "Which river runs under the bridge?"}};
    const Result<RenderedPrompt> rendered = engine.Render(chat);
    REQUIRE(rendered.ok());
    EXPECT(rendered.value().prompt.find(chat.messages[0].content) != std::string::npos);
    const std::string written = engine.Detokenize(rendered.value().tokens, false);
    EXPECT(written.find(chat.messages[0].content) != std::string::npos);
    EXPECT_EQ(engine.Submit(chat).value(), rendered.value().tokens.size());
    REQUIRE(loaded->listener.WaitFor(2));

    GenerationRequest tokens = Request(3, "ignored", Greedy(), 1);
    tokens.prompt_tokens = {100, 101, 100};
    EXPECT(engine.Render(tokens).value().tokens == tokens.prompt_tokens);
    // A prompt may be far longer than the context, and is not truncated.
    GenerationRequest whole = Request(4, Prompt(60000, 1), Greedy(), 1);
    whole.truncate = true;
    const Result<RenderedPrompt> all = engine.Render(whole);
    EXPECT(all.ok() && all.value().tokens.size() >= 60000);
  }
}

TEST(TheUsageReportsTokensRemovedByTruncation) {
  constexpr std::uint32_t kContext = 256;
  constexpr std::uint32_t kAnswer = 20;
  const auto loaded = LoadEngine(test::TinyModels()[1], kContext);
  REQUIRE(loaded != nullptr);
  const auto truncated = [&](GenerationRequest request) {
    const GenerationId id = request.id;
    const std::size_t whole = loaded->engine->Render(request).value().tokens.size();
    const Result<std::uint32_t> left = loaded->engine->Submit(std::move(request));
    EXPECT(left.ok() && left.value() <= kContext - kAnswer && loaded->listener.WaitFor(id));
    const GenerationUsage usage = loaded->listener.End(id).usage;
    EXPECT_EQ(usage.input_tokens, left.value());
    if (usage.truncated_tokens) EXPECT_EQ(whole - *usage.truncated_tokens, usage.input_tokens);
    return usage.truncated_tokens;
  };
  GenerationRequest raw = Request(1, Prompt(600, 1), Greedy(), kAnswer);
  raw.truncate = true;
  EXPECT(truncated(raw).value_or(0) > 0);
  GenerationRequest chat = Request(2, "", Greedy(), kAnswer);
  chat.truncate = true;
  chat.messages = {{"user", Prompt(200, 1)}, {"assistant", Prompt(200, 2)}, {"user", "And then?"}};
  EXPECT(truncated(chat).value_or(0) > 0);
  chat.id = 3;
  chat.messages.resize(1);
  chat.messages[0].content = "Short";
  EXPECT_EQ(truncated(chat).value_or(1), 0U);
  chat.id = 4;
  chat.truncate = false;
  EXPECT(!truncated(chat).has_value());
}

TEST(AModelsInfoIsCompletedByTheEngine) {
  const auto loaded = LoadEngine(test::TinyModels()[1]);
  REQUIRE(loaded != nullptr);
  const ModelInfo& info = loaded->engine->info();
  EXPECT_EQ(info.trained_context_length, 8192U);
  EXPECT_EQ(info.context_length, 2048U);
  EXPECT_EQ(info.threads, DefaultThreads(info.size_bytes));
  EXPECT(info.calls_tools);
  EXPECT(!info.thinks && !info.makes_embeddings && !info.ranks && !info.sees && !info.hears);
  EXPECT(info.draft_refusal.empty() && info.projector_refusal.empty() && info.adapters.empty());
}

// ---- prefixes -----------------------------------------------------------------------------------

// Returns the number of prompt tokens that the engine computes for these requests, which run at the
// same time.
std::uint64_t ComputedFor(test::Loaded& loaded, const std::vector<GenerationRequest>& requests) {
  const std::uint64_t before = loaded.engine->stats().prompt_tokens;
  loaded.engine->Hold(true);
  for (const GenerationRequest& request : requests) EXPECT(loaded.engine->Submit(request).ok());
  loaded.engine->Hold(false);
  for (const GenerationRequest& request : requests) EXPECT(loaded.listener.WaitFor(request.id));
  return loaded.engine->stats().prompt_tokens - before;
}

TEST(PrefixesOfAShareThatKeepsThemAreNotReusedByOthers) {
  const auto loaded = LoadEngine(test::TinyModels()[0]);
  REQUIRE(loaded != nullptr);
  GenerationId id = 0;
  const auto computed = [&](const std::string& share, bool own_prefixes) {
    GenerationRequest request = Request(++id, Prompt(300, 1), Greedy(), 1);
    request.share = share;
    request.own_prefixes = own_prefixes;
    return ComputedFor(*loaded, {request});
  };
  EXPECT(computed("a", true) > 300);
  EXPECT(computed("a", true) < 100);
  EXPECT(computed("b", true) > 300);
  EXPECT(computed("", false) > 300);
  EXPECT(computed("c", false) < 100);
  // It has to be computed for another client, although it is cached: its use would be visible.
  EXPECT_EQ(loaded->listener.End(id).usage.cached_tokens, 0U);
}

TEST(SharesThatNameTheSameGroupDoNotShareTheirPrompts) {
  const auto loaded = LoadEngine(test::TinyModels()[0]);
  REQUIRE(loaded != nullptr);
  GenerationId id = 0;
  const auto request = [&](const std::string& share) {
    GenerationRequest seeded = Request(++id, Prompt(300, 1), Seeded(5), 1);
    seeded.share = share;
    seeded.prefix_group = "answers";
    return seeded;
  };
  EXPECT(ComputedFor(*loaded, {request("a"), request("b")}) > 600);
  EXPECT(ComputedFor(*loaded, {request("a"), request("a")}) < 400);
}

// ---- answers ------------------------------------------------------------------------------------

TEST(AnAnswerThatRepeatsItselfIsReportedOrEnded) {
  const auto loaded = LoadEngine(test::TinyModels()[0]);
  REQUIRE(loaded != nullptr);
  for (const auto mode : {RepetitionMode::kOff, RepetitionMode::kWarn, RepetitionMode::kStop}) {
    const auto id = static_cast<GenerationId>(mode) + 1;
    GenerationRequest request = Request(id, "Once", Greedy(), 1500);
    request.sampling.logit_bias = {{300, 1000.0F}};
    request.repetition_guard = mode;
    REQUIRE(loaded->engine->Submit(std::move(request)).ok() && loaded->listener.WaitFor(id));
    const GenerationOutput end = loaded->listener.End(id);
    const bool is_ended = mode == RepetitionMode::kStop;
    EXPECT_EQ(end.repetition.has_value(), mode != RepetitionMode::kOff);
    EXPECT_EQ(end.usage.output_tokens < 1500, is_ended);
    if (end.repetition) EXPECT_EQ(end.repetition->stopped, is_ended);
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
