// Generations with different sets of LoRA adapters: no step holds two sets, each text is that of
// the generation alone, and no generation waits long for the turn of its set.
#include "engine/run/adapter_turns.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "loop_parts.h"
#include "test.h"
#include "virtual_bench.h"

namespace svc {
namespace {

using namespace test;

AdapterSet SetOf(std::uint32_t index, float scale = 1) {
  return {{.index = index, .scale = scale}};
}

Want With(Want want, AdapterSet adapters) {
  want.adapters = std::move(adapters);
  // Its text depends on them.
  const std::uint32_t tokens = *want.max_tokens;
  while (Alone(want, 1U << 20U).output_tokens < tokens) ++want.seed;
  return want;
}

// Generations that decode, one of each set; turns of a clock that only steps advance.
struct Turns {
  explicit Turns(std::uint32_t sets) {
    for (std::uint32_t i = 0; i < sets; ++i) Add(SetOf(i));
  }
  Generation& Add(AdapterSet adapters, std::size_t prompt = 1, ShareId share = 0) {
    Want want{.id = static_cast<GenerationId>(generations.size()), .prompt = Prompt(1, prompt)};
    want.adapters = std::move(adapters);
    want.scope.owner = share;
    generations.push_back(std::make_unique<Generation>(SubmissionOf(want)));
    return *generations.back();
  }
  // Returns the set of the next step, which takes `ms`.
  AdapterSet Step(double ms) {
    std::vector<Generation*> candidates;
    for (const auto& generation : generations) candidates.push_back(generation.get());
    sets = turns.Keep(&candidates, steps, 100);
    EXPECT(!candidates.empty());
    if (candidates.empty()) return {};
    for (const Generation* kept : candidates) {
      EXPECT(kept->adapters == candidates.front()->adapters);
    }
    ++steps;
    time += std::chrono::microseconds(static_cast<std::int64_t>(ms * 1000));
    return candidates.front()->adapters;
  }

