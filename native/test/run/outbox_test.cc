// When outputs are delivered: the outbox alone, and in a loop.
#include "engine/run/outbox.h"

#include <chrono>

#include "test.h"
#include "virtual_bench.h"

namespace svc {
namespace {

using namespace test;

GenerationOutput Text(GenerationId id, const char* text) {
  GenerationOutput output;
  output.id = id;
  output.text = text;
  return output;
}

TEST(TextWaitsForAShortStepAndNoUrgentOutputDoes) {
  Clock::time_point time;
  Outbox outbox([&] { return time; });
  outbox.Add(Text(1, "a"), /*urgent=*/false);
  EXPECT(outbox.MayWait(7));
  EXPECT(!outbox.MayWait(9));
  time += std::chrono::milliseconds(5);
  outbox.Add(Text(1, "b"), /*urgent=*/false);  // the wait counts from the first one
  EXPECT(outbox.MayWait(2));
  EXPECT(!outbox.MayWait(4));
  outbox.Add(Text(2, "c"), /*urgent=*/true);
  EXPECT(!outbox.MayWait(0));
  const std::vector<GenerationOutput> taken = outbox.Take();
  REQUIRE(taken.size() == 2);
  EXPECT_EQ(taken[0].text, "ab");
  EXPECT_EQ(taken[1].text, "c");
  EXPECT(outbox.Take().empty());
  // Nothing of what was taken counts any more.
  time += std::chrono::milliseconds(50);
  outbox.Add(Text(1, "d"), /*urgent=*/false);
  EXPECT(outbox.MayWait(7));
}
TEST(TextOfShortStepsIsToldTogether) {
  for (const bool measured : {true, false}) {
    VirtualBench bench({}, measured, kShort);
    bench.Add(Steady(1, Prompt(1, 8), 60));
    const double submitted = bench.now_ms();
    bench.RunToTheEnd();
    bench.ExpectAsAlone(1);
    const std::vector<double>& heard = bench.heard_ms[1];
    // The first text at once and the end at once; what is between waits for 8 ms at most.
    EXPECT(std::abs(heard.front() - submitted - bench.TimeToFirstToken(1)) < 1e-6);
    EXPECT(std::abs(heard.back() - submitted - bench.ends.at(1).timings.finished_ms) < 1e-6);
    EXPECT(heard.size() < 15);
    for (std::size_t i = 1; i < heard.size(); ++i) EXPECT(heard[i] - heard[i - 1] < 12);
  }
}

TEST(NoTextWaitsForALongStep) {
  VirtualBench bench({.cells = 8192, .max_rows = 512}, /*measured=*/true, kShort);
  bench.Add(Steady(1, Prompt(1, 8), 60));
  for (int i = 0; i < 4; ++i) (void)bench.Step();
  REQUIRE(bench.heard_ms[1].size() == 1);
  bench.Add(Steady(2, Prompt(2, 1800), 4));
  const double before = bench.now_ms();
  (void)bench.Step();
  EXPECT(bench.now_ms() > before + 20);
  REQUIRE(bench.heard_ms[1].size() > 1);
  EXPECT_EQ(bench.heard_ms[1][1], before);
}

TEST(NoTextIsKeptFromWhoPauses) {
  VirtualBench bench({}, /*measured=*/true, kShort);
  bench.Add(Steady(1, Prompt(1, 8), 60));
  for (int i = 0; i < 4; ++i) (void)bench.Step();
  EXPECT_EQ(bench.heard_ms[1].size(), 1U);
  bench.loop->SetPaused(1, true);
  EXPECT(!bench.Step());
  EXPECT_EQ(bench.heard_ms[1].size(), 2U);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
