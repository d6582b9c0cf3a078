// Limits of time, stack and memory: what uses them up, and how long and where they are in force.
#include "engine/base/work_limit.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "engine/base/private_bytes.h"
#include "engine/base/thread_clock.h"
#include "test.h"

namespace svc {
namespace {

constexpr double kSpent = -1;  // CPU seconds
constexpr double kAllocation = WorkLimit::kMaxAllocationBytes;
constexpr int kAllocations = WorkLimit::kMaxGrowthBytes / WorkLimit::kMaxAllocationBytes;
constexpr std::size_t kFrameBytes = std::size_t{128} << 10U;

bool IsExceededBelow(std::size_t frames) {
  volatile char frame[kFrameBytes];
  frame[0] = 0;
  const bool exceeded = frames == 0 ? WorkLimit::IsExceeded() : IsExceededBelow(frames - 1);
  return exceeded || frame[0] != 0;
}

TEST(WithoutALimitEverythingIsAllowed) {
  EXPECT(!WorkLimit::IsInForce());
  EXPECT(!WorkLimit::IsExceeded());
  EXPECT(WorkLimit::MayAllocate(1e18));
  EXPECT(WorkLimit::MayOutput(1e18));
  EXPECT(WorkLimit::MayMove(1e18));
  EXPECT(!IsExceededBelow(WorkLimit::kMaxStackBytes / kFrameBytes + 1));
  EXPECT(!WorkLimit::IsOutOfMemory());
}

TEST(ALimitIsInForceWhileItExistsAndOnItsThread) {
  {
    const WorkLimit limit(kSpent);
    EXPECT(WorkLimit::IsInForce());
    EXPECT(WorkLimit::IsExceeded());
    std::thread([] {
      EXPECT(!WorkLimit::IsInForce());
      EXPECT(!WorkLimit::IsExceeded());
    }).join();
  }
  EXPECT(!WorkLimit::IsInForce());
  EXPECT(!WorkLimit::IsExceeded());
}

TEST(AnInnerLimitHasNoEffect) {
  {
    const WorkLimit outer;
    { const WorkLimit inner(kSpent); }
    EXPECT(WorkLimit::IsInForce());
    const WorkLimit inner(kSpent);
    EXPECT(!WorkLimit::IsExceeded());
  }
  const WorkLimit outer(kSpent);
  const WorkLimit inner;
  EXPECT(WorkLimit::IsExceeded());
}

TEST(TimeIsThatOfTheThread) {
  const WorkLimit limit(0.001);
  const double until = ThreadCpuSeconds() + 0.002;
  while (ThreadCpuSeconds() < until) continue;
  EXPECT(WorkLimit::IsExceeded());
  EXPECT(!WorkLimit::MayAllocate(0));
  EXPECT(!WorkLimit::MayOutput(0));
  EXPECT(!WorkLimit::MayMove(0));
  EXPECT(!WorkLimit::IsOutOfMemory());
}

// The CPU time is measured again only when it may be used up.
TEST(TimeThatPassesIsNotUsedUp) {
  constexpr double kSeconds = 0.05;
  const WorkLimit limit(kSeconds);
  EXPECT(!WorkLimit::IsExceeded());
  std::this_thread::sleep_for(std::chrono::duration<double>(1.2 * kSeconds));
  EXPECT(!WorkLimit::IsExceeded());
  const double until = ThreadCpuSeconds() + 1.2 * kSeconds;
  while (ThreadCpuSeconds() < until) continue;
  EXPECT(WorkLimit::IsExceeded());
}

TEST(TheStackIsLimited) {
  const WorkLimit limit;
  EXPECT(!IsExceededBelow(WorkLimit::kMaxStackBytes / kFrameBytes / 2));
  EXPECT(IsExceededBelow(WorkLimit::kMaxStackBytes / kFrameBytes + 1));
  EXPECT(WorkLimit::IsExceeded());  // also after it has been freed
  EXPECT(!WorkLimit::IsOutOfMemory());
}

TEST(ASingleAllocationIsLimited) {
  {
    const WorkLimit limit;
    EXPECT(WorkLimit::MayAllocate(kAllocation));
    EXPECT(!WorkLimit::IsOutOfMemory());
    EXPECT(!WorkLimit::MayAllocate(kAllocation + 1));
    EXPECT(WorkLimit::IsOutOfMemory());
    EXPECT(!WorkLimit::MayAllocate(1));
    EXPECT(WorkLimit::IsExceeded());
  }
  const WorkLimit next;
  EXPECT(!WorkLimit::IsOutOfMemory());
  EXPECT(WorkLimit::MayAllocate(1));
}

TEST(ASingleOperationIsLimited) {
  const WorkLimit limit;
  for (int i = 0; i < 3; ++i) EXPECT(WorkLimit::MayMove(WorkLimit::kMaxMovedBytes));
  EXPECT(!WorkLimit::MayMove(WorkLimit::kMaxMovedBytes + 1));
  EXPECT(WorkLimit::IsExceeded());
  EXPECT(!WorkLimit::MayMove(1));
  EXPECT(!WorkLimit::IsOutOfMemory());
}

TEST(TheOutputOfAllStepsIsLimited) {
  const WorkLimit limit;
  for (int i = 0; i < kAllocations; ++i) EXPECT(WorkLimit::MayOutput(kAllocation));
  EXPECT(!WorkLimit::IsOutOfMemory());
  EXPECT(!WorkLimit::MayOutput(1));
  EXPECT(WorkLimit::IsOutOfMemory());
}

TEST(WhatIsFreedAgainIsAllowed) {
  const WorkLimit limit;
  for (int i = 0; i < 2 * kAllocations; ++i) EXPECT(WorkLimit::MayAllocate(kAllocation));
  EXPECT(!WorkLimit::IsOutOfMemory());
}

TEST(WhatIsKeptIsLimited) {
  // Sanitizers need a multiple of the memory.
  if (test::kSanitized || !PrivateBytes()) return;
  const WorkLimit limit;
  EXPECT(WorkLimit::MayAllocate(kAllocation));
  const std::vector<char> kept(WorkLimit::kMaxGrowthBytes + (std::size_t{16} << 20U), 1);
  // Another thread may have allocated it.
  for (int i = 1; i < kAllocations; ++i) EXPECT(WorkLimit::MayAllocate(kAllocation));
  EXPECT(!WorkLimit::MayAllocate(kAllocation));
  EXPECT(WorkLimit::IsOutOfMemory());
  EXPECT_EQ(std::count(kept.begin(), kept.end(), 1), static_cast<std::ptrdiff_t>(kept.size()));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
