// Who goes first between shares: by what each holds, and in a loop over the fake model with a clock
// that only steps advance.
#include "engine/run/fair_shares.h"

#include <map>
#include <random>

#include "bench.h"
#include "loop_bench.h"
#include "test.h"

namespace svc {
namespace {

constexpr ShareId kAlice = 1;
constexpr ShareId kBob = 2;

// Generations in the cache or waiting, by share.
class Crowd {
 public:
  explicit Crowd(test::FakeOptions options)
      : decoder_(std::move(options), &record_), shares(&decoder_) {}

  // `tokens`: in the cache; 0: the generation waits.
  Generation& Add(ShareId share, std::uint32_t tokens, std::uint32_t prompt = 100) {
    test::Want want{.id = 1, .prompt = std::vector<Token>(prompt, 5)};
    want.scope.owner = share;
    generations.push_back(std::make_unique<Generation>(test::SubmissionOf(want)));
    Generation& generation = *generations.back();
    generation.computed = tokens;
    if (tokens > 0) generation.sequence = static_cast<SequenceId>(generations.size());
    shares.Count(generations);
    return generation;
  }
  void Speak() {
    for (const auto& generation : generations) {
      if (generation->in_cache()) generation->timings.first_token_ms = 1;
    }
    shares.Count(generations);
  }

 private:
  test::FakeRecord record_;
  test::FakeDecoder decoder_;

 public:
  FairShares shares;
  Generations generations;
};

TEST(AShareAloneIsNeverAskedToGiveBack) {
  Crowd crowd({.cells = 1000, .max_sequences = 4});
  for (int i = 0; i < 4; ++i) crowd.Add(kAlice, 100);
  const Generation& waiting = crowd.Add(kAlice, 0);
  EXPECT(!crowd.shares.several() && !crowd.shares.MayReorder());
  EXPECT(!crowd.shares.MakesWayFor(waiting, /*lacks_sequence=*/true));
  EXPECT(!crowd.shares.Largest());
}

TEST(WhoHoldsMoreThanItsPartMakesWay) {
  Crowd crowd({.cells = 1000, .max_sequences = 4});
  for (int i = 0; i < 4; ++i) crowd.Add(kAlice, 150);
  const Generation& waiting = crowd.Add(kBob, 0);
  EXPECT(crowd.shares.MayReorder());
  EXPECT(crowd.shares.MakesWayFor(waiting, /*lacks_sequence=*/true) == kAlice);
  EXPECT(crowd.shares.MakesWayFor(waiting, /*lacks_sequence=*/false) == kAlice);
  EXPECT(crowd.shares.Largest() == kAlice);
  // Not for a share that had more tokens.
  crowd.shares.Charge(kBob, 1000);
  EXPECT(!crowd.shares.MakesWayFor(waiting, /*lacks_sequence=*/true));
}

TEST(ASingleGenerationIsNotTakenFromAShare) {
  Crowd crowd({.cells = 1000, .max_sequences = 2});
  crowd.Add(kAlice, 900);
  const Generation& waiting = crowd.Add(kBob, 0);
  EXPECT(!crowd.shares.MakesWayFor(waiting, /*lacks_sequence=*/false));
  EXPECT(!crowd.shares.Largest());
}

TEST(AFirstTokenThatIsDueGetsTheStep) {
  Crowd crowd({.cells = 1000, .max_sequences = 8});
  std::vector<Generation*> candidates;
  for (int i = 0; i < 3; ++i) candidates.push_back(&crowd.Add(kAlice, 99));
  crowd.Speak();
  EXPECT_EQ(crowd.shares.YieldTo(&candidates).decoding_rows, UINT32_MAX);
  Generation& due = crowd.Add(kBob, 60);
  candidates.push_back(&due);
  const StepYield yield = crowd.shares.YieldTo(&candidates);
  EXPECT(candidates.front() == &due);
  EXPECT_EQ(yield.prompt_rows, 40U);
  EXPECT_EQ(yield.decoding_rows, 1U);  // one for each share that decodes
  // Not once the share is a quantum ahead.
  crowd.shares.Charge(kBob, 600);
  EXPECT_EQ(crowd.shares.YieldTo(&candidates).decoding_rows, UINT32_MAX);
}

TEST(SharesTakeTurnsWhereNotAllCanDecode) {
  Crowd crowd({.cells = 1000, .max_sequences = 8});
  std::vector<Generation*> decoding;
  for (int i = 0; i < 3; ++i) decoding.push_back(&crowd.Add(kAlice, 99));
  for (int i = 0; i < 2; ++i) decoding.push_back(&crowd.Add(kBob, 99));
  crowd.shares.Charge(kAlice, 1);
  const std::vector<Generation*> before = decoding;
  crowd.shares.OrderDecoding(&decoding);
  // One of each share first, by its counter; then in turns.
  EXPECT(decoding ==
         std::vector<Generation*>({before[3], before[0], before[4], before[1], before[2]}));
}

// ---- in the loop --------------------------------------------------------------------------------

// Milliseconds of a step: about a 0.5B model on two cores.
double StepMs(std::size_t rows) { return 15 + 2.0 * static_cast<double>(rows); }

class Bench : public test::LoopBench {
 public:
  explicit Bench(test::FakeOptions options = {}) {
    options.fault = [this](std::span<const Row> rows, const std::atomic<bool>&) {
      Pass(StepMs(rows.size()));
      computed += rows.size();
      return DecodeOutcome::kDone;
    };
    auto decoder = std::make_unique<test::FakeDecoder>(std::move(options), &record);
    LoopOptions loop_options;
    loop_options.cost = CostModel::Measure(*decoder, now(), 1e6);
    loop_options.now = now();
    loop = std::make_unique<Loop>(std::move(decoder), std::move(loop_options));
    computed = 0;
  }

