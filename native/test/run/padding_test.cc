// Padding rows: how many, where, and never in a prompt that must be rounded as in a plain loop.
#include "engine/run/padding.h"

#include <algorithm>
#include <chrono>

#include "loop_parts.h"
#include "test.h"
#include "virtual_bench.h"

namespace svc {
namespace {

using namespace test;

// A row count of the form 4n + 3 costs more than 4n + 4.
double StepMs(std::size_t rows) { return rows % 4 == 3 ? 90 : 50; }

// Returns a step with a row of each generation.
Step StepOf(const Generations& generations, std::uint32_t rows_each = 1) {
  Step step;
  for (const auto& generation : generations) {
    for (std::uint32_t i = 0; i < rows_each; ++i) {
      step.rows.push_back({.token = 5,
                           .position = static_cast<std::int32_t>(i),
                           .sequence = generation->sequence,
                           .wants_logits = true});
    }
    step.parts.push_back(
        {.generation = generation.get(), .rows = rows_each, .last_row = step.rows.size() - 1});
  }
  return step;
}

TEST(RowsArePaddedWhereThatIsCheaperAndThereIsRoom) {
  const CostModel cost = CostOf(StepMs);
  const auto padded = [&](FakeOptions options, std::uint32_t rows, bool all_wanted = true) {
    LoopParts parts(std::move(options), cost);
    return Padding(&parts.decoder, &parts.costs, &parts.admission).Padded(rows, all_wanted);
  };
  EXPECT_EQ(padded({}, 3), 4U);
  EXPECT_EQ(padded({}, 4), 4U);
  EXPECT_EQ(padded({}, 1), 1U);
  EXPECT_EQ(padded({.cells = 3}, 3), 3U);
  EXPECT_EQ(padded({.max_rows = 3}, 3), 3U);
  EXPECT_EQ(padded({.max_sequences = 8, .sequence_ids = 8}, 3), 3U);  // no ids for padding
  EXPECT_EQ(padded({.can_share = false}, 3), 3U);
  // Padding that wants logits has to fit among the rows that may want them.
  const std::uint32_t most = std::max(FakeOptions{}.max_sequences + kPaddingIds, kLeastOutputs);
  const std::uint32_t rows = most - most % 4 + 3;
  EXPECT_EQ(padded({}, rows, /*all_wanted=*/false), rows + 1);
  EXPECT_EQ(padded({}, rows, /*all_wanted=*/true), rows);
}

TEST(PaddingTakesCellsForOneStepOnly) {
  LoopParts parts({}, CostOf(StepMs));
  for (const GenerationId id : {1U, 2U, 3U}) parts.Add({.id = id, .prompt = {5}});
  parts.admission.Admit();
  const Padding padding(&parts.decoder, &parts.costs, &parts.admission);
  Step step = StepOf(parts.generations);
  padding.Add(&step, /*all_wanted=*/true);
  EXPECT_EQ(step.size(), 4U);
  EXPECT_EQ(step.padding, 1U);
  EXPECT_EQ(step.outputs(), 4U);
  EXPECT(step.rows.back().sequence >= EndOfCacheIds(parts.decoder));
  EXPECT(parts.decoder.Decode(step.rows, false) == DecodeOutcome::kDone);
  EXPECT_EQ(parts.record.cells.load(), 4U);
  padding.Remove(step);
  EXPECT_EQ(parts.record.cells.load(), 3U);
}

TEST(APlainPromptIsNotPadded) {
  LoopParts parts({}, CostOf(StepMs));
  parts.Add({.id = 1, .prompt = {5, 5, 5}, .reuse_prefix = false});
  parts.admission.Admit();
  const Padding padding(&parts.decoder, &parts.costs, &parts.admission);
  Step prompt = StepOf(parts.generations, 3);
  padding.Add(&prompt, /*all_wanted=*/false);
  EXPECT_EQ(prompt.padding, 0U);
}
// Where three rows cost more than four.
TEST(DecodingIsPaddedToCheapRowCounts) {
  FakeRecord record;
  Clock::time_point time;
  std::map<std::size_t, int> sizes;
  auto decoder = std::make_unique<FakeDecoder>(
      FakeOptions{.fault =
                      [&](std::span<const Row> rows, const std::atomic<bool>&) {
                        ++sizes[rows.size()];
                        time += std::chrono::milliseconds(rows.size() % 4 == 3 ? 90 : 50);
                        return DecodeOutcome::kDone;
                      }},
      &record);
  const Now now = [&] { return time; };
  CostModel cost = CostModel::Measure(*decoder, now, 1e6);
  Loop loop(std::move(decoder), {.cost = cost, .now = now});
  sizes.clear();
  for (const GenerationId id : {1U, 2U, 3U}) {
    loop.Add(SubmissionOf(Steady(id, Prompt(static_cast<Token>(id), 1), 30)));
  }
  const std::atomic<bool> never = false;
  while (loop.Plan()) {
    loop.Compute(never);
    for (const GenerationOutput& output : loop.TakeOutputs()) EXPECT(output.status.ok());
  }
  EXPECT_EQ(sizes[3], 0);
  EXPECT(sizes[4] >= 29);
  EXPECT_EQ(record.cells.load(), loop.stats().kv_cells_cached);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
