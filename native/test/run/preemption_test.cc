// Preemption: generations that do not all fit into the KV cache.
#include <algorithm>
#include <random>

#include "bench.h"
#include "test.h"

namespace svc {
namespace {

using namespace test;

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
  EXPECT(bench.runner.stats().preemptions > 0);
  EXPECT(bench.runner.stats().evicted_cells > 0);
  bench.ExpectNothingHeld();
}

TEST(APromptThatDoesNotFitBesideAnotherWaitsForIt) {
  Bench bench({.cells = 64, .max_rows = 16});
  bench.runner.Hold(true);
  for (const GenerationId id : {1U, 2U}) {
    const auto token = static_cast<Token>(id);
    const std::vector<Token> prompt(40, token);
    REQUIRE(bench.Submit({.id = id, .prompt = prompt, .max_tokens = 5}).ok());
  }
  bench.runner.Hold(false);
  for (const GenerationId id : {1U, 2U}) REQUIRE(bench.WaitFor(id));
  // Nothing was computed twice.
  EXPECT_EQ(bench.runner.stats().prompt_tokens, 80U);
  EXPECT_EQ(bench.runner.stats().preemptions, 0U);
}

TEST(TheCacheFullOfOneIsLength) {
  Bench bench({.cells = 24});
  Want want{.id = 1, .prompt = {5, 6, 7}};
  // A seed whose text fills the cache before it ends.
  while (Alone(want, 24).reason != FinishReason::kLength) ++want.seed;
  REQUIRE(bench.Submit(want).ok());
  REQUIRE(bench.WaitFor(1));
  bench.ExpectAsAlone(want);
  EXPECT_EQ(bench.End(1).usage.output_tokens, 21U);
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
  EXPECT_EQ(bench.runner.stats().active, 0U);
  bench.runner.Resume(1);
  REQUIRE(bench.WaitFor(1));
  bench.ExpectAsAlone(sleeper);
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

}  // namespace
}  // namespace svc

TEST_MAIN()
