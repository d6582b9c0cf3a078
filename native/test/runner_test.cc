// The runner against a fake model: whatever is thrown at it, every generation ends exactly once, no
// cell stays behind, and the text is what the generation would have said alone.
#include "engine/runner.h"

#include <algorithm>
#include <condition_variable>
#include <random>

#include "fake_decoder.h"
#include "test.h"

namespace svc {
namespace {

using test::FakeDecoder;
using test::FakeOptions;
using test::FakeRecord;
using test::FakeSampler;
using namespace std::chrono_literals;

struct Want {
  GenerationId id = 0;
  std::vector<Token> prompt;
  std::optional<std::uint32_t> max_tokens;
  std::vector<std::string> stop;
  std::uint64_t seed = 0;
};

struct Outcome {
  std::string text;
  FinishReason reason = FinishReason::kStop;
  std::uint32_t output_tokens = 0;
};

// What a generation says when it is alone, without a runner.
Outcome Alone(const Want& want, std::uint32_t cells) {
  std::vector<Token> tokens = want.prompt;
  FakeSampler sampler(want.seed);
  TextStream stream(want.stop);
  Outcome outcome;
  if (want.max_tokens == 0) return {"", FinishReason::kLength, 0};
  for (;;) {
    std::vector<float> logits(test::kFakeVocabulary);
    test::LogitsOf(test::HashOf(tokens), logits.data());
    const Token token = sampler.Sample(logits.data());
    tokens.push_back(token);
    ++outcome.output_tokens;
    if (token == test::kFakeEnd) break;
    if (stream.Push(test::FakePiece(token), &outcome.text)) return outcome;
    if (outcome.output_tokens == want.max_tokens || tokens.size() >= cells) {
      outcome.reason = FinishReason::kLength;
      break;
    }
  }
  stream.Finish(&outcome.text);
  return outcome;
}

Want RandomWant(GenerationId id, std::mt19937& random, std::uint32_t longest_prompt) {
  Want want{.id = id, .seed = random()};
  want.prompt.resize(1 + random() % longest_prompt);
  for (Token& token : want.prompt) token = static_cast<Token>(random() % test::kFakeVocabulary);
  if (random() % 4 != 0) want.max_tokens = random() % 60;
  if (random() % 3 == 0) want.stop = {std::string(1, static_cast<char>('3' + random() % 40))};
  return want;
}

// A runner, and what its sink has heard.
class Bench {
 public:
  explicit Bench(FakeOptions options = {})
      : cells_(options.cells),
        runner(std::make_unique<FakeDecoder>(std::move(options), &record),
               [this](std::vector<GenerationOutput> outputs) { Hear(std::move(outputs)); }) {}

  Status Submit(const Want& want) { return Submit(want, std::make_unique<FakeSampler>(want.seed)); }
  Status Submit(const Want& want, std::unique_ptr<Sampler> sampler) {
    Submission submission;
    submission.id = want.id;
    submission.prompt = want.prompt;
    submission.max_tokens = want.max_tokens;
    submission.stop = want.stop;
    submission.sampler = std::move(sampler);
    return runner.Submit(std::move(submission));
  }

  // False: it did not end in time.
  bool WaitFor(GenerationId id) {
    std::unique_lock lock(mutex_);
    return heard_.wait_for(lock, 60s, [&] { return ends_.contains(id); });
  }
  bool Ended(GenerationId id) const {
    const std::lock_guard lock(mutex_);
    return ends_.contains(id);
  }
  std::string Text(GenerationId id) const {
    const std::lock_guard lock(mutex_);
    const auto found = texts_.find(id);
    return found == texts_.end() ? "" : found->second;
  }
  // The bytes of the tokens whose probability was told, each with a "|" behind it.
  std::string Told(GenerationId id) const {
    const std::lock_guard lock(mutex_);
    return told_.at(id);
  }
  GenerationOutput End(GenerationId id) const {
    const std::lock_guard lock(mutex_);
    return ends_.at(id);
  }
  std::uint32_t sink_calls() const {
    const std::lock_guard lock(mutex_);
    return sink_calls_;
  }

