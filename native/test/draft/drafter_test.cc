// A fake draft model beside a loop over a fake model, on a virtual clock: drafts never change a
// text; their gain; and their cost where they gain nothing.
#include "engine/draft/drafter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "bench.h"
#include "engine/draft/draft_budget.h"
#include "loop_bench.h"
#include "test.h"

namespace svc {
namespace {

using test::FakeOptions;
using test::FakeRecord;
using test::kFakeVocabulary;
using test::SubmissionOf;
using test::Want;

using Logits = std::function<void(const std::vector<Token>&, std::size_t, float*)>;

// An endless text without repetition: each token depends on all tokens before it.
void Endless(const std::vector<Token>& tokens, std::size_t /*rows*/, float* logits) {
  test::LogitsOf(test::HashOf(tokens), logits);
  logits[test::kFakeEnd] = -1;
}
// Predicts another token with certainty.
void Wrong(const std::vector<Token>& tokens, std::size_t /*rows*/, float* logits) {
  test::LogitsOf(test::HashOf(tokens) + 1, logits);
}
// Right three times in four, uncertain otherwise.
void Often(const std::vector<Token>& tokens, std::size_t rows, float* logits) {
  Endless(tokens, rows, logits);
  if (test::HashOf(tokens) % 4 != 0) return;
  for (std::size_t i = 0; i < kFakeVocabulary; ++i) logits[i] = static_cast<float>(i % 8) / 8;
}

// Takes the largest logit.
class GreedySampler final : public Sampler {
 public:
  Token Sample(const float* logits) override {
    return static_cast<Token>(std::max_element(logits, logits + kFakeVocabulary) - logits);
  }
};

struct Options {
  FakeOptions model{.cells = 4096, .logits = Endless};
  FakeOptions draft{.cells = 4096, .max_sequences = Drafter::kPlaces, .logits = Endless};
  bool drafts = true;
  bool measured = true;
  double draft_ms = 3;  // a call of the draft model, and each of its rows
  double draft_row_ms = 1;
};

// Milliseconds of a step of the model: quantized kernels compute rows in groups of four.
double CostOf(std::size_t rows) { return 20 + 10 * std::ceil(static_cast<double>(rows) / 4); }

// A loop over both models; their calls advance the clock.
class Bench : public test::LoopBench {
 public:
  explicit Bench(Options options = {}) {
    const auto timed = [this](FakeOptions& fake, auto cost_of) {
      fake.fault = [this, cost_of, fault = std::move(fake.fault)](std::span<const Row> rows,
                                                                  const std::atomic<bool>& flag) {
        Pass(cost_of(rows.size()));
        return fault ? fault(rows, flag) : DecodeOutcome::kDone;
      };
    };
    timed(options.model, CostOf);
    timed(options.draft, [options](std::size_t rows) {
      return options.draft_ms + options.draft_row_ms * static_cast<double>(rows);
    });
    auto decoder = std::make_unique<test::FakeDecoder>(options.model, &record);
    std::unique_ptr<Drafter> drafter;
    if (options.drafts) {
      drafter = std::make_unique<Drafter>(
          std::make_unique<test::FakeDecoder>(options.draft, &draft_record), kFakeVocabulary,
          now());
    }
    loop = std::make_unique<Loop>(
        std::move(decoder),
        LoopOptions{
            .measure_ms = options.measured ? 1e6 : 0, .now = now(), .drafter = std::move(drafter)});
    loop->Measure();
    record.steps = 0;
    draft_record.steps = 0;
    draft_record.rows = 0;
  }

