// The loop as a whole on a virtual clock: nothing here depends on the machine, and every run is the
// same.
#include "engine/run/loop.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <set>

#include "loop_bench.h"
#include "test.h"
#include "virtual_bench.h"

namespace svc {
namespace {

using namespace test;
TEST(ALongPromptHardlyDelaysThoseWhoDecode) {
  VirtualBench bench({.cells = 8192, .max_rows = 512});
  for (const GenerationId id : {1U, 2U, 3U})
    bench.Add(Steady(id, Prompt(static_cast<Token>(id), 8), 120));
  for (int i = 0; i < 10; ++i) (void)bench.Step();
  bench.Add(Steady(9, Prompt(9, 1800), 4));
  bench.longest_step_ms = 0;
  bench.RunToTheEnd();
  // One step holds 3 rows of 8 ms and 17 of 5 beside the 20: never fewer than 16 of the prompt.
  EXPECT(bench.longest_step_ms <= 20 + 3 * 8 + 17 * 5);
  // The prompt alone needs 1,800 times 5 ms and more.
  EXPECT(bench.TimeToFirstToken(9) < 1.6 * 1800 * 5);
  for (const GenerationId id : {1U, 2U, 3U, 9U}) bench.ExpectAsAlone(id);
}

TEST(BesideAPictureALongPromptHasHalfTheTime) {
  for (const bool beside : {false, true}) {
    VirtualBench bench({.cells = 8192, .max_rows = 512}, /*measured=*/true, /*part=*/0.1);
    bench.beside_media = beside;
    bench.Add(Steady(1, Prompt(1, 8), 120));
    for (int i = 0; i < 10; ++i) (void)bench.Step();
    bench.Add(Steady(9, Prompt(9, 1800), 4));
    bench.longest_step_ms = 0;
    bench.RunToTheEnd();
    const double target = beside ? kDecodingTargetMs / 2 : kDecodingTargetMs;
    EXPECT(bench.longest_step_ms <= target);
    EXPECT(bench.longest_step_ms > 0.9 * target);
    for (const GenerationId id : {1U, 9U}) bench.ExpectAsAlone(id);
  }
}

TEST(BesideAPictureAStepWithoutTextIsFollowedByOneWithoutPrompts) {
  VirtualBench bench({.cells = 8192, .max_rows = 512}, /*measured=*/true, /*part=*/0.1);
  bench.beside_media = true;
  bench.Add(Steady(1, Prompt(1, 8), 300));
  for (int i = 0; i < 10; ++i) (void)bench.Step();
  bench.Add(Steady(9, Prompt(9, 7000), 1));
  int silent = 0;
  bool was_silent = false;
  while (!bench.ends.contains(9) && bench.Step()) {
    if (was_silent) EXPECT_EQ(bench.loop->stats().last_step.prompt_rows, 0U);
    was_silent = bench.loop->was_silent() && !bench.ends.contains(1);
    silent += was_silent ? 1 : 0;
  }
  EXPECT(silent > 0);
  bench.RunToTheEnd();
  for (const GenerationId id : {1U, 9U}) bench.ExpectAsAlone(id);
}

// Short prompts may go before a young answer, whose step without text is to be followed by one
// without prompts.
TEST(BesideAPictureShortPromptsAndAYoungAnswerWithoutTextGoOn) {
  int silent = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    VirtualBench bench({.cells = 8192, .max_rows = 512, .max_sequences = 64}, /*measured=*/true,
                       /*part=*/0.1);
    bench.beside_media = true;
    bench.Add({.id = 1, .prompt = Prompt(1, 8), .max_tokens = 20, .seed = seed});
    for (int i = 0; i < 3 && !bench.loop->was_silent(); ++i) (void)bench.Step();
    if (!bench.loop->was_silent()) continue;
    ++silent;
    for (GenerationId id = 2; id < 30; ++id) {
      bench.Add({.id = id, .prompt = Prompt(static_cast<Token>(id), 30), .max_tokens = 3});
    }
    bench.RunToTheEnd();
    for (GenerationId id = 1; id < 30; ++id) bench.ExpectAsAlone(id);
  }
  EXPECT(silent > 0);
}

// Another program takes a processor: with two threads a step would take 100 times as long.
class Crowded : public LoopBench {
 public:
  explicit Crowded(bool can_share) {
    FakeOptions options{.can_share = can_share, .threads = 2};
    options.fault = [this](std::span<const Row>, const std::atomic<bool>&) {
      const double ms = is_crowded && record.threads != 1 ? 2000 : 20;
      const double limit = record.step_limit_ms;
      const bool is_late = limit > 0 && ms > limit;
      Pass(is_late ? limit : ms);
      longest_ms = std::max(longest_ms, is_late ? limit : ms);
      return is_late ? DecodeOutcome::kAborted : DecodeOutcome::kDone;
    };
    auto decoder = std::make_unique<FakeDecoder>(std::move(options), &record);
    const CostModel cost = CostModel::Measure(*decoder, now(), 1e6);
    loop = std::make_unique<Loop>(std::move(decoder),
                                  LoopOptions{.cost = cost, .now = now(), .cpu_ms = [this] {
                                                return Milliseconds(now()().time_since_epoch());
                                              }});
  }

