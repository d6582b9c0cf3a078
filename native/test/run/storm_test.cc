// Stress test: random calls of the runner from several threads.
#include <chrono>
#include <random>
#include <thread>

#include "bench.h"
#include "test.h"

namespace svc {
namespace {

using namespace test;

// Random submissions, cancels, pauses, holds and spurious kNoCells outcomes, from four threads,
// with a cache far too small for all generations.
// What a client may do at any time.
void Interfere(Bench& bench, GenerationId victim, std::mt19937& random) {
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
        Interfere(bench, victim, random);
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
  bench.ExpectNothingHeld();
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