  void ExpectAsAlone(const Want& want) const {
    const Outcome alone = Alone(want, cells_);
    const GenerationOutput end = End(want.id);
    EXPECT(end.status.ok());
    EXPECT_EQ(Text(want.id), alone.text);
    EXPECT_EQ(end.reason, alone.reason);
    EXPECT_EQ(end.usage.output_tokens, alone.output_tokens);
    EXPECT_EQ(end.usage.input_tokens, want.prompt.size());
  }

 private:
  void Hear(std::vector<GenerationOutput> outputs) {
    const std::lock_guard lock(mutex_);
    ++sink_calls_;
    EXPECT(!outputs.empty());
    std::set<GenerationId> ids;
    for (GenerationOutput& output : outputs) {
      EXPECT(ids.insert(output.id).second);  // one output a step
      EXPECT(!ends_.contains(output.id));    // nothing after the last one
      EXPECT(output.done || !output.text.empty());
      texts_[output.id] += output.text;
      for (const TokenLogprobs& token : output.logprobs) {
        EXPECT(!output.text.empty());
        told_[output.id] += token.chosen.bytes + "|";
      }
      if (output.done) ends_.emplace(output.id, std::move(output));
    }
    heard_.notify_all();
  }

  const std::uint32_t cells_;
  mutable std::mutex mutex_;
  std::condition_variable heard_;
  std::map<GenerationId, std::string> texts_;
  std::map<GenerationId, std::string> told_;
  std::map<GenerationId, GenerationOutput> ends_;
  std::uint32_t sink_calls_ = 0;

 public:
  FakeRecord record;
  Runner runner;  // last: its thread uses the rest
};

// Blocks the runner inside a step until opened.
class Gate {
 public:
  // A FakeOptions::fault: the n-th step waits here, then goes on.
  std::function<DecodeOutcome(std::span<const Row>, const std::atomic<bool>&)> AtStep(int n) {
    return [this, n, step = 0](std::span<const Row>, const std::atomic<bool>&) mutable {
      if (++step == n) Pass();
      return DecodeOutcome::kDone;
    };
  }
  void WaitUntilReached() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reached_; });
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    reached_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  bool open_ = false;
};

TEST(OneGenerationSaysWhatItSaysAlone) {
  Bench bench;
  const Want want{.id = 1, .prompt = {5, 6, 7}, .max_tokens = 40, .seed = 11};
  REQUIRE(bench.Submit(want).ok());
  REQUIRE(bench.WaitFor(1));
  bench.ExpectAsAlone(want);
  const GenerationTimings timings = bench.End(1).timings;
  EXPECT(timings.started_ms >= 0 && timings.first_token_ms >= timings.started_ms);
  EXPECT(timings.finished_ms >= timings.first_token_ms);
}

TEST(ManyAtOnceShareSteps) {
  Bench bench({.cells = 4096, .max_sequences = 16});
  std::mt19937 random(1);
  std::vector<Want> wants;
  for (GenerationId id = 0; id < 16; ++id) {
    wants.push_back(RandomWant(id, random, 30));
    wants.back().max_tokens = 50;
  }
  bench.runner.Hold(true);
  for (const Want& want : wants) REQUIRE(bench.Submit(want).ok());
  bench.runner.Hold(false);
  for (const Want& want : wants) {
    REQUIRE(bench.WaitFor(want.id));
    bench.ExpectAsAlone(want);
  }
  EXPECT(bench.record.largest_batch >= 12U);
  EXPECT(bench.record.steps < 150U);
  EXPECT(bench.sink_calls() <= bench.record.steps);
  EXPECT_EQ(bench.record.cells.load(), 0U);
}