  bool is_crowded = false;
  double longest_ms = 0;
};

TEST(AStalledStepIsComputedAgainWithFewerThreads) {
  const Want want = Steady(1, Prompt(1, 8), 60);
  for (const bool can_share : {true, false}) {
    Crowded bench(can_share);
    bench.loop->Add(SubmissionOf(want));
    for (int i = 0; i < 3; ++i) (void)bench.Step();
    bench.is_crowded = true;
    bench.longest_ms = 0;
    (void)bench.RunToTheEnd();
    EXPECT_EQ(bench.texts[1], Alone(want, 1024).text);
    EXPECT_EQ(bench.record.threads.load(), 1);
    // What an aborted step leaves of a memory that cannot be cut is nothing: it is waited for.
    EXPECT_EQ(bench.longest_ms, can_share ? 100.0 : 2000.0);
  }
}

TEST(WhoComesTogetherDecodesTogether) {
  VirtualBench bench({.cells = 8192, .max_rows = 512});
  bench.Add(Steady(0, Prompt(0, 20), 60));
  (void)bench.Step();
  for (GenerationId id = 1; id < 8; ++id)
    bench.Add(Steady(id, Prompt(static_cast<Token>(id), 20), 60));
  bench.RunToTheEnd();
  double first_end = 1e9;
  double last_end = 0;
  for (GenerationId id = 0; id < 8; ++id) {
    bench.ExpectAsAlone(id);
    first_end = std::min(first_end, bench.heard_ms[id].back());
    last_end = std::max(last_end, bench.heard_ms[id].back());
    // All prompts together are 800 ms.
    EXPECT(bench.TimeToFirstToken(id) < 1000);
  }
  // Few steps are not full.
  EXPECT(bench.loop->stats().steps < 60 + 12);
  EXPECT(last_end - first_end < 5 * 84);
}

TEST(AShortQuestionPassesALongDocument) {
  VirtualBench bench({.cells = 8192, .max_rows = 512});
  bench.Add(Steady(1, Prompt(1, 1800), 4));
  (void)bench.Step();
  bench.Add(Steady(2, Prompt(2, 12), 4));
  bench.RunToTheEnd();
  EXPECT(bench.TimeToFirstToken(2) < 200);
  EXPECT(bench.TimeToFirstToken(1) > 5000);
  for (const GenerationId id : {1U, 2U}) bench.ExpectAsAlone(id);
}

TEST(AStepOfPromptsAloneEndsInTimeForWhoeverComes) {
  VirtualBench bench({.cells = 8192, .max_rows = 512});
  bench.Add(Steady(1, Prompt(1, 4000), 2));
  bench.RunToTheEnd();
  // The last step takes up to 63 rows more, which are not worth one of their own.
  EXPECT(bench.longest_step_ms <= 400 + 63 * 5);
  EXPECT(bench.longest_step_ms > 200);
}

TEST(StepsTellWhatTheyHeldAndCost) {
  VirtualBench bench({.cells = 4096, .max_rows = 512});
  bench.Add(Steady(1, Prompt(1, 4), 40));
  (void)bench.Step();
  bench.Add(Steady(2, Prompt(2, 300), 2));
  (void)bench.Step();
  const EngineStats stats = bench.loop->stats();
  EXPECT_EQ(stats.steps, 2U);
  EXPECT(stats.last_step.prompt_rows >= kLeastPromptRows);
  EXPECT_EQ(stats.last_step.rows, stats.last_step.prompt_rows + 1);
  EXPECT_EQ(stats.rows, stats.last_step.rows + 4);
  EXPECT(std::abs(stats.last_step.predicted_ms - stats.last_step.spent_ms) < 10);
  EXPECT(stats.spent_ms > stats.last_step.spent_ms);
  bench.RunToTheEnd();
}

// Random arrivals in time, of all kinds, with cancels, pauses and failures to find cells, in caches
// of all sizes. Everything ends, says what it says alone, and leaves nothing behind; and nobody
// waits longer for the cache than those before it can take.
FakeOptions RandomDecoder(std::mt19937& random, std::uint32_t seed) {
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  FakeOptions options{
      .cells = 128 + below(600), .max_rows = 16 + below(100), .max_sequences = 1 + below(8)};
  options.sequence_ids = options.max_sequences + below(12);
  options.can_share = below(5) != 0;
  if (below(2) == 0) options.idle_cells = below(100);
  if (below(2) == 0) {
    options.lane_cells = 200;
    options.lane_rows = 16 + below(100);
    options.lane_advances = 1 + static_cast<int>(below(5));
  }
  const auto faults = std::make_shared<std::mt19937>(seed + 1);
  options.fault = [faults](std::span<const Row> rows, const std::atomic<bool>&) {
    const bool several = rows.front().sequence != rows.back().sequence;
    return several && (*faults)() % 40 == 0 ? DecodeOutcome::kNoCells : DecodeOutcome::kDone;
  };
  return options;
}

void Storm(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto one_in = [&](int n) { return random() % n == 0; };
  FakeOptions options = RandomDecoder(random, seed);
  const std::uint32_t cells = options.cells;
  const bool measured = !one_in(4);
  VirtualBench bench(std::move(options), measured, seed % 2 == 0 ? 1 : kShort);
  const std::vector<std::vector<Token>> systems = {Prompt(1, 40), Prompt(2, 20), {}};

  std::set<GenerationId> paused;
  constexpr GenerationId kCount = 60;
  GenerationId next = 0;
  int idle = 0;
  while (next < kCount || bench.ends.size() < kCount) {
    if (next < kCount && one_in(3)) {
      Want want = RandomWant(next, random, one_in(4) ? 180 : 60);
      if (want.prompt.size() >= cells / 2) want.prompt.resize(60);
      const std::vector<Token>& system = systems[random() % systems.size()];
      want.prompt.insert(want.prompt.begin(), system.begin(), system.end());
      if (one_in(3)) want.priority = Priority::kBatch;
      want.reuse_prefix = !one_in(4);
      EXPECT(want.prompt.size() < cells);
      bench.Add(want);
      if (one_in(5)) {
        bench.loop->SetPaused(next, true);
        paused.insert(next);
      }
      ++next;
    }
    if (next > 0 && one_in(12)) bench.loop->Cancel(static_cast<GenerationId>(random() % next));
    if (next > 0 && one_in(12)) {
      const auto id = static_cast<GenerationId>(random() % next);
      bench.loop->SetPaused(id, true);
      paused.insert(id);
    }
    if (!paused.empty() && (one_in(6) || next == kCount)) {
      bench.loop->SetPaused(*paused.begin(), false);
      paused.erase(paused.begin());
    }
    if (!bench.Step()) bench.Pass(10);
    // Something moves whenever something can.
    idle = bench.loop->HasWork() && bench.ends.size() < next ? idle + 1 : 0;
    if (idle > 20'000) {
      Fail(__FILE__, __LINE__, "nothing ends any more, seed " + std::to_string(seed));
      return;
    }
  }
  for (GenerationId id = 0; id < kCount; ++id) bench.ExpectAsAlone(id);
  EXPECT_EQ(bench.loop->stats().kv_cells_used, 0U);
}

TEST(NothingLeaksStarvesOrSaysAnythingElse) {
  for (std::uint32_t seed = 0; seed < 150; ++seed) Storm(seed * 7);
}

// Its grammar is found too slow at the third token.
class SlowSampler final : public Sampler {
 public:
  Token Sample(const float* /*logits*/) override { return ++drawn_ < 3 ? Token{7} : kSlowGrammar; }