  void Submit(GenerationId id, ShareId share, std::size_t prompt, std::uint32_t max_tokens,
              Priority priority = Priority::kInteractive) {
    Submission submission;
    submission.id = id;
    std::mt19937_64 random(id);
    for (std::size_t i = 0; i < prompt; ++i) {
      submission.prompt.push_back(static_cast<Token>(random() % test::kFakeVocabulary));
    }
    submission.max_tokens = max_tokens;
    submission.sampler = std::make_unique<Endless>();
    submission.priority = priority;
    submission.scope.owner = share;
    submission.submitted_at = now()();
    loop->Add(std::move(submission));
  }
  // Returns the milliseconds until the generation's first text.
  double UntilFirstToken(GenerationId id) {
    const Clock::time_point start = now()();
    for (int steps = 0; texts[id].empty() && !ends.contains(id); ++steps) {
      if (steps == 10000 || !Step()) {
        test::Fail(__FILE__, __LINE__, "no text after 10000 steps, or the loop went idle");
        break;
      }
    }
    return Milliseconds(now()() - start);
  }

  std::uint64_t computed = 0;  // rows

 private:
  class Endless final : public Sampler {
   public:
    Token Sample(const float*) override { return 7; }
  };
};

test::FakeOptions Large(std::uint32_t sequences) {
  return {
      .cells = 16384, .max_rows = 512, .max_sequences = sequences, .sequence_ids = sequences + 64};
}

// Time to first token of a question beside one generation of another share, and beside sixty.
TEST(AQuestionWaitsNoLongerBesideSixtyThanBesideOne) {
  for (const std::size_t prompt : {8U, 40U, 100U, 300U}) {
    // All sixty in the cache, or most of them waiting.
    for (const std::uint32_t sequences : {64U, 8U}) {
      double alone = 0;
      for (const GenerationId others : {1U, 60U}) {
        Bench bench(Large(sequences));
        for (GenerationId id = 1; id <= others; ++id) bench.Submit(id, kAlice, 30, 2000);
        for (int step = 0; step < 60; ++step) bench.Step();
        bench.Submit(100, kBob, prompt, 20);
        const double ms = bench.UntilFirstToken(100);
        if (others == 1) alone = ms;
        if (ms > 1.25 * alone) {
          test::Fail(__FILE__, __LINE__,
                     std::to_string(prompt) + " tokens, " + std::to_string(sequences) +
                         " sequences: " + std::to_string(ms) + " ms, alone " +
                         std::to_string(alone));
        }
      }
    }
  }
}

// With requests of all sizes, two shares that always want more get equal numbers of tokens.
TEST(TokensAreSharedEqually) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    std::mt19937_64 random(seed);
    Bench bench(Large(8));
    GenerationId next = 1;
    std::map<ShareId, std::uint32_t> queued;
    std::map<ShareId, double> tokens;
    std::map<GenerationId, std::pair<ShareId, double>> submitted;
    // Alice keeps many short requests queued, Bob a few large ones.
    const auto fill = [&](ShareId share, std::uint32_t depth, std::size_t longest) {
      while (queued[share] < depth) {
        const std::size_t prompt = 1 + random() % longest;
        const auto output = static_cast<std::uint32_t>(1 + random() % longest);
        submitted[next] = {share, static_cast<double>(prompt) + kOutputWeight * output};
        bench.Submit(next++, share, prompt, output);
        ++queued[share];
      }
    };
    for (int step = 0; step < 3000; ++step) {
      fill(kAlice, 40, 60);
      fill(kBob, 10, 300);
      REQUIRE(bench.Step());
      for (auto end = bench.ends.begin(); end != bench.ends.end(); end = bench.ends.erase(end)) {
        const auto& [share, cost] = submitted.at(end->first);
        tokens[share] += cost;
        --queued[share];
      }
    }
    const double all = tokens[kAlice] + tokens[kBob];
    if (std::abs(tokens[kAlice] / all - 0.5) > 0.1) {
      test::Fail(__FILE__, __LINE__, "Alice got " + std::to_string(tokens[kAlice] / all));
    }
  }
}