  void Add(const Want& want) {
    Submission submission = SubmissionOf(want);
    submission.sampler = std::make_unique<GreedySampler>();
    loop->Add(std::move(submission));
  }
  FakeRecord draft_record;
};

struct Run {
  double ms = 0;
  std::string text;
  EngineStats stats;
  std::uint32_t steps = 0;
  std::uint32_t draft_steps = 0;
};

Run RunOne(Options options, const Want& want) {
  Bench bench(std::move(options));
  bench.Add(want);
  Run run;
  run.ms = bench.RunToTheEnd();
  run.text = bench.texts[want.id];
  run.stats = bench.loop->stats();
  run.steps = bench.record.steps;
  run.draft_steps = bench.draft_record.steps;
  return run;
}

Want Long(GenerationId id, std::uint32_t tokens) {
  return {.id = id, .prompt = {5, 6, 7, static_cast<Token>(8 + id)}, .max_tokens = tokens};
}

TEST(DraftsThatAreRightMakeFewerSteps) {
  const Want want = Long(1, 300);
  const Run plain = RunOne({.drafts = false}, want);
  for (const bool measured : {true, false}) {
    const Run drafted = RunOne({.measured = measured}, want);
    std::printf("     %.2f times as fast; %u steps and %u of the draft model instead of %u\n",
                plain.ms / drafted.ms, drafted.steps, drafted.draft_steps, plain.steps);
    EXPECT_EQ(drafted.text, plain.text);
    EXPECT(drafted.stats.accepted_tokens > 200);
    EXPECT(drafted.stats.accepted_tokens > drafted.stats.drafted_tokens * 9 / 10);
    EXPECT(drafted.steps * 2 < plain.steps);
    EXPECT(drafted.ms * 1.3 < plain.ms);
  }
  const Run often = RunOne({.draft = {.cells = 4096, .max_sequences = 2, .logits = Often}}, want);
  std::printf("     %.2f times as fast where it is right three times in four\n",
              plain.ms / often.ms);
  EXPECT_EQ(often.text, plain.text);
  EXPECT(often.ms * 1.1 < plain.ms);
  // Uncertain tokens are not drafted.
  EXPECT(often.stats.accepted_tokens * 10 > often.stats.drafted_tokens * 6);
}

TEST(ItGrowsWithTheModelsCache) {
  const Want want = Long(1, 900);
  FakeOptions growing{.cells = 128, .max_cells = 4096, .logits = Endless};
  FakeOptions draft = growing;
  draft.max_sequences = Drafter::kPlaces;
  const Run fixed = RunOne({}, want);
  const Run grown = RunOne({.model = growing, .draft = draft}, want);
  EXPECT_EQ(grown.text, fixed.text);
  EXPECT_EQ(grown.stats.kv_cells_total, 905U);
  EXPECT(grown.stats.accepted_tokens > 600);
}

TEST(DraftsThatAreWrongCostLittleAndAreSoonHardlyMade) {
  for (const bool measured : {true, false}) {
    const Want want = Long(1, 1000);
    const Run plain = RunOne({.drafts = false, .measured = measured}, want);
    const Run wrong = RunOne(
        {.draft = {.cells = 4096, .max_sequences = 2, .logits = Wrong}, .measured = measured},
        want);
    std::printf("     %.3f times as fast; %u steps, and %u of the draft model\n",
                plain.ms / wrong.ms, wrong.steps, wrong.draft_steps);
    EXPECT_EQ(wrong.text, plain.text);
    EXPECT_EQ(wrong.steps, plain.steps);
    EXPECT(wrong.ms < plain.ms / 0.97);
    EXPECT(wrong.draft_steps < 150);
  }
}

// The drafts are right, but take longer than the steps that they save.
TEST(DraftsThatCostTooMuchAreNotMade) {
  const Want want = Long(1, 600);
  const Run plain = RunOne({.drafts = false}, want);
  const Run dear = RunOne({.draft_ms = 40}, want);
  std::printf("     %.3f times as fast; %llu drafts\n", plain.ms / dear.ms,
              static_cast<unsigned long long>(dear.stats.drafted_tokens));
  EXPECT_EQ(dear.text, plain.text);
  EXPECT(dear.ms < plain.ms / 0.97);
}

TEST(ALongPromptIsReadInPiecesAndOnlyWhereItCanBeAfforded) {
  Want want = Long(1, 200);
  std::mt19937 random(3);
  for (int i = 0; i < 600; ++i) want.prompt.push_back(static_cast<Token>(3 + random() % 60));
  const Run plain = RunOne({.drafts = false}, want);
  const Run dear = RunOne({.draft_row_ms = 5}, want);
  EXPECT_EQ(dear.text, plain.text);
  EXPECT_EQ(dear.draft_steps, 0U);
  EXPECT(dear.ms < plain.ms * 1.001);

  Options options{.draft_ms = 0.5, .draft_row_ms = 0.05};
  std::size_t largest = 0;
  bool drafted = false;
  options.draft.max_rows = 512;
  options.draft.fault = [&](std::span<const Row> rows, const std::atomic<bool>&) {
    largest = std::max(largest, rows.size());
    if (rows.back().wants_logits && rows.back().position > 600) drafted = true;
    return DecodeOutcome::kDone;
  };
  const Run cheap = RunOne(options, want);
  EXPECT_EQ(cheap.text, plain.text);
  EXPECT(cheap.ms * 1.2 < plain.ms);
  EXPECT(drafted);
  EXPECT(largest > 100 && largest <= 400);  // a piece takes about as long as a step
}

TEST(ItIsNotAskedWhereTheTextDraftsBetter) {
  // Repeats the same six tokens.
  const Logits period = [](const std::vector<Token>& tokens, std::size_t, float* logits) {
    for (std::size_t i = 0; i < kFakeVocabulary; ++i) logits[i] = 0;
    logits[10 + tokens.size() % 6] = 30;
  };
  Options options;
  options.model.logits = period;
  options.draft.logits = Wrong;
  const Run run = RunOne(options, Long(1, 400));
  EXPECT(run.stats.accepted_tokens > 250);
  EXPECT(run.draft_steps < 60);
}

TEST(NobodyIsDraftedForWhoAsksForAPlainLoopNorAmongMany) {
  Want want = Long(1, 100);
  want.reuse_prefix = false;
  EXPECT_EQ(RunOne({}, want).draft_steps, 0U);

  Bench bench;
  for (GenerationId id = 1; id <= 3; ++id) bench.Add(Long(id, 100));
  (void)bench.RunToTheEnd();
  EXPECT(bench.draft_record.steps < 40);  // a few tokens for the last one or two generations
}

// Both texts fit, but not with the drafts of both.
TEST(CellsForTwoAreReservedForBoth) {
  FakeRecord record;
  Drafter drafter(
      std::make_unique<test::FakeDecoder>(
          FakeOptions{.cells = 100, .max_sequences = Drafter::kPlaces, .logits = Endless}, &record),
      kFakeVocabulary);
  const std::vector<Token> first(45, 5);
  const std::vector<Token> second(45, 6);
  EXPECT_EQ(drafter.Lack(1, first), 45U);
  EXPECT_EQ(drafter.Lack(2, second), 0U);
  drafter.Release(1);
  EXPECT_EQ(drafter.Lack(2, second), 45U);
}

TEST(TwoAreDraftedForTogether) {
  Bench plain({.drafts = false});
  Bench both;
  for (Bench* bench : {&plain, &both}) {
    for (GenerationId id = 1; id <= 2; ++id) bench->Add(Long(id, 200));
  }
  const double plain_ms = plain.RunToTheEnd();
  const double both_ms = both.RunToTheEnd();
  EXPECT(both.texts == plain.texts);
  EXPECT_EQ(both.draft_record.largest_batch.load(), 2U);
  std::printf("     %.2f times as fast\n", plain_ms / both_ms);
  EXPECT(both_ms * 1.15 < plain_ms);
}

TEST(ATurnFindsWhatWasReadOfTheLastOne) {
  Bench bench;
  Want want = Long(1, 60);
  bench.Add(want);
  (void)bench.RunToTheEnd();
  const std::uint32_t held = bench.draft_record.cells;
  EXPECT(held > 40);
  // The next prompt continues that text.
  Want next{.id = 2, .prompt = want.prompt, .max_tokens = 20};
  for (const char byte : bench.texts[1].substr(0, 30)) next.prompt.push_back(byte - '0');
  next.prompt.push_back(9);
  std::uint32_t before = bench.draft_record.rows;
  bench.Add(next);
  (void)bench.RunToTheEnd();
  EXPECT(bench.draft_record.rows - before < 45);
  // After a cancel nothing more is computed, and the draft model's cells can be reused.
  for (GenerationId id = 3; id < 40; ++id) {
    bench.Add(Long(id, 400));
    for (int i = 0; i < 10; ++i) (void)bench.Step();
    before = bench.draft_record.rows;
    bench.loop->Cancel(id);
    (void)bench.RunToTheEnd();
    EXPECT_EQ(bench.draft_record.rows.load(), before);
    EXPECT(bench.draft_record.cells < 2 * 100);
  }
}

TEST(ADraftModelThatFailsIsLeftAlone) {
  for (const DecodeOutcome outcome : {DecodeOutcome::kFailed, DecodeOutcome::kNoCells}) {
    int calls = 0;
    Options options;
    options.draft.fault = [&](std::span<const Row>, const std::atomic<bool>&) {
      return ++calls > 30 ? outcome : DecodeOutcome::kDone;
    };
    const Want want = Long(1, 200);
    const Run run = RunOne(options, want);
    EXPECT_EQ(run.text, RunOne({.drafts = false}, want).text);
    EXPECT_EQ(calls, 31);
  }
}

// A draft model may return any logits, including NaN and infinity.
TEST(NumbersThatAreNoneAreNoDrafts) {
  for (const float value : {NAN, INFINITY, -INFINITY}) {
    Options options;
    options.draft.logits = [value](const std::vector<Token>&, std::size_t, float* logits) {
      std::fill(logits, logits + kFakeVocabulary, value);
    };
    const Want want = Long(1, 100);
    const Run run = RunOne(options, want);
    EXPECT_EQ(run.text, RunOne({.drafts = false}, want).text);
    EXPECT(run.draft_steps < 60);
  }
}

// Random cache sizes, missing cells and aborts in both models, cancels, pauses, concurrency, and
// draft models of any quality: each text equals the text without drafts, and no cell leaks.
Options RandomOptions(std::mt19937& random) {
  Options options;
  options.measured = random() % 2 == 0;
  options.draft_ms = static_cast<double>(random() % 6);
  options.model.cells = 64 + static_cast<std::uint32_t>(random() % 300);
  options.model.max_rows = 8 + static_cast<std::uint32_t>(random() % 60);
  options.model.max_sequences = 1 + static_cast<std::uint32_t>(random() % 4);
  options.model.can_share = random() % 8 != 0;
  options.draft.cells = 20 + static_cast<std::uint32_t>(random() % 400);
  options.draft.max_rows = 16 + static_cast<std::uint32_t>(random() % 40);
  options.draft.logits = std::array<Logits, 3>{Endless, Often, Wrong}[random() % 3];
  return options;
}

TEST(NothingElseIsSaidWhateverHappens) {
  std::uint64_t accepted = 0;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    std::mt19937 faults(seed + 1);
    Options options = RandomOptions(random);
    bool measuring = true;
    options.model.fault = [&](std::span<const Row> rows, const std::atomic<bool>&) {
      if (measuring || rows.size() < 2) return DecodeOutcome::kDone;
      if (faults() % 40 == 0) return DecodeOutcome::kAborted;
      const bool several = rows.front().sequence != rows.back().sequence;
      const bool drafts = rows.front().wants_logits;
      return (several || drafts) && faults() % 30 == 0 ? DecodeOutcome::kNoCells
                                                       : DecodeOutcome::kDone;
    };
    options.draft.fault = [&](std::span<const Row>, const std::atomic<bool>&) {
      if (measuring) return DecodeOutcome::kDone;
      if (faults() % 1000 == 0) return DecodeOutcome::kFailed;
      return faults() % 40 == 0 ? DecodeOutcome::kAborted : DecodeOutcome::kDone;
    };
    Options alone;
    alone.drafts = false;
    alone.model.cells = options.model.cells;
    Bench bench(options);
    measuring = false;
    std::map<GenerationId, Want> wants;
    std::set<GenerationId> cancelled;
    for (GenerationId id = 0; id < 8; ++id) {
      Want want = test::RandomWant(id, random, 30);
      if (random() % 2 == 0) want.max_tokens = 30 + random() % 200;
      wants.emplace(id, want);
      bench.Add(want);
      for (std::uint32_t i = random() % 20; i > 0; --i) (void)bench.Step();
      if (random() % 4 == 0) {
        bench.loop->SetPaused(id, true);
        for (std::uint32_t i = random() % 20; i > 0; --i) (void)bench.Step();
        bench.loop->SetPaused(id, false);
      }
      if (random() % 4 == 0) {
        bench.loop->Cancel(id);
        cancelled.insert(id);
      }
    }
    (void)bench.RunToTheEnd();
    for (const auto& [id, want] : wants) {
      if (!cancelled.contains(id)) EXPECT_EQ(bench.texts[id], RunOne(alone, want).text);
    }
    EXPECT(bench.draft_record.cells <= options.draft.cells);
    accepted += bench.loop->stats().accepted_tokens;
    bench.loop.reset();
    EXPECT_EQ(bench.draft_record.cells.load(), 0U);
    EXPECT_EQ(bench.record.cells.load(), 0U);
  }
  EXPECT(accepted > 1000);
}

TEST(TheAccountBoundsWhatTrialsCost) {
  DraftBudget budget;
  constexpr double kTrial = 0.5;
  double spent = 0;
  int trials = 0;
  for (int step = 0; step < 10000; ++step) {
    budget.Pass(1);
    if (!budget.Affords(kTrial) || !budget.TryNow()) continue;
    budget.Add(-kTrial);
    spent += kTrial;
    ++trials;
  }
  EXPECT(spent < 10000 * 0.015 + 10);
  EXPECT(trials > 100);
  EXPECT(trials < 200);
  budget.Encourage();
  EXPECT(budget.TryNow());
}

}  // namespace
}  // namespace svc

TEST_MAIN()