 private:
  int drawn_ = 0;
};

TEST(ASlowGrammarFailsItsOwnRequestAlone) {
  VirtualBench bench;
  Submission slow = SubmissionOf({.id = 1, .prompt = std::vector<Token>(40, 9), .max_tokens = 9});
  slow.sampler = std::make_unique<SlowSampler>();
  bench.loop->Add(std::move(slow));
  bench.loop->Add(SubmissionOf({.id = 2, .prompt = std::vector<Token>(40, 8), .max_tokens = 9}));
  while (bench.Step()) {
  }
  EXPECT_EQ(bench.ends.at(1).status.code(), StatusCode::kInvalidRequest);
  EXPECT_EQ(bench.ends.at(1).status.param(), "grammar");
  EXPECT(bench.ends.at(2).status.ok());
  EXPECT_EQ(bench.ends.at(2).usage.output_tokens, 9U);
}

TEST(AModelThatComputesNoNumbersFailsThatRequestAloneAndIsNotBuiltOn) {
  const std::vector<Token> bad(40, 9);
  bool broken = true;
  VirtualBench bench({.logits = [&](const std::vector<Token>& tokens, std::size_t, float* logits) {
    LogitsOf(HashOf(tokens), logits);
    if (broken && tokens[0] == 9) std::fill_n(logits, kFakeVocabulary, NAN);
  }});
  const auto add = [&](GenerationId id, const std::vector<Token>& prompt) {
    Submission submission = SubmissionOf({.id = id, .prompt = prompt, .max_tokens = 5});
    submission.sampler = std::make_unique<CarefulSampler>();
    bench.loop->Add(std::move(submission));
  };
  const auto run = [&] {
    while (bench.Step()) {
    }
  };
  add(1, bad);
  add(2, std::vector<Token>(40, 8));
  run();
  EXPECT_EQ(bench.ends.at(1).status.code(), StatusCode::kInternal);
  EXPECT_EQ(bench.ends.at(1).status.param(), "");
  EXPECT(bench.ends.at(2).status.ok());
  EXPECT_EQ(bench.ends.at(2).usage.output_tokens, 5U);
  broken = false;
  add(3, bad);
  run();
  EXPECT(bench.ends.at(3).status.ok());
  EXPECT_EQ(bench.ends.at(3).usage.cached_tokens, 0U);
}

// The same arrivals give the same steps.
TEST(ARunCanBeRepeated) {
  std::vector<double> ends;
  for (int round = 0; round < 2; ++round) {
    VirtualBench bench({.cells = 512});
    std::mt19937 random(5);
    for (GenerationId id = 0; id < 20; ++id) {
      bench.Add(RandomWant(id, random, 100));
      (void)bench.Step();
    }
    bench.RunToTheEnd();
    ends.push_back(bench.now_ms());
  }
  EXPECT_EQ(ends[0], ends[1]);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