TEST(MoreThanTheCacheHoldsTakeTurns) {
  Bench bench({.cells = 96, .max_rows = 16, .max_sequences = 4});
  std::mt19937 random(2);
  std::vector<Want> wants;
  for (GenerationId id = 0; id < 60; ++id) wants.push_back(RandomWant(id, random, 60));
  for (const Want& want : wants) REQUIRE(bench.Submit(want).ok());
  for (const Want& want : wants) {
    REQUIRE(bench.WaitFor(want.id));
    bench.ExpectAsAlone(want);
  }
  // More removals than generations: some have been preempted and computed again.
  EXPECT(bench.record.removals > 60U);
  EXPECT_EQ(bench.record.cells.load(), 0U);
}

TEST(APromptThatDoesNotFitBesideAnotherWaitsForIt) {
  Bench bench({.cells = 64, .max_rows = 16});
  bench.runner.Hold(true);
  for (const GenerationId id : {1U, 2U}) {
    REQUIRE(bench.Submit({.id = id, .prompt = std::vector<Token>(40, 3), .max_tokens = 5}).ok());
  }
  bench.runner.Hold(false);
  for (const GenerationId id : {1U, 2U}) REQUIRE(bench.WaitFor(id));
  // Nothing was computed twice.
  EXPECT_EQ(bench.runner.stats().prompt_tokens, 80U);
  EXPECT_EQ(bench.record.removals.load(), 2U);
}

TEST(TheCacheFullOfOneIsLength) {
  Bench bench({.cells = 24});
  Want want{.id = 1, .prompt = {5, 6, 7}};
  // A seed whose text does not end before the cache does.
  while (Alone(want, 24).reason != FinishReason::kLength) ++want.seed;
  REQUIRE(bench.Submit(want).ok());
  REQUIRE(bench.WaitFor(1));
  bench.ExpectAsAlone(want);
  EXPECT_EQ(bench.End(1).usage.output_tokens, 21U);
}

TEST(NoTokensAskedForIsNoWork) {
  Bench bench;
  REQUIRE(bench.Submit({.id = 1, .prompt = {5}, .max_tokens = 0}).ok());
  REQUIRE(bench.WaitFor(1));
  EXPECT_EQ(bench.End(1).reason, FinishReason::kLength);
  EXPECT_EQ(bench.record.steps.load(), 0U);
}

TEST(AnIdIsTakenUntilItsGenerationEnds) {
  Bench bench;
  bench.runner.Hold(true);
  const Want want{.id = 9, .prompt = {5, 6}, .max_tokens = 5, .seed = 4};
  REQUIRE(bench.Submit(want).ok());
  EXPECT_EQ(bench.Submit(want).code(), StatusCode::kInvalidRequest);
  bench.runner.Hold(false);
  REQUIRE(bench.WaitFor(9));
  bench.ExpectAsAlone(want);
}

TEST(TheQueueIsBounded) {
  Bench bench;
  bench.runner.Hold(true);
  for (GenerationId id = 0; id < Runner::kMaxWaiting; ++id) {
    REQUIRE(bench.Submit({.id = id, .prompt = {1}, .max_tokens = 1}).ok());
  }
  EXPECT_EQ(bench.Submit({.id = 5000, .prompt = {1}}).code(), StatusCode::kBusy);
  EXPECT_EQ(bench.runner.stats().waiting, Runner::kMaxWaiting);
  bench.runner.Hold(false);
  for (GenerationId id = 0; id < Runner::kMaxWaiting; ++id) REQUIRE(bench.WaitFor(id));
  EXPECT(!bench.Ended(5000));
}

TEST(CancelEndsWaitingAndRunningOnes) {
  Gate gate;
  Bench bench({.max_sequences = 1, .fault = gate.AtStep(5)});
  Want running{.id = 1, .prompt = {5, 6}, .seed = 1};
  while (Alone(running, 1024).output_tokens < 20) ++running.seed;
  REQUIRE(bench.Submit(running).ok());
  REQUIRE(bench.Submit({.id = 2, .prompt = {5}}).ok());
  gate.WaitUntilReached();
  bench.runner.Cancel(2);
  bench.runner.Cancel(1);
  bench.runner.Cancel(777);  // nobody
  gate.Open();
  REQUIRE(bench.WaitFor(1));
  REQUIRE(bench.WaitFor(2));
  EXPECT_EQ(bench.End(1).reason, FinishReason::kCancelled);
  EXPECT_EQ(bench.End(2).reason, FinishReason::kCancelled);
  EXPECT(!bench.Text(1).empty());
  EXPECT(Alone(running, 1024).text.starts_with(bench.Text(1)));
  EXPECT_EQ(bench.Text(2), "");
  EXPECT_EQ(bench.record.steps.load(), 5U);
  EXPECT_EQ(bench.record.cells.load(), 0U);
}

