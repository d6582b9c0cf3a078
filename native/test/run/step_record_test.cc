#include "engine/run/step_record.h"

#include <cmath>

#include "test.h"

namespace svc {
namespace {

// Milliseconds of a step on an H100 with an 8B model: 8 ms + 24,000 rows per second.
double FastGpu(std::uint32_t rows) { return 8 + rows / 24.0; }
// Milliseconds of a step on a laptop's GPU: 40 ms + 500 rows per second.
double SlowGpu(std::uint32_t rows) { return 40 + rows * 2.0; }

TEST(NothingIsKnownBeforeTheFirstStep) {
  const StepRecord record;
  EXPECT(record.empty());
  EXPECT_EQ(record.RowsWithin(100, 512), 0U);
}

TEST(AFewStepsFindTheLargestThatIsInTime) {
  for (double (*cost)(std::uint32_t) : {FastGpu, SlowGpu}) {
    StepRecord record;
    for (int i = 0; i < 5; ++i) record.Add(4, cost(4));
    for (int i = 0; i < 6; ++i) {
      const std::uint32_t rows = record.RowsWithin(100, 4096);
      EXPECT(rows >= 4);
      EXPECT(cost(rows) < 110);  // costs are not underestimated
      record.Add(rows, cost(rows));
    }
    EXPECT(cost(record.RowsWithin(100, 4096)) > 90);
  }
}

TEST(AStepThatWasSlowForAnotherReasonIsNotBelieved) {
  StepRecord record;
  record.Add(512, 5000);  // slow because shaders are compiled
  for (int i = 0; i < 3; ++i) record.Add(8, FastGpu(8));
  for (int i = 0; i < 6; ++i) {
    const std::uint32_t rows = record.RowsWithin(100, 4096);
    record.Add(rows, FastGpu(rows));
  }
  EXPECT(record.RowsWithin(100, 4096) > 2000);
}

TEST(AGpuThatBecomesSlowerGetsSmallerSteps) {
  StepRecord record;
  for (int i = 0; i < 20; ++i) {
    record.Add(4, FastGpu(4));
    record.Add(record.RowsWithin(100, 4096), FastGpu(record.RowsWithin(100, 4096)));
  }
  // From here on three times as slow: a lower clock, or a long context.
  for (int i = 0; i < 60; ++i) {
    record.Add(4, 3 * FastGpu(4));
    const std::uint32_t rows = record.RowsWithin(100, 4096);
    record.Add(rows, 3 * FastGpu(rows));
  }
  EXPECT(3 * FastGpu(record.RowsWithin(100, 4096)) < 130);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