  Clock::time_point time;
  AdapterTurns turns{[this] { return time; }};
  Generations generations;
  std::uint64_t steps = 0;
  std::uint32_t sets = 0;
};

TEST(OneSetTakesNoTurns) {
  Turns turns(1);
  turns.Add(SetOf(0));
  for (int i = 0; i < 50; ++i) EXPECT(turns.Step(20) == SetOf(0));
  EXPECT_EQ(turns.sets, 1U);
}

TEST(ATurnLastsSeveralShortStepsAndAllTurnsTogetherNoLongerThanTheTarget) {
  for (const double step_ms : {1.0, 4.0, 30.0, 300.0}) {
    Turns turns(3);
    std::vector<double> served_ms(3, 0);
    std::vector<int> steps(3, 0);
    int changes = 0;
    double now_ms = 0;
    std::uint32_t last = 0;
    for (int i = 0; i < 600; ++i) {
      const std::uint32_t set = turns.Step(step_ms).front().index;
      EXPECT_EQ(turns.sets, 3U);
      if (set != last) ++changes;
      last = set;
      // Its token comes at the end of the step.
      now_ms += step_ms;
      EXPECT(now_ms - served_ms[set] <= std::max(100.0, 3 * step_ms) + step_ms);
      served_ms[set] = now_ms;
      ++steps[set];
    }
    EXPECT(*std::ranges::max_element(steps) - *std::ranges::min_element(steps) <=
           std::max(34.0 / step_ms, 1.0) + 1);
    // A third of 100 ms has 33 steps of 1 ms, 8 of 4 ms, and one of the others.
    EXPECT(changes <= 600 / std::max(1.0, std::floor(33 / step_ms)) + 1);
  }
}

TEST(ASetThatComesLaterIsBehindThoseThatWait) {
  Turns turns(2);
  EXPECT(turns.Step(60) == SetOf(0));
  // One after the other, each with a set of its own, as a client could send them.
  std::uint32_t since = 0;
  for (std::uint32_t i = 2; i < 30; ++i) {
    turns.Add(SetOf(i));
    ++since;
    if (turns.Step(60) == SetOf(1)) break;
  }
  EXPECT_EQ(since, 1U);
}

TEST(AClientWithManySetsTakesNoMoreTurnsThanOneWithOne) {
  Turns turns(0);
  turns.Add(SetOf(0), 1, /*share=*/1);
  for (std::uint32_t i = 1; i <= 20; ++i) turns.Add(SetOf(i), 1, /*share=*/2);
  std::vector<int> steps(21, 0);
  for (int i = 0; i < 400; ++i) ++steps[turns.Step(20).front().index];
  EXPECT(steps[0] >= 195);
  for (int i = 1; i <= 20; ++i) EXPECT(steps[i] >= 9 && steps[i] <= 11);
}

TEST(WhileNothingDecodesTheMostUrgentPromptGoesFirst) {
  Turns turns(0);
  turns.Add(SetOf(0), 500);
  turns.Add(SetOf(1), 10);
  for (int i = 0; i < 10; ++i) EXPECT(turns.Step(100) == SetOf(0));
  EXPECT_EQ(turns.sets, 1U);
  turns.Add(SetOf(2));
  bool waits = true;
  for (int i = 0; i < 3; ++i) waits = waits && turns.Step(100) != SetOf(2);
  EXPECT(!waits);
  EXPECT_EQ(turns.sets, 3U);
}

// ---- in the loop --------------------------------------------------------------------------------

TEST(GenerationsOfSeveralSetsSayWhatTheySayAlone) {
  VirtualBench bench({.cells = 4096}, /*measured=*/true, kShort);
  const std::vector<AdapterSet> sets = {
      {}, SetOf(0), SetOf(1), SetOf(0, 0.5F), {{.index = 0, .scale = 1}, {.index = 1, .scale = 1}}};
  for (GenerationId id = 0; id < 20; ++id) {
    // The same prompts with each set.
    bench.Add(With(Steady(id, Prompt(static_cast<Token>(id / 5), 40), 30), sets[id % 5]));
  }
  bench.RunToTheEnd();
  for (GenerationId id = 0; id < 20; ++id) bench.ExpectAsAlone(id);
  // Turns of several steps: a step of four rows takes 2 ms.
  EXPECT(bench.record.set_changes > 5);
  EXPECT(bench.record.set_changes < bench.record.steps / 3);
}

TEST(PrefixesAreReusedWithinASetOnly) {
  VirtualBench bench({.cells = 4096});
  const std::vector<AdapterSet> sets = {{}, SetOf(0), SetOf(1)};
  for (GenerationId id = 0; id < 6; ++id) {
    bench.Add(With(Steady(id, Prompt(3, 100), 4), sets[id % 3]));
    bench.RunToTheEnd();
    bench.ExpectAsAlone(id);
    EXPECT_EQ(bench.ends.at(id).usage.cached_tokens > 0, id >= 3);
  }
}

// Time between two texts of a generation that nine of ten do not exceed: some tokens have no text.
double UsualGap(const std::vector<double>& heard_ms) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < heard_ms.size(); ++i) gaps.push_back(heard_ms[i] - heard_ms[i - 1]);
  std::ranges::sort(gaps);
  return gaps.empty() ? 0 : gaps[gaps.size() * 9 / 10];
}

// A step of one row takes 28 ms, so each set has one step in turn.
TEST(ALongPromptOfOneSetHardlyDelaysThoseOfAnother) {
  for (const bool has_lane : {false, true}) {
    VirtualBench bench(has_lane ? WithLane() : FakeOptions{.cells = 8192, .max_rows = 512});
    bench.Add(With(Steady(1, Prompt(1, 8), 60), SetOf(0)));
    bench.Add(With(Steady(2, Prompt(2, 8), 60), {}));
    for (int i = 0; i < 10; ++i) (void)bench.Step();
    Want prompt = With(Steady(3, Prompt(3, 1500), 4), SetOf(1));
    prompt.reuse_prefix = !has_lane;  // such a prompt always takes the lane
    bench.Add(prompt);
    bench.RunToTheEnd();
    EXPECT_EQ(bench.record.lane_parts > 0, has_lane);
    for (const GenerationId id : {1U, 2U, 3U}) {
      bench.ExpectAsAlone(id);
      const double gap_ms = UsualGap(bench.heard_ms.at(id));
      std::printf("     %s lane, %u: %.0f ms\n", has_lane ? "with" : "without", id, gap_ms);
      // Beside their own steps, one of 16 rows or three quarters of the time for the lane.
      EXPECT(gap_ms < 250);
    }
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
