// What a generation says: its text, the log probabilities of that text, and why it ends.
#include "engine/run/generation.h"

#include "bench.h"
#include "test.h"

namespace svc {
namespace {

using namespace test;

// Returns scripted tokens: the first token of each step is drawn, the others are forced.
class ScriptedSampler final : public Sampler {
 public:
  ScriptedSampler(std::vector<std::vector<Token>> steps, bool ends)
      : steps_(std::move(steps)), ends_(ends) {}

  Token Sample(const float* logits) override {
    EXPECT(logits != nullptr);
    if (step_ == steps_.size()) return kNoToken;
    logprobs_ = {.chosen = {FakePiece(steps_[step_].front()), -0.5F}};
    return steps_[step_++].front();
  }
  std::vector<Token> Forced() override {
    const std::vector<Token>& step = steps_[step_ - 1];
    return {step.begin() + 1, step.end()};
  }
  bool ended() const override { return ends_ && step_ == steps_.size(); }
  const TokenLogprobs* logprobs() const override { return &logprobs_; }

 private:
  const std::vector<std::vector<Token>> steps_;
  const bool ends_;
  std::size_t step_ = 0;
  TokenLogprobs logprobs_;
};

std::string Say(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) text += FakePiece(token);
  return text;
}

TEST(ForcedTokensNeedNoStepOfTheirOwn) {
  Bench bench;
  const Want want{.id = 1, .prompt = {5, 6, 7}};
  const std::vector<std::vector<Token>> steps = {{10, 11, 12, 13}, {14}, {15, 16, 17}};
  REQUIRE(bench.Submit(want, std::make_unique<ScriptedSampler>(steps, true)).ok());
  REQUIRE(bench.WaitFor(1));
  EXPECT_EQ(bench.Text(1), Say({10, 11, 12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(bench.End(1).reason, FinishReason::kStop);
  EXPECT_EQ(bench.End(1).usage.output_tokens, 8U);
  EXPECT_EQ(bench.record.steps, 3U);  // one for the prompt, and two
  EXPECT_EQ(bench.runner.stats().generated_tokens, 8U);
  EXPECT_EQ(bench.runner.stats().prompt_tokens, 3U);
}

TEST(ForcedTokensCountAndMayBeCut) {
  Bench bench;
  const std::vector<std::vector<Token>> steps = {{10, 11, 12, 13}, {14, 15}};
  REQUIRE(bench
              .Submit({.id = 1, .prompt = {5}, .max_tokens = 3},
                      std::make_unique<ScriptedSampler>(steps, true))
              .ok());
  // Exactly at the limit: not cut.
  REQUIRE(bench
              .Submit({.id = 2, .prompt = {5}, .max_tokens = 6},
                      std::make_unique<ScriptedSampler>(steps, true))
              .ok());
  REQUIRE(bench
              .Submit({.id = 3, .prompt = {5}, .stop = {Say({12, 13, 14})}},
                      std::make_unique<ScriptedSampler>(steps, true))
              .ok());
  REQUIRE(bench
              .Submit({.id = 4, .prompt = {5}},
                      std::make_unique<ScriptedSampler>(
                          std::vector<std::vector<Token>>{{10, kFakeEnd, 12}}, false))
              .ok());
  for (const GenerationId id : {1U, 2U, 3U, 4U}) REQUIRE(bench.WaitFor(id));
  EXPECT_EQ(bench.Text(1), Say({10, 11, 12}));
  EXPECT_EQ(bench.End(1).reason, FinishReason::kLength);
  EXPECT_EQ(bench.Text(2), Say({10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(bench.End(2).reason, FinishReason::kStop);
  EXPECT_EQ(bench.Text(3), Say({10, 11}));
  EXPECT_EQ(bench.End(3).reason, FinishReason::kStop);
  EXPECT_EQ(bench.End(3).stop_string.value_or(""), Say({12, 13, 14}));
  EXPECT(!bench.End(4).stop_string);
  EXPECT_EQ(bench.Text(4), Say({10}));
  EXPECT_EQ(bench.End(4).reason, FinishReason::kStop);
}

TEST(NoTokenLeftFailsTheGeneration) {
  Bench bench;
  const std::vector<std::vector<Token>> steps = {{10}, {11}};
  REQUIRE(
      bench.Submit({.id = 1, .prompt = {5}}, std::make_unique<ScriptedSampler>(steps, false)).ok());
  REQUIRE(bench.WaitFor(1));
  EXPECT_EQ(bench.End(1).status.code(), StatusCode::kInvalidRequest);
  EXPECT_EQ(bench.End(1).status.param(), "grammar");
  bench.ExpectNothingHeld();
}

TEST(LogprobsWaitForTheTextOfTheirTokens) {
  Bench bench;
  // Tokens 1, 2 and 2 form one character; token 3 may begin the stop string.
  const std::vector<std::vector<Token>> steps = {{1}, {2}, {2}, {3}, {5}, {3}, {4}};
  REQUIRE(bench
              .Submit({.id = 1, .prompt = {5}, .stop = {Say({3, 4})}},
                      std::make_unique<ScriptedSampler>(steps, true))
              .ok());
  REQUIRE(bench.WaitFor(1));
  EXPECT_EQ(bench.Text(1), Say({1, 2, 2, 3, 5}));
  EXPECT_EQ(bench.Told(1), std::string(Say({1}) + "|" + Say({2}) + "|" + Say({2}) + "|" + Say({3}) +
                                       "|" + Say({5}) + "|"));
}

// What stands before "|" is reasoning. White space is held back.
class PartedReader final : public AnswerReader {
 public:
  void Read(const std::string& text, bool /*last*/, GenerationOutput* output) override {
    if (text == "|") is_content_ = true;
    if (text == "|" || text == " ") return;
    (is_content_ ? output->text : output->reasoning) += text;
  }
  bool BeginsInContent(const std::string& unread, const std::string& /*stop*/) const override {
    return is_content_ || unread.find('|') != std::string::npos;
  }
  bool has_called() const override { return false; }

 private:
  bool is_content_ = false;
};

TEST(TheTokensOfTheReasoningAreCounted) {
  const auto reasoning_of = [](const std::vector<std::string>& pieces) {
    Generation generation({.prompt = {1, 2}, .reader = std::make_unique<PartedReader>()});
    for (const std::string& piece : pieces) {
      generation.tokens.push_back(5);
      GenerationOutput output;
      generation.Write(piece, /*last=*/false, &output);
    }
    return generation.End(Clock::now(), FinishReason::kStop, "").usage.reasoning_tokens;
  };
  EXPECT(reasoning_of({"I", " ", "see", "|", " ", "Yes", "."}) == 3);
  EXPECT(reasoning_of({"I", "see"}) == 2);
  EXPECT(!reasoning_of({"|", "Yes"}));
}

TEST(AStopStringOfTheRequestEndsOnlyTheContentOneOfTheTemplateEverything) {
  const auto end_of = [](const std::vector<std::string>& pieces) {
    Generation generation({.prompt = {1},
                           .stop = {"stop", "end"},
                           .own_stop = {"end"},
                           .reader = std::make_unique<PartedReader>()});
    for (const std::string& piece : pieces) {
      GenerationOutput output;
      std::string text;
      const bool ended = generation.Say(piece, &text);
      if (ended) return generation.End(Clock::now(), FinishReason::kStop, std::move(text));
      generation.Write(std::move(text), /*last=*/false, &output);
    }
    return GenerationOutput{};
  };
  EXPECT(!end_of({"a", "stop", "b"}).done);
  EXPECT_EQ(end_of({"a", "stop", "|", "b", "stop"}).stop_string.value_or(""), "stop");
  EXPECT_EQ(end_of({"a", "stop|stop"}).stop_string.value_or(""), "stop");
  EXPECT(end_of({"a", "stop", "end"}).done);
  EXPECT(!end_of({"a", "stop", "end"}).stop_string);
  EXPECT_EQ(end_of({"|", "b", "end"}).stop_string.value_or(""), "end");
}

}  // namespace
}  // namespace svc

TEST_MAIN()
