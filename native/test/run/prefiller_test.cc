// Prompts in the lane: which of them, in batches of which size, and what happens to them there.
#include "engine/run/prefiller.h"

#include "loop_parts.h"
#include "test.h"
#include "virtual_bench.h"

namespace svc {
namespace {

using namespace test;

FakeOptions Lane() {
  return {.cells = 4096, .max_rows = 512, .lane_cells = 2048, .lane_rows = 512, .lane_advances = 3};
}
Generation WithPrompt(std::size_t tokens) {
  return Generation(SubmissionOf({.id = 9, .prompt = Prompt(1, tokens)}));
}

TEST(TheLaneTakesPromptsThatAreLongEnoughAndFit) {
  const LoopParts parts(Lane());
  EXPECT(!parts.prefiller.Takes(WithPrompt(127)));
  EXPECT(parts.prefiller.Takes(WithPrompt(128)));
  EXPECT(parts.prefiller.Takes(WithPrompt(2048)));
  EXPECT(!parts.prefiller.Takes(WithPrompt(2049)));
  const LoopParts without({.cells = 4096});
  EXPECT(!without.prefiller.Takes(WithPrompt(1000)));
}

// Where rows of a prompt ride along with what decodes, the lane would only make others wait; where
// a small step is dear, the prompt would wait three times as long outside.
TEST(BesideOthersTheLaneTakesAPromptThatGetsOnSoonerThere) {
  const CostModel rows_ride_along =
      CostOf([](std::size_t rows) { return rows <= 32 ? 40.0 + 2.0 * rows : 4.5 * rows; });
  const CostModel small_steps_are_dear = CostOf([](std::size_t rows) { return 75 + 3.5 * rows; });
  const StepTargets targets;
  EXPECT(LaneGain(rows_ride_along, targets, 3, 512) < kLeastHeldLaneGain);
  EXPECT(LaneGain(small_steps_are_dear, targets, 3, 512) > kLeastLaneGain);
  for (const auto& [cost, takes] :
       {std::pair(rows_ride_along, false), std::pair(small_steps_are_dear, true),
        std::pair(CostModel(), true)}) {
    LoopParts parts(Lane(), cost);
    parts.prefiller.SetDecoding(0);
    EXPECT(parts.prefiller.Takes(WithPrompt(1000)));
    parts.prefiller.SetDecoding(3);
    EXPECT_EQ(parts.prefiller.Takes(WithPrompt(1000)), takes);
    // One that is to be rounded as in a plain loop is never computed beside others.
    const Generation plain(
        SubmissionOf({.id = 9, .prompt = Prompt(1, 1000), .reuse_prefix = false}));
    EXPECT(parts.prefiller.Takes(plain));
  }
}

// In between, a prompt stays where it is.
TEST(APromptDoesNotMoveToAndFro) {
  const CostModel cost = CostOf([](std::size_t rows) { return 20.0 + 5.0 * rows; });
  const double gain = LaneGain(cost, StepTargets(), 3, 512);
  REQUIRE(gain > kLeastHeldLaneGain && gain < kLeastLaneGain);
  LoopParts parts(Lane(), cost);
  Generation& generation = parts.Add({.id = 1, .prompt = Prompt(1, 1000)});
  parts.admission.Admit();
  parts.prefiller.SetDecoding(3);
  EXPECT(!parts.prefiller.Takes(generation));
  REQUIRE(parts.prefiller.Open(generation));
  REQUIRE(parts.prefiller.Begin(generation, {.rows = 1000}, /*beside=*/true));
  EXPECT(parts.prefiller.Takes(generation));
}

TEST(ABatchIsSmallerBesideThoseWhoDecode) {
  for (const bool beside : {false, true}) {
    LoopParts parts(Lane());
    Generation& generation = parts.Add({.id = 1, .prompt = Prompt(1, 1000)});
    parts.admission.Admit();
    REQUIRE(parts.prefiller.Open(generation));
    EXPECT(parts.prefiller.generation() == nullptr);
    REQUIRE(parts.prefiller.Begin(generation, {.rows = 1000}, beside));
    EXPECT_EQ(parts.prefiller.rows(), beside ? 256U : 512U);
    EXPECT(parts.prefiller.generation() == &generation);
  }
}

// Nothing is copied back to the lane between the batches of one prompt, and its short end stays
// there, too.
TEST(BatchesAreHandedOverOneAfterTheOther) {
  LoopParts parts(Lane());
  Generation& generation = parts.Add({.id = 1, .prompt = Prompt(1, 1150)});
  parts.admission.Admit();
  Prefiller& prefiller = parts.prefiller;
  REQUIRE(prefiller.Open(generation));
  while (prefiller.Takes(generation)) {
    REQUIRE(prefiller.Begin(generation,
                            {.rows = generation.pending(), .position = generation.computed},
                            /*beside=*/false));
    const std::uint32_t rows = prefiller.rows();
    PrefillLane::Progress progress = PrefillLane::Progress::kMore;
    for (int i = 0; i < 3; ++i) {
      EXPECT(progress == PrefillLane::Progress::kMore);
      progress = prefiller.Advance(/*beside=*/false, parts.now, false);
    }
    EXPECT(progress == PrefillLane::Progress::kDone);
    REQUIRE(prefiller.HandOver());
    EXPECT(prefiller.generation() == nullptr);
    parts.admission.Computed(generation, rows);
    EXPECT_EQ(static_cast<std::uint32_t>(parts.decoder.NextPosition(generation.sequence)),
              generation.computed);
  }
  EXPECT(generation.computed > 1150 - 32);
  EXPECT_EQ(parts.record.states_saved.load(), 0U);
  EXPECT_EQ(parts.record.cells.load(), generation.computed);
}

// Behind a prompt in the lane, more tokens are known than it has cells for: those of a forced call.
TEST(ALargerLaneGetsWhatTheSmallerOneHad) {
  FakeOptions options = Lane();
  options.least_lane_cells = 256;
  LoopParts parts(options);
  Generation& generation = parts.Add({.id = 1, .prompt = Prompt(1, 250)});
  parts.admission.Admit();
  Prefiller& prefiller = parts.prefiller;
  for (const std::size_t more : {0, 40, 300}) {
    for (std::size_t i = 0; i < more; ++i) generation.tokens.push_back(static_cast<Token>(i % 9));
    REQUIRE(prefiller.Takes(generation) && prefiller.Open(generation));
    REQUIRE(prefiller.Begin(generation,
                            {.rows = generation.pending(), .position = generation.computed},
                            /*beside=*/false));
    const std::uint32_t rows = prefiller.rows();
    while (prefiller.Advance(/*beside=*/false, parts.now, false) == PrefillLane::Progress::kMore) {
    }
    REQUIRE(prefiller.HandOver());
    parts.admission.Computed(generation, rows);
    EXPECT_EQ(generation.pending(), 0U);
  }
}

TEST(WhatIsDroppedLeavesTheLane) {
  LoopParts parts(Lane());
  Generation& generation = parts.Add({.id = 1, .prompt = Prompt(1, 1000)});
  parts.admission.Admit();
  REQUIRE(parts.prefiller.Open(generation));
  REQUIRE(parts.prefiller.Begin(generation, {.rows = 1000}, /*beside=*/false));
  parts.prefiller.Drop(WithPrompt(1000));  // has nothing in the lane
  EXPECT(parts.prefiller.generation() == &generation);
  parts.prefiller.Drop(generation);
  EXPECT(parts.prefiller.generation() == nullptr);
  EXPECT_EQ(parts.prefiller.rows(), 0U);
  EXPECT(parts.prefiller.Begin(generation, {.rows = 1000}, /*beside=*/false));
}

TEST(BesideTheLaneGoShortUrgentPromptsThenTheLongestWait) {
  LoopParts parts(Lane());
  Generation& in_lane = parts.Add({.id = 1, .prompt = Prompt(1, 1000)});
  parts.admission.Admit();
  REQUIRE(parts.prefiller.Open(in_lane));
  REQUIRE(parts.prefiller.Begin(in_lane, {.rows = 1000}, /*beside=*/true));
  Generation urgent = WithPrompt(20);
  Generation later = WithPrompt(20);
  Generation document = WithPrompt(500);
  Generation ended = WithPrompt(20);
  ended.ended = true;
  Generation recent = WithPrompt(1);
  recent.last_step = 5;
  Generation longest = WithPrompt(1);
  longest.last_step = 3;
  const std::vector<Generation*> beside = parts.prefiller.Beside(
      {&recent, &ended, &document, &urgent, &in_lane, &later, &longest}, parts.shares);
  EXPECT(beside == std::vector<Generation*>({&urgent, &longest, &recent}));
}
TEST(ALaneThatGrowsTakesTheMemoryOfCopiesUntilNothingIsLeftToDo) {
  VirtualBench bench(
      {.cells = 4096,
       .max_rows = 512,
       .idle_cells = 64,
       .max_copied = [](std::uint32_t tokens) { return tokens > 1000 ? 256U : 2048U; },
       .lane_cells = 2048,
       .lane_rows = 512});
  for (GenerationId id = 0; id < 4; ++id) {
    bench.Add(Steady(id, Prompt(static_cast<Token>(id), 400), 3));
    bench.RunToTheEnd();
  }
  EXPECT(bench.loop->stats().kv_tokens_swapped > 1000);
  bench.Add(Steady(7, Prompt(7, 1500), 3));
  while (bench.Step()) EXPECT(bench.loop->stats().kv_tokens_swapped <= 256);
  bench.ExpectAsAlone(7);
  for (GenerationId id = 8; id < 12; ++id) {
    bench.Add(Steady(id, Prompt(static_cast<Token>(id), 400), 3));
    bench.RunToTheEnd();
  }
  EXPECT(bench.loop->stats().kv_tokens_swapped > 1000);
}

// Each stop costs something, and alone there is nobody to stop for.
TEST(AloneAPromptInTheLaneStopsLessOften) {
  VirtualBench bench(WithLane(), /*measured=*/false);  // in the lane beside others, too
  bench.Add(Steady(1, Prompt(1, 1800), 100));
  while (!bench.texts.contains(1)) EXPECT(bench.Step());
  EXPECT(bench.record.lane_layers > 0);
  EXPECT_EQ(bench.record.lane_parts.load(), 0U);
  const std::uint32_t alone = bench.record.lane_layers;
  bench.Add(Steady(2, Prompt(2, 700), 4));
  bench.RunToTheEnd();
  EXPECT_EQ(bench.record.lane_layers.load(), alone);
  EXPECT(bench.record.lane_parts > 0);
}

// Whose document it is that is in the lane changes, and neither is computed twice.
TEST(AShorterDocumentPassesALongerOneInTheLane) {
  VirtualBench bench(WithLane());
  bench.Add(Steady(1, Prompt(1, 1800), 4));
  (void)bench.Step();
  bench.Add(Steady(2, Prompt(2, 500), 4));
  bench.RunToTheEnd();
  EXPECT(bench.TimeToFirstToken(2) < 1300 + 1.2 * 500 * 5);
  EXPECT(bench.TimeToFirstToken(1) > 1800 * 5);
  for (const GenerationId id : {1U, 2U}) bench.ExpectAsAlone(id);
  EXPECT_EQ(bench.loop->stats().prompt_tokens, 2300U);
}

TEST(WhatIsInTheLaneCanBeCancelledAndPaused) {
  for (const bool paused : {false, true}) {
    VirtualBench bench(WithLane());
    bench.Add(Steady(1, Prompt(1, 1000), 4));
    for (int i = 0; i < 60; ++i) (void)bench.Step();
    if (paused) {
      bench.loop->SetPaused(1, true);
    } else {
      bench.loop->Cancel(1);
    }
    bench.Add(Steady(2, Prompt(2, 700), 4));
    while (bench.loop->HasWork()) EXPECT(bench.Step());
    bench.ExpectAsAlone(2);
    bench.loop->SetPaused(1, false);
    bench.RunToTheEnd();
    bench.ExpectAsAlone(1);
  }
}

TEST(ALaneThatFailsFailsItsPromptAlone) {
  for (const auto progress : {PrefillLane::Progress::kFailed, PrefillLane::Progress::kAborted}) {
    FakeOptions options = WithLane();
    int advances = 0;
    options.lane_fault = [&](std::uint32_t) {
      return ++advances == 70 ? progress : PrefillLane::Progress::kDone;
    };
    VirtualBench bench(std::move(options), /*measured=*/false);
    bench.Add(Steady(1, Prompt(1, 1000), 4));
    bench.Add(Steady(2, Prompt(2, 10), 60));
    bench.RunToTheEnd();
    bench.ExpectAsAlone(2);
    if (progress == PrefillLane::Progress::kAborted) {
      bench.ExpectAsAlone(1);  // what was lost is computed again
    } else {
      EXPECT_EQ(bench.ends.at(1).status.code(), StatusCode::kInternal);
    }
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
