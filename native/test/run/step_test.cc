// Counts of a step.
#include "engine/run/step.h"

#include "test.h"

namespace svc {
namespace {

TEST(AStepCountsItsRowsOutputsAndDrafts) {
  Step step;
  EXPECT_EQ(step.size(), 0U);
  EXPECT(!step.HasDrafts());
  step.rows = {{.wants_logits = false}, {.wants_logits = true}, {.wants_logits = true}};
  step.parts = {{.generation = nullptr, .rows = 2, .last_row = 1},
                {.generation = nullptr, .rows = 1, .last_row = 2}};
  step.padding = 1;
  step.planned = {1, 2};
  EXPECT_EQ(step.size(), 3U);
  EXPECT_EQ(step.outputs(), 2U);
  EXPECT(!step.HasDrafts());
  step.parts[1].drafts = 1;
  EXPECT(step.HasDrafts());
  step.Clear();
  EXPECT(step.rows.empty() && step.parts.empty() && step.planned.empty());
  EXPECT_EQ(step.padding, 0U);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