TEST(CancellingAllOfABatchAbortsIt) {
  std::atomic<bool> inside = false;
  std::atomic<bool> aborted = false;
  Bench bench({.fault = [&](std::span<const Row>, const std::atomic<bool>& abort) {
    inside = true;
    for (int i = 0; i < 5000 && !abort; ++i) std::this_thread::sleep_for(1ms);
    aborted = abort.load();
    return abort ? DecodeOutcome::kAborted : DecodeOutcome::kDone;
  }});
  REQUIRE(bench.Submit({.id = 1, .prompt = {1, 2}}).ok());
  while (!inside) std::this_thread::sleep_for(1ms);
  const EngineStats stats = bench.runner.stats();
  EXPECT_EQ(stats.active, 1U);
  EXPECT(stats.step_age_ms > 0);
  bench.runner.Cancel(1);
  REQUIRE(bench.WaitFor(1));
  EXPECT(aborted);
  EXPECT_EQ(bench.End(1).reason, FinishReason::kCancelled);
}

TEST(CancellingOneOfABatchDoesNotAbortTheOthers) {
  Gate gate;
  std::atomic<bool> abort_seen = false;
  Bench bench({.fault = [&](std::span<const Row>, const std::atomic<bool>& abort) {
    gate.Pass();
    abort_seen = abort_seen || abort;
    return DecodeOutcome::kDone;
  }});
  bench.runner.Hold(true);
  const Want stays{.id = 1, .prompt = {1, 2}, .max_tokens = 8, .seed = 3};
  REQUIRE(bench.Submit(stays).ok());
  REQUIRE(bench.Submit({.id = 2, .prompt = {1, 2}, .seed = 5}).ok());
  bench.runner.Hold(false);
  gate.WaitUntilReached();
  bench.runner.Cancel(2);
  gate.Open();
  REQUIRE(bench.WaitFor(2));
  REQUIRE(bench.WaitFor(1));
  EXPECT(!abort_seen);
  EXPECT_EQ(bench.End(2).reason, FinishReason::kCancelled);
  bench.ExpectAsAlone(stays);
}

TEST(APausedGenerationMakesNoProgressAndGoesOn) {
  Bench bench;
  Want want{.id = 1, .prompt = {5, 6}, .max_tokens = 300, .seed = 1};
  while (Alone(want, 1024).output_tokens < 100) ++want.seed;
  const Want other{.id = 2, .prompt = {8}, .max_tokens = 50, .seed = 9};
  bench.runner.Hold(true);
  REQUIRE(bench.Submit(want).ok());
  bench.runner.Pause(1);
  bench.runner.Hold(false);
  REQUIRE(bench.Submit(other).ok());
  REQUIRE(bench.WaitFor(2));
  EXPECT_EQ(bench.Text(1), "");
  EXPECT(!bench.Ended(1));
  bench.runner.Resume(1);
  REQUIRE(bench.WaitFor(1));
  bench.ExpectAsAlone(want);
  bench.ExpectAsAlone(other);
}

