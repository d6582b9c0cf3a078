#include "engine/model/cost_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>

#include "fake_decoder.h"
#include "test.h"

namespace svc {
namespace {

using test::FakeDecoder;
using test::FakeRecord;

// Milliseconds of a step, as with quantized kernels: rows are computed in groups of four, and up to
// three remaining rows cost 9 ms each against 12 ms for a full group. Each output costs 5 ms.
double TrueCost(std::uint32_t rows, std::uint32_t outputs) {
  const double groups = std::floor(rows / 4.0);
  return 20 + 12 * groups + 9 * (rows % 4) + 5.0 * outputs;
}

// A fake model whose steps take `slower` * TrueCost on its own clock.
struct Machine {
  explicit Machine(double slower = 1)
      : Machine([slower](std::uint32_t, std::uint32_t) { return slower; }) {}
  // `slower`: a function of rows and outputs.
  explicit Machine(std::function<double(std::uint32_t, std::uint32_t)> slower)
      : decoder({.max_rows = 512,
                 .fault =
                     [this, slower](std::span<const Row> batch, const std::atomic<bool>&) {
                       const auto rows = static_cast<std::uint32_t>(batch.size());
                       std::uint32_t outputs = 0;
                       for (const Row& row : batch) outputs += row.wants_logits ? 1 : 0;
                       Pass(slower(rows, outputs) * TrueCost(rows, outputs));
                       return DecodeOutcome::kDone;
                     }},
                &record) {}
  void Pass(double ms) {
    time +=
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(ms));
  }
  CostModel Measure(double budget_ms) {
    return CostModel::Measure(
        decoder, [this] { return time; }, budget_ms);
  }
  Clock::time_point time;
  FakeRecord record;
  FakeDecoder decoder;
};

bool Near(double value, double expected, double part) {
  return std::abs(value - expected) <= part * expected;
}

TEST(AModelThatKnowsNothingPredictsNothing) {
  CostModel model;
  EXPECT(!model.measured());
  model.Observe(4, 4, 100);
  EXPECT_EQ(model.Predict(4, 4), 0.0);
  EXPECT_EQ(model.Padded(3), 3U);
}

TEST(MeasuringFindsTheCurveAndLeavesTheCacheEmpty) {
  Machine machine;
  const CostModel model = machine.Measure(100'000);
  EXPECT(model.measured());
  for (const std::uint32_t rows : {1U, 2U, 3U, 4U, 5U, 7U, 8U}) {
    EXPECT(Near(model.Predict(rows, rows), TrueCost(rows, rows), 0.02));
  }
  for (const std::uint32_t rows : {16U, 48U, 64U, 100U, 128U, 512U}) {
    EXPECT(Near(model.Predict(rows, 1), TrueCost(rows, 1), 0.15));
  }
  EXPECT_EQ(machine.record.cells.load(), 0U);
}

TEST(MeasuringEndsWithItsBudget) {
  for (const double budget_ms : {0.0, 50.0, 300.0, 1000.0}) {
    Machine machine;
    const CostModel model = machine.Measure(budget_ms);
    // The first step warms up; at least one more is measured.
    EXPECT(Milliseconds(machine.time.time_since_epoch()) <= budget_ms + 2 * TrueCost(1, 1));
    EXPECT(model.measured());
  }
}

TEST(ThreeRowsArePaddedWhereFourAreCheaper) {
  Machine machine;
  const CostModel model = machine.Measure(100'000);
  EXPECT_EQ(model.Padded(1), 1U);
  EXPECT_EQ(model.Padded(4), 4U);
  EXPECT_EQ(model.Padded(7), TrueCost(8, 8) < 0.9 * TrueCost(7, 7) ? 8U : 7U);
  EXPECT_EQ(model.Padded(8), 8U);
  EXPECT_EQ(model.Padded(3), TrueCost(4, 4) < 0.9 * TrueCost(3, 3) ? 4U : 3U);
  // Sizes that are not measured one by one are padded as their last group.
  EXPECT_EQ(model.Padded(23), 20 + model.Padded(3));
  EXPECT_EQ(model.Padded(24), 24U);
  EXPECT_EQ(model.Padded(25), 25U);
}

TEST(RowsWithinATargetCostNoMoreThanThat) {
  Machine machine;
  const CostModel model = machine.Measure(100'000);
  for (const double ms : {30.0, 100.0, 400.0}) {
    const std::uint32_t rows = model.RowsWithin(ms, 3, 512);
    EXPECT(rows == 0 || model.Predict(rows, std::min(rows, 3U)) <= ms);
    EXPECT(model.Predict(rows + 1, std::min(rows + 1, 3U)) > ms);
  }
  EXPECT_EQ(model.RowsWithin(1, 1, 512), 0U);
  EXPECT_EQ(model.RowsWithin(1e9, 1, 512), 512U);
}

TEST(WhatIsObservedCorrectsWhatWasMeasured) {
  Machine machine;
  CostModel model = machine.Measure(100'000);
  for (int i = 0; i < 40; ++i) model.Observe(20, 4, 3 * TrueCost(20, 4));
  EXPECT(Near(model.Predict(20, 4), 3 * TrueCost(20, 4), 0.05));
  // The model assumes that the machine is slower for unobserved sizes, too.
  EXPECT(model.Predict(64, 4) > 1.2 * TrueCost(64, 4));
  for (int i = 0; i < 200; ++i) model.Observe(20, 4, TrueCost(20, 4));
  EXPECT(Near(model.Predict(20, 4), TrueCost(20, 4), 0.05));
}

TEST(AGuessGivesWayToTheFirstStepThatTells) {
  Machine machine;
  CostModel model = machine.Measure(420);  // too short to measure five rows and more
  EXPECT(!Near(model.Predict(7, 7), TrueCost(7, 7), 0.05));
  EXPECT_EQ(model.Padded(7), 7U);
  model.Observe(7, 7, TrueCost(7, 7));
  EXPECT(Near(model.Predict(7, 7), TrueCost(7, 7), 0.01));
  EXPECT_EQ(model.Padded(7), 8U);
}

TEST(WhatWasMeasuredOnABusyMachineIsForgotten) {
  CostModel model = Machine(60).Measure(400);
  EXPECT(model.Predict(4, 4) > 10 * TrueCost(4, 4));
  for (int i = 0; i < 200; ++i) model.Observe(1, 1, TrueCost(1, 1));
  for (const std::uint32_t rows : {2U, 4U, 8U}) {
    EXPECT(model.Predict(rows, rows) <= 1.05 * rows * TrueCost(1, 1));
  }
}

// The cost of an output comes from two sizes. Where one of them was disturbed it is too high, and
// steps with many outputs must not take the difference out of the rows.
TEST(OutputsThatWereMeasuredTooDearDoNotMakeRowsCheap) {
  for (const double disturbed : {1.5, 2.0, 4.0}) {
    Machine machine([&](std::uint32_t rows, std::uint32_t outputs) {
      return rows == 8 && outputs == 8 ? disturbed : 1.0;
    });
    CostModel model = machine.Measure(100'000);
    for (const std::uint32_t rows : {8U, 7U, 6U, 8U}) {
      for (int i = 0; i < 500; ++i) model.Observe(rows, rows, TrueCost(rows, rows));
      EXPECT(Near(model.Predict(rows, rows), TrueCost(rows, rows), 0.05));
      for (const std::uint32_t prompt : {32U, 64U, 128U, 512U}) {
        EXPECT(model.Predict(prompt, 1) > 0.5 * TrueCost(prompt, 1));
        EXPECT(model.Predict(prompt, 1) < 1.6 * TrueCost(prompt, 1));
      }
    }
  }
}

TEST(OneStepThatWasInterruptedChangesLittle) {
  Machine machine;
  CostModel model = machine.Measure(100'000);
  model.Observe(16, 1, 100 * TrueCost(16, 1));
  EXPECT(model.Predict(16, 1) < 1.5 * TrueCost(16, 1));
}

// Whatever is observed, costs stay positive and finite.
TEST(NoObservationBreaksIt) {
  Machine machine;
  CostModel model = machine.Measure(300);
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto rows = 1 + static_cast<std::uint32_t>(random() % 700);
    model.Observe(rows, static_cast<std::uint32_t>(random() % (rows + 1)), random() % 5000);
    EXPECT(model.Predict(rows, 0) > 0 && std::isfinite(model.Predict(rows, rows)));
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
