// What the loop knows of the cost of steps.
#include "engine/run/step_costs.h"

#include <cmath>

#include "loop_parts.h"
#include "test.h"
#include "virtual_bench.h"

namespace svc {
namespace {

using namespace test;

double StepMs(std::size_t rows) { return 20 + 5.0 * static_cast<double>(rows); }

StepCosts Costs(const CostModel& model) { return {model, {}, Clock::now, {}, 1}; }

TEST(APromptCostsTimeWhereThatIsKnownAndElseItsRows) {
  const StepCosts unknown = Costs({});
  EXPECT(!unknown.measured());
  EXPECT_EQ(unknown.OfPrompt(300), 300.0);
  const StepCosts known = Costs(CostOf(StepMs));
  EXPECT(known.measured());
  // In steps of the least size beside decoding: 100 ms for each 16 rows.
  EXPECT(std::abs(known.OfPrompt(160) - 1000) < 1);
}

// Only a sample proves that the device has computed: steps before it count with the one that has
// it.
TEST(StepsAreRecordedWithTheNextSample) {
  StepCosts costs = Costs({});
  costs.Record(100, 1, /*sampled=*/false);
  EXPECT(costs.record().empty());
  costs.Record(100, 49, /*sampled=*/true);
  EXPECT_EQ(costs.record().RowsWithin(50, 1000), 200U);
  EXPECT_EQ(costs.record().RowsWithin(49, 1000), 0U);
  // Another loop on the same device goes on with it.
  StepCosts next = Costs({});
  next.SetRecord(costs.record());
  EXPECT_EQ(next.record().RowsWithin(50, 1000), 200U);

  StepCosts measured = Costs(CostOf(StepMs));
  measured.Record(100, 49, /*sampled=*/true);
  EXPECT(measured.record().empty());
}

TEST(WhatStepsTakeCorrectsTheModel) {
  StepCosts costs = Costs(CostOf(StepMs));
  const double before = costs.model().Predict(8, 8);
  for (int i = 0; i < 50; ++i) {
    // Without a clock of the processor the number of threads never changes.
    EXPECT(!costs.Learn({.rows = 8, .predicted_ms = before, .spent_ms = 3 * before}, 8, 0));
  }
  EXPECT(costs.model().Predict(8, 8) > 2 * before);
  EXPECT_EQ(costs.threads(), 1);
  EXPECT_EQ(costs.CpuMs(), 0.0);
}
// As on a GPU: what steps may hold is learned from those that were computed.
TEST(WithoutAMeasurementPromptsGetAsManyRowsAsAreInTime) {
  const auto steps_of_a_prompt = [](double part, double* longest_ms) {
    VirtualBench bench({.cells = 8192, .max_rows = 512}, /*measured=*/false, part);
    for (GenerationId id = 0; id < 3; ++id) {
      bench.Add(Steady(id, Prompt(static_cast<Token>(id), 8), 200));
    }
    for (int i = 0; i < 5; ++i) (void)bench.Step();
    bench.longest_step_ms = 0;
    bench.Add(Steady(9, Prompt(9, 1800), 4));
    const std::uint32_t before = bench.record.steps;
    while (!bench.heard_ms.contains(9) && bench.Step()) {
    }
    *longest_ms = bench.longest_step_ms;
    return bench.record.steps - before;
  };
  double longest_ms = 0;
  EXPECT(steps_of_a_prompt(0.02, &longest_ms) < 9);  // 512 rows in 52 ms
  EXPECT(longest_ms < 100);
  const std::uint32_t steps = steps_of_a_prompt(0.4, &longest_ms);  // 46 rows in 100 ms
  EXPECT(steps > 30 && steps < 60);
  EXPECT(longest_ms < 110);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