TEST(APausedGenerationGivesUpItsCellsWhenOthersNeedThem) {
  Gate gate;
  Bench bench({.cells = 64, .max_sequences = 2, .fault = gate.AtStep(5)});
  Want sleeper{.id = 1, .prompt = std::vector<Token>(20, 3), .seed = 1};
  while (Alone(sleeper, 64).output_tokens < 30) ++sleeper.seed;
  const Want large{.id = 2, .prompt = std::vector<Token>(60, 4), .max_tokens = 3, .seed = 2};
  REQUIRE(bench.Submit(sleeper).ok());
  gate.WaitUntilReached();
  bench.runner.Pause(1);
  REQUIRE(bench.Submit(large).ok());
  gate.Open();
  REQUIRE(bench.WaitFor(2));
  bench.ExpectAsAlone(large);
  EXPECT(!bench.Ended(1));
  EXPECT_EQ(bench.record.removals.load(), 2U);
  bench.runner.Resume(1);
  REQUIRE(bench.WaitFor(1));
  bench.ExpectAsAlone(sleeper);
}

TEST(AHeldRunnerComputesNothingButStillCancels) {
  Bench bench;
  bench.runner.Hold(true);
  REQUIRE(bench.Submit({.id = 1, .prompt = {5}}).ok());
  REQUIRE(bench.Submit({.id = 2, .prompt = {5}, .max_tokens = 3}).ok());
  bench.runner.Cancel(1);
  REQUIRE(bench.WaitFor(1));
  EXPECT_EQ(bench.record.steps.load(), 0U);
  bench.runner.Hold(false);
  REQUIRE(bench.WaitFor(2));
}

TEST(AFailedStepFailsItsGenerationsAndNoOthers) {
  std::atomic<int> steps = 0;
  Bench bench({.max_sequences = 2, .fault = [&](std::span<const Row>, const std::atomic<bool>&) {
                 return ++steps == 4 ? DecodeOutcome::kFailed : DecodeOutcome::kDone;
               }});
  bench.runner.Hold(true);
  std::vector<Want> wants;
  for (GenerationId id = 0; id < 4; ++id) {
    wants.push_back({.id = id, .prompt = {static_cast<Token>(id), 7}, .max_tokens = 20, .seed = 1});
    while (Alone(wants.back(), 1024).output_tokens < 20) ++wants.back().seed;
    REQUIRE(bench.Submit(wants.back()).ok());
  }
  bench.runner.Hold(false);
  for (const Want& want : wants) REQUIRE(bench.WaitFor(want.id));
  for (const GenerationId id : {0U, 1U}) {
    EXPECT_EQ(bench.End(id).status.code(), StatusCode::kInternal);
  }
  bench.ExpectAsAlone(wants[2]);
  bench.ExpectAsAlone(wants[3]);
  EXPECT_EQ(bench.record.cells.load(), 0U);
}

TEST(NoCellsPreemptsAndNeverFailsAll) {
  std::mt19937 random(5);
  Bench bench({.cells = 256,
               .max_sequences = 4,
               .fault = [&](std::span<const Row> rows, const std::atomic<bool>&) {
                 const bool several = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
                   return row.sequence != rows.front().sequence;
                 });
                 return several && random() % 3 == 0 ? DecodeOutcome::kNoCells
                                                     : DecodeOutcome::kDone;
               }});
  std::vector<Want> wants;
  for (GenerationId id = 0; id < 24; ++id) wants.push_back(RandomWant(id, random, 40));
  for (const Want& want : wants) REQUIRE(bench.Submit(want).ok());
  for (const Want& want : wants) {
    REQUIRE(bench.WaitFor(want.id));
    bench.ExpectAsAlone(want);
  }
}

TEST(NoCellsForTheOnlyOneFailsIt) {
  Bench bench({.fault = [](std::span<const Row>, const std::atomic<bool>&) {
    return DecodeOutcome::kNoCells;
  }});
  REQUIRE(bench.Submit({.id = 1, .prompt = {1, 2}}).ok());
  REQUIRE(bench.WaitFor(1));
  EXPECT_EQ(bench.End(1).status.code(), StatusCode::kInternal);
}

// Draws what it is told, in steps: the first token of each is drawn, the others are forced.
class ScriptedSampler final : public Sampler {
 public:
  ScriptedSampler(std::vector<std::vector<Token>> steps, bool ends)
      : steps_(std::move(steps)), ends_(ends) {}

