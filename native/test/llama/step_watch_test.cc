// When a running step is aborted.
#include "engine/llama/step_watch.h"

#include "test.h"

namespace svc {
namespace {

TEST(BetweenStepsNothingIsAborted) {
  StepWatch watch;
  watch.SetLimit(1e-9);
  EXPECT(!StepWatch::IsToBeAborted(&watch));
  const std::atomic<bool> abort = true;
  watch.Begin(abort);
  watch.End();
  EXPECT(!StepWatch::IsToBeAborted(&watch));
}

TEST(AnotherThreadAbortsAStep) {
  StepWatch watch;
  std::atomic<bool> abort = false;
  watch.Begin(abort);
  EXPECT(!StepWatch::IsToBeAborted(&watch));
  EXPECT(!watch.aborted());
  abort = true;
  // Not before it was asked: until then the step goes on.
  EXPECT(!watch.aborted());
  EXPECT(StepWatch::IsToBeAborted(&watch));
  EXPECT(watch.aborted());
  abort = false;
  watch.Begin(abort);
  EXPECT(!watch.aborted());
}

TEST(AStepThatTakesTooLongIsAborted) {
  StepWatch watch;
  const std::atomic<bool> never = false;
  watch.SetLimit(1e-9);
  watch.Begin(never);
  const Clock::time_point began = Clock::now();
  while (Clock::now() == began) {
  }
  EXPECT(StepWatch::IsToBeAborted(&watch));
  for (const double limit : {0.0, 1e9}) {
    watch.SetLimit(limit);
    watch.Begin(never);
    EXPECT(!StepWatch::IsToBeAborted(&watch));
  }
}

TEST(EachOperationCounts) {
  StepWatch watch;
  StepWatch other;
  const std::uint64_t before = StepWatch::operations();
  StepWatch::IsToBeAborted(&watch);
  StepWatch::IsToBeAborted(&other);
  EXPECT_EQ(StepWatch::operations(), before + 2);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
