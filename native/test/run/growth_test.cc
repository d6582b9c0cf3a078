// Growth of the KV cache on demand: every text equals that of the generation alone in a cache of
// the largest size, whenever and however often the cache grows.
#include "engine/run/growth.h"

#include <algorithm>
#include <random>
#include <thread>

#include "failing_memory.h"
#include "test.h"
#include "virtual_bench.h"

namespace svc {
namespace {

using namespace test;

constexpr std::uint32_t kCells = 64;

FakeOptions Growing(bool can_share = true) {
  return {.cells = kCells, .max_cells = 1024, .max_rows = 16, .can_share = can_share};
}

// Grants what is wanted, rounded up to a power of two.
void GrantAll(VirtualBench& bench) {
  bench.on_demand = [&bench](CellDemand demand) {
    std::uint32_t cells = kCells;
    while (cells < demand.wanted) cells *= 2;
    bench.loop->GrantCells(cells, "");
  };
}

// Plans while the allocation after `count` others fails. False: there are fewer.
bool PlanWithout(Loop& loop, int count) {
  bool has_thrown = false;
  const FailingMemory failing(count);
  std::thread planning([&] {
    try {
      (void)loop.Plan();
    } catch (const std::bad_alloc&) {
      has_thrown = true;
    }
  });
  planning.join();
  return has_thrown;
}

TEST(ALongPromptGrowsAnIdleCache) {
  for (const bool can_share : {true, false}) {
    VirtualBench bench(Growing(can_share));
    GrantAll(bench);
    bench.Add(Steady(1, Prompt(1, 20), 10));
    bench.RunToTheEnd();
    EXPECT_EQ(bench.record.grown.load(), 0U);
    EXPECT_EQ(bench.loop->stats().kv_cells_total, kCells);

    bench.Add(Steady(2, Prompt(2, 200), 10));
    bench.RunToTheEnd();
    EXPECT_EQ(bench.record.grown.load(), 1U);
    EXPECT_EQ(bench.loop->stats().kv_cells_total, 256U);
    for (const GenerationId id : {1U, 2U}) bench.ExpectAsAlone(id);
  }
}

TEST(TheDemandIsThePromptAndWhatItsAnswerMayTake) {
  VirtualBench bench(Growing());
  std::vector<CellDemand> demands;
  bench.on_demand = [&](CellDemand demand) {
    demands.push_back(demand);
    bench.loop->GrantCells(1024, "");
  };
  bench.Add(Steady(1, Prompt(1, 100), 7));
  bench.RunToTheEnd();
  REQUIRE(demands.size() == 1);
  EXPECT_EQ(demands[0].least, 101U);
  EXPECT_EQ(demands[0].wanted, 108U);
  bench.ExpectAsAlone(1);
}

TEST(GenerationsThatDecodeGoOnAfterTheGrowth) {
  for (const bool can_share : {true, false}) {
    VirtualBench bench(Growing(can_share));
    GrantAll(bench);
    bench.Add(Steady(1, Prompt(1, 12), 15));
    bench.Add(Steady(2, Prompt(2, 9), 15));
    for (int i = 0; i < 6; ++i) EXPECT(bench.Step());
    EXPECT(!bench.texts[1].empty());
    const std::uint64_t before = bench.loop->stats().prompt_tokens;
    bench.Add(Steady(3, Prompt(3, 150), 5));
    bench.RunToTheEnd();
    for (const GenerationId id : {1U, 2U, 3U}) bench.ExpectAsAlone(id);
    EXPECT_EQ(bench.record.grown.load(), 1U);
    // What they had computed was not computed again.
    EXPECT_EQ(bench.loop->stats().prompt_tokens - before, 150U);
    EXPECT_EQ(bench.loop->stats().preemptions, 0U);
  }
}

// Copies of states share the memory of the checkpoints: 0, 1 and 2 of them fit.
TEST(AStateThatFindsNoRoomIsComputedAgain) {
  for (const std::uint32_t fitting : {0U, 1U, 2U}) {
    FakeOptions options = Growing(/*can_share=*/false);
    options.max_state_bytes = std::uint64_t{8} * 20 * fitting;
    VirtualBench bench(options);
    GrantAll(bench);
    bench.Add(Steady(1, Prompt(1, 12), 15));
    bench.Add(Steady(2, Prompt(2, 9), 15));
    for (int i = 0; i < 6; ++i) EXPECT(bench.Step());
    bench.Add(Steady(3, Prompt(3, 150), 5));
    bench.RunToTheEnd();
    for (const GenerationId id : {1U, 2U, 3U}) bench.ExpectAsAlone(id);
    EXPECT_EQ(bench.record.grown.load(), 1U);
    EXPECT_EQ(bench.record.states_saved.load(), fitting);
    EXPECT_EQ(bench.record.states_loaded.load(), fitting);
  }
}

TEST(AnAnswerThatFillsTheCacheGoesOnInALargerOne) {
  for (const bool can_share : {true, false}) {
    VirtualBench bench(Growing(can_share));
    GrantAll(bench);
    bench.Add(Steady(1, Prompt(1, 10), 400));
    bench.Add(Steady(2, Prompt(2, 10), 30));
    bench.RunToTheEnd();
    for (const GenerationId id : {1U, 2U}) bench.ExpectAsAlone(id);
    EXPECT(bench.record.grown.load() > 0);
  }
}

// It may take seconds until other models have made room.
TEST(NothingIsComputedWhileAnAnswerWaitsForCellsAndNobodyFitsBesideIt) {
  VirtualBench bench(Growing());
  bench.Add(Steady(1, Prompt(1, 10), 400));
  while (bench.Step()) {
  }
  bench.Add(Steady(2, Prompt(2, 10), 30));
  EXPECT(!bench.Step());
  EXPECT(!bench.loop->HasWork());
  GrantAll(bench);
  bench.loop->GrantCells(128, "");
  EXPECT(bench.loop->HasWork());
  bench.RunToTheEnd();
  for (const GenerationId id : {1U, 2U}) bench.ExpectAsAlone(id);
}

TEST(AnAnswerWhoseReaderIsSlowGoesOnAfterTheGrant) {
  VirtualBench bench(Growing());
  bench.Add(Steady(1, Prompt(1, 10), 400));
  while (bench.Step()) {
  }
  bench.loop->SetPaused(1, true);
  bench.loop->GrantCells(128, "");
  bench.Add(Steady(2, Prompt(2, 10), 30));
  while (bench.Step()) {
  }
  EXPECT(bench.ends.contains(2));
  GrantAll(bench);
  bench.loop->SetPaused(1, false);
  EXPECT(bench.loop->HasWork());
  bench.RunToTheEnd();
  for (const GenerationId id : {1U, 2U}) bench.ExpectAsAlone(id);
}

TEST(ADemandThatWasNeverSentIsMadeAgain) {
  FakeOptions options = Growing();
  VirtualBench bench(options);
  std::uint32_t demands = 0;
  bench.on_demand = [&](CellDemand) { ++demands; };
  bench.Add(Steady(1, Prompt(1, 200), 10));
  (void)bench.loop->Plan();  // the demand is in the outbox
  bench.loop = Loop::Anew(std::move(bench.loop));
  bench.Add(Steady(2, Prompt(2, 300), 10));
  (void)bench.Step();
  EXPECT_EQ(demands, 1U);
}

// Wherever memory runs out before it is sent.
TEST(ADemandThatCouldNotBeSentIsMadeAgain) {
  int failures = 0;
  for (bool has_failed = true; has_failed; ++failures) {
    VirtualBench bench(Growing());
    std::uint32_t demands = 0;
    bench.on_demand = [&](CellDemand) { ++demands; };
    bench.Add(Steady(1, Prompt(1, 200), 10));
    has_failed = PlanWithout(*bench.loop, failures);
    if (!has_failed) break;
    bench.loop = Loop::Anew(std::move(bench.loop));
    bench.Add(Steady(2, Prompt(2, 300), 10));
    (void)bench.Step();
    EXPECT_EQ(demands, 1U);
  }
  EXPECT(failures > 0);
}

// The daemon ends an engine that asks twice.
TEST(ADemandOutlivesTheLoopThatSentIt) {
  VirtualBench bench(Growing());
  std::uint32_t demands = 0;
  bench.on_demand = [&](CellDemand) { ++demands; };
  bench.Add(Steady(1, Prompt(1, 200), 10));
  (void)bench.Step();
  EXPECT_EQ(demands, 1U);
  bench.loop = Loop::Anew(std::move(bench.loop));
  bench.Add(Steady(2, Prompt(2, 300), 10));
  (void)bench.Step();
  EXPECT_EQ(demands, 1U);
  GrantAll(bench);
  bench.loop->GrantCells(256, "");
  (void)bench.Step();
  while (bench.Step()) {
  }
  bench.ExpectAsAlone(2);
}

TEST(AnAnswerEndsAtTheLargestSize) {
  FakeOptions options = Growing();
  options.max_cells = 128;
  VirtualBench bench(options);
  bench.on_demand = [&](CellDemand) { bench.loop->GrantCells(128, ""); };
  Want want{.id = 1, .prompt = Prompt(1, 10)};
  while (Alone(want, 128).reason != FinishReason::kLength) ++want.seed;
  bench.Add(want);
  bench.RunToTheEnd();
  bench.ExpectAsAlone(1);
  EXPECT_EQ(bench.ends.at(1).usage.output_tokens, 118U);
}

TEST(ARefusedPromptFailsWithTheReasonAndTheOthersGoOn) {
  VirtualBench bench(Growing());
  bench.on_demand = [&](CellDemand) {
    bench.loop->GrantCells(kCells, "it needs 5 MB, and 2 MB are free");
  };
  bench.Add(Steady(1, Prompt(1, 12), 30));
  for (int i = 0; i < 6; ++i) EXPECT(bench.Step());
  bench.Add(Steady(2, Prompt(2, 100), 5));
  bench.RunToTheEnd();
  bench.ExpectAsAlone(1);
  EXPECT(bench.ends.at(2).status.code() == StatusCode::kOutOfMemory);
  EXPECT_EQ(bench.ends.at(2).status.message(),
            "not enough memory for a prompt of 100 tokens: it needs 5 MB, and 2 MB are free");
  EXPECT_EQ(bench.record.grown.load(), 0U);
  // The next one is asked for anew.
  GrantAll(bench);
  bench.Add(Steady(3, Prompt(3, 100), 5));
  bench.RunToTheEnd();
  bench.ExpectAsAlone(3);
}

TEST(ARefusedAnswerEndsAsTooLongWithAllItsText) {
  for (const bool can_share : {true, false}) {
    VirtualBench bench(Growing(can_share));
    bench.on_demand = [&](CellDemand) { bench.loop->GrantCells(kCells, "no memory"); };
    const Want want = Steady(1, Prompt(1, 10), 200);
    bench.Add(want);
    bench.RunToTheEnd();
    EXPECT(bench.ends.at(1).status.ok());
    EXPECT(bench.ends.at(1).reason == FinishReason::kLength);
    EXPECT_EQ(bench.texts.at(1), Alone(want, kCells).text);
  }
}

TEST(TheRefusalOfALongPromptDoesNotEndAShorterOne) {
  VirtualBench bench(Growing());
  bench.on_demand = [&](CellDemand demand) {
    bench.loop->GrantCells(std::min(demand.wanted, 256U), demand.wanted > 256 ? "too long" : "");
  };
  bench.Add(Steady(1, Prompt(1, 700), 5));
  bench.Add(Steady(2, Prompt(2, 200), 5));
  bench.RunToTheEnd();
  EXPECT(bench.ends.at(1).status.code() == StatusCode::kOutOfMemory);
  bench.ExpectAsAlone(2);
}

TEST(AGenerationThatIsCancelledWhileItWaitsLeavesTheAnswerToOthers) {
  VirtualBench bench(Growing());
  std::uint32_t demands = 0;
  bench.on_demand = [&](CellDemand) { ++demands; };
  bench.Add(Steady(1, Prompt(1, 100), 5));
  EXPECT(!bench.Step());
  EXPECT(!bench.loop->HasWork());
  bench.loop->Cancel(1);
  EXPECT(!bench.Step());
  EXPECT(bench.ends.at(1).reason == FinishReason::kCancelled);
  bench.Add(Steady(2, Prompt(2, 100), 5));
  EXPECT(!bench.Step());
  EXPECT_EQ(demands, 1U);  // the first is not answered yet
  bench.loop->GrantCells(128, "");
  bench.RunToTheEnd();
  bench.ExpectAsAlone(2);
}

TEST(MemoryThatCannotBeAllocatedIsARefusal) {
  for (const bool can_share : {true, false}) {
    FakeOptions options = Growing(can_share);
    options.may_grow = [](std::uint32_t cells) { return cells <= 128; };
    VirtualBench bench(options);
    GrantAll(bench);
    bench.Add(Steady(1, Prompt(1, 12), 15));
    for (int i = 0; i < 6; ++i) EXPECT(bench.Step());
    bench.Add(Steady(2, Prompt(2, 300), 5));
    bench.Add(Steady(3, Prompt(3, 100), 5));
    bench.RunToTheEnd();
    bench.ExpectAsAlone(1);
    EXPECT_EQ(bench.ends.at(2).status.message(),
              "not enough memory for a prompt of 300 tokens: a context of 512 tokens cannot be "
              "allocated");
    bench.ExpectAsAlone(3);
  }
}

TEST(ManyThatGrowInAnyOrder) {
  for (std::uint32_t round = 0; round < 60; ++round) {
    std::mt19937 random(round);
    FakeOptions options = Growing(/*can_share=*/round % 3 != 0);
    options.max_rows = 8 + random() % 60;
    if (round % 2 == 0) {
      options.lane_cells = 200;
      options.lane_rows = 64;
    }
    if (round % 4 < 2) options.idle_cells = random() % 100;
    VirtualBench bench(options);
    GrantAll(bench);
    std::vector<Want> wants;
    for (GenerationId id = 0; id < 12; ++id) {
      wants.push_back(RandomWant(id, random, id % 3 == 0 ? 400 : 40));
      if (!wants.back().max_tokens) wants.back().max_tokens = 100 + random() % 300;
      wants.back().reuse_prefix = random() % 5 != 0;
    }
    for (const Want& want : wants) {
      bench.Add(want);
      for (std::uint32_t steps = random() % 8; steps > 0; --steps) bench.Step();
    }
    bench.RunToTheEnd();
    for (const Want& want : wants) bench.ExpectAsAlone(want.id);
  }
}

TEST(TheRunnerPassesDemandsOutAndGrantsIn) {
  Bench bench(Growing());
  const Want want{.id = 1, .prompt = Prompt(1, 300), .max_tokens = 20, .seed = 3};
  REQUIRE(bench.Submit(want).ok());
  REQUIRE(bench.WaitFor(1));
  bench.ExpectAsAlone(want);
  EXPECT_EQ(bench.runner.stats().kv_cells_total, 321U);
  bench.ExpectNothingHeld();
}

}  // namespace
}  // namespace svc

TEST_MAIN()
