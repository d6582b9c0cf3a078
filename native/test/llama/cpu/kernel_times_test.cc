// Both kernels are timed in turns, and the times decide who computes attention.
#include "engine/llama/cpu/kernel_times.h"

#include <cmath>

#include "models.h"
#include "test.h"

namespace svc {
namespace {

TEST(EachShapeIsTimedWithBothInTurns) {
  test::LoadModules();
  std::vector<bool> calls;
  const std::vector<KernelTime> times =
      TimeAttention([&](bool is_ours) { calls.push_back(is_ours); });
  EXPECT_EQ(times.size(), 4U);
  for (const KernelTime& time : times) {
    EXPECT(time.theirs > 0 && std::isfinite(time.theirs));
    EXPECT(time.ours > 0 && std::isfinite(time.ours));
  }
  EXPECT(calls.size() >= 2 * times.size());
  for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i], i % 2 == 1);
}

TEST(AShapeMayTakeALittleLongerIfOthersTakeLess) {
  EXPECT(!IsLoss({{.theirs = 1, .ours = 1}, {.theirs = 8, .ours = 8}}));
  EXPECT(!IsLoss({{.theirs = 2, .ours = 1}, {.theirs = 10, .ours = 12}}));
  EXPECT(IsLoss({{.theirs = 2, .ours = 1}, {.theirs = 10, .ours = 13}}));
  EXPECT(IsLoss({{.theirs = 10, .ours = 9}, {.theirs = 10, .ours = 12}}));
}

TEST(NoTimesAreALoss) { EXPECT(IsLoss({})); }

}  // namespace
}  // namespace svc

TEST_MAIN()