  Token Sample(const float* logits) override {
    EXPECT(logits != nullptr);
    if (step_ == steps_.size()) return kNoToken;
    logprobs_ = {.chosen = {test::FakePiece(steps_[step_].front()), -0.5F}};
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
  for (const Token token : tokens) text += test::FakePiece(token);
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
  EXPECT_EQ(bench.record.steps, 3U);  // the prompt's, and two
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
  // At the bound exactly, and whole: not cut.
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
                          std::vector<std::vector<Token>>{{10, test::kFakeEnd, 12}}, false))
              .ok());
  for (const GenerationId id : {1U, 2U, 3U, 4U}) REQUIRE(bench.WaitFor(id));
  EXPECT_EQ(bench.Text(1), Say({10, 11, 12}));
  EXPECT_EQ(bench.End(1).reason, FinishReason::kLength);
  EXPECT_EQ(bench.Text(2), Say({10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(bench.End(2).reason, FinishReason::kStop);
  EXPECT_EQ(bench.Text(3), Say({10, 11}));
  EXPECT_EQ(bench.End(3).reason, FinishReason::kStop);
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
  EXPECT_EQ(bench.record.cells, 0U);
}

TEST(LogprobsWaitForTheTextOfTheirTokens) {
  Bench bench;
  // 1 and 2 are the halves of a character; "3" may begin the stop string.
  const std::vector<std::vector<Token>> steps = {{1}, {2}, {3}, {5}, {3}, {4}};
  REQUIRE(bench
              .Submit({.id = 1, .prompt = {5}, .stop = {Say({3, 4})}},
                      std::make_unique<ScriptedSampler>(steps, true))
              .ok());
  REQUIRE(bench.WaitFor(1));
  EXPECT_EQ(bench.Text(1), Say({1, 2, 3, 5}));
  EXPECT_EQ(bench.Told(1),
            std::string(Say({1}) + "|" + Say({2}) + "|" + Say({3}) + "|" + Say({5}) + "|"));
}

TEST(CloseEndsEverythingOnce) {
  Bench bench({.max_sequences = 2});
  for (GenerationId id = 0; id < 20; ++id) {
    REQUIRE(bench.Submit({.id = id, .prompt = {1, 2, 3}, .seed = id}).ok());
  }
  bench.runner.Close();
  for (GenerationId id = 0; id < 20; ++id) {
    EXPECT(bench.Ended(id));
    if (!bench.Ended(id)) continue;
    EXPECT(bench.End(id).status.ok());
  }
  EXPECT_EQ(bench.record.cells.load(), 0U);
  EXPECT_EQ(bench.Submit({.id = 50, .prompt = {1}}).code(), StatusCode::kEngineUnavailable);
  bench.runner.Close();
  bench.runner.Cancel(1);
  EXPECT_EQ(bench.runner.stats().active, 0U);
}

TEST(CloseInterruptsAStep) {
  std::atomic<bool> inside = false;
  Bench bench({.fault = [&](std::span<const Row>, const std::atomic<bool>& abort) {
    inside = true;
    for (int i = 0; i < 20000 && !abort; ++i) std::this_thread::sleep_for(1ms);
    return DecodeOutcome::kAborted;
  }});
  REQUIRE(bench.Submit({.id = 1, .prompt = {1}}).ok());
  while (!inside) std::this_thread::sleep_for(1ms);
  const auto start = std::chrono::steady_clock::now();
  bench.runner.Close();
  EXPECT(std::chrono::steady_clock::now() - start < 5s);
  EXPECT_EQ(bench.End(1).reason, FinishReason::kCancelled);
}

TEST(StatsAddUp) {
  Bench bench({.cells = 512, .max_rows = 32});
  std::mt19937 random(8);
  std::uint64_t prompt_tokens = 0;
  std::uint64_t generated = 0;
  for (GenerationId id = 0; id < 10; ++id) {
    Want want = RandomWant(id, random, 40);
    want.max_tokens = 12;
    want.stop.clear();
    REQUIRE(bench.Submit(want).ok());
    REQUIRE(bench.WaitFor(id));
    prompt_tokens += want.prompt.size();
    generated += bench.End(id).usage.output_tokens;
  }
  const EngineStats stats = bench.runner.stats();
  EXPECT_EQ(stats.prompt_tokens, prompt_tokens);
  EXPECT_EQ(stats.generated_tokens, generated);
  EXPECT_EQ(stats.steps, bench.record.steps.load());
  EXPECT_EQ(stats.cells_used, 0U);
  EXPECT_EQ(stats.cells_total, 512U);
  EXPECT_EQ(stats.active + stats.waiting, 0U);
  EXPECT_EQ(stats.step_age_ms, 0.0);
  EXPECT_EQ(stats.tokens_per_second, 0.0);
}

// Random arrivals, cancels, pauses, holds and spurious failures to find cells, from four threads,
// in a cache far too small for all.
void Storm(std::uint32_t seed) {
  std::mt19937 faults(seed);
  std::atomic<std::uint32_t> no_cells = 0;
  Bench bench({.cells = 160,
               .max_rows = 24,
               .max_sequences = 6,
               .fault = [&](std::span<const Row> rows, const std::atomic<bool>&) {
                 if (faults() % 50 != 0 || rows.size() < 2 ||
                     rows.front().sequence == rows.back().sequence) {
                   return DecodeOutcome::kDone;
                 }
                 ++no_cells;
                 return DecodeOutcome::kNoCells;
               }});
  constexpr GenerationId kThreads = 4;
  constexpr GenerationId kEach = 60;
  std::vector<Want> wants(std::size_t{kThreads} * kEach);
  {
    std::mt19937 random(seed + 1);
    for (GenerationId id = 0; id < wants.size(); ++id) wants[id] = RandomWant(id, random, 90);
  }
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (GenerationId thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937 random(seed + 2 + thread);
      for (GenerationId i = 0; i < kEach; ++i) {
        const GenerationId id = thread * kEach + i;
        EXPECT(bench.Submit(wants[id]).ok());
        const GenerationId victim = random() % (id + 1);
        switch (random() % 8) {
          case 0:
            bench.runner.Cancel(victim);
            break;
          case 1:
            bench.runner.Pause(victim);
            break;
          case 2:
            bench.runner.Resume(victim);
            break;
          case 3:
            bench.runner.Hold(true);
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
            bench.runner.Hold(false);
            break;
          case 4:
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
            break;
          default:
            (void)bench.runner.stats();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  bench.runner.Hold(false);
  for (const Want& want : wants) bench.runner.Resume(want.id);
  for (const Want& want : wants) {
    REQUIRE(bench.WaitFor(want.id));
    if (bench.End(want.id).reason == FinishReason::kCancelled) {
      EXPECT(bench.End(want.id).status.ok());
      EXPECT(Alone(want, 160).text.starts_with(bench.Text(want.id)));
    } else {
      bench.ExpectAsAlone(want);
    }
  }
  EXPECT_EQ(bench.record.cells.load(), 0U);
  EXPECT_EQ(bench.runner.stats().cells_used, 0U);
  EXPECT_EQ(bench.runner.stats().active + bench.runner.stats().waiting, 0U);
}

TEST(AStormLeavesNothingBehind) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) Storm(seed * 100);
}

TEST(AStormMayEndInClose) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    Bench bench({.cells = 160, .max_rows = 24, .max_sequences = 6});
    std::mt19937 random(seed);
    std::vector<Want> wants;
    for (GenerationId id = 0; id < 40; ++id) {
      wants.push_back(RandomWant(id, random, 90));
      REQUIRE(bench.Submit(wants.back()).ok());
    }
    std::thread canceller([&] {
      for (GenerationId id = 0; id < 40; id += 3) bench.runner.Cancel(id);
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    bench.runner.Close();
    canceller.join();
    for (const Want& want : wants) {
      REQUIRE(bench.Ended(want.id));
      EXPECT(Alone(want, 160).text.starts_with(bench.Text(want.id)));
    }
    EXPECT_EQ(bench.record.cells.load(), 0U);
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