// A share that is alone gets every sequence and every row.
TEST(AShareThatIsAloneGetsEverything) {
  std::map<ShareId, double> took;
  for (const ShareId share : {ShareId{0}, kAlice}) {
    Bench bench(Large(8));
    for (GenerationId id = 1; id <= 30; ++id) bench.Submit(id, share, 20 + id, 40);
    for (int step = 0; step < 20; ++step) bench.Step();
    EXPECT_EQ(bench.loop->stats().active, 8U);
    took[share] = bench.RunToTheEnd();
  }
  EXPECT_EQ(took[0], took[kAlice]);
}

// Deadlines and priorities count within a share, not between shares.
TEST(PriorityHoldsWithinAShare) {
  Bench bench(Large(1));
  bench.Submit(1, kAlice, 20, 10);
  bench.Step();
  bench.Submit(2, kAlice, 20, 10, Priority::kBatch);
  bench.Submit(3, kAlice, 20, 10);
  bench.Submit(4, kBob, 20, 10, Priority::kBatch);
  std::vector<GenerationId> order;
  while (bench.Step()) {
    for (auto end = bench.ends.begin(); end != bench.ends.end(); end = bench.ends.erase(end)) {
      order.push_back(end->first);
    }
  }
  EXPECT(order == (std::vector<GenerationId>{1, 4, 3, 2}));
}

// All generations end, even with few cells.
TEST(NobodyStarves) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    Bench bench({.cells = 600,
                 .max_rows = 64,
                 .max_sequences = 4,
                 .sequence_ids = 32,
                 .can_share = seed % 2 == 0});
    for (GenerationId id = 1; id <= 60; ++id) {
      bench.Submit(id, random() % 5, 1 + random() % 200, 1 + random() % 100);
      for (std::uint64_t steps = random() % 4; steps > 0; --steps) bench.Step();
    }
    bench.RunToTheEnd();
    EXPECT_EQ(bench.ends.size(), 60U);
    EXPECT_EQ(bench.loop->stats().active + bench.loop->stats().waiting, 0U);
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
