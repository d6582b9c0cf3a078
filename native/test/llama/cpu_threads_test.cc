// The default number of threads: within the processors that the process may use, and what a small
// model is worth.
#include "engine/llama/cpu_threads.h"

#include <algorithm>
#include <cstdint>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

#include "test.h"

namespace svc {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

TEST(ThereIsAtLeastOneThreadAndAtMostOnePerProcessor) {
  const int threads = DefaultThreads();
  EXPECT(threads >= 1);
  const int processors = static_cast<int>(std::thread::hardware_concurrency());  // 0: unknown
  EXPECT(processors == 0 || threads <= processors);
  EXPECT_EQ(DefaultThreads(), threads);
}

TEST(EachSixteenMebibytesOfWeightsAreWorthAThread) {
  const auto at_most = [](int threads) { return std::min(DefaultThreads(), threads); };
  EXPECT_EQ(DefaultThreads(0), 1);
  EXPECT_EQ(DefaultThreads(5 * kMiB), 1);
  EXPECT_EQ(DefaultThreads(32 * kMiB - 1), 1);
  EXPECT_EQ(DefaultThreads(32 * kMiB), at_most(2));
  EXPECT_EQ(DefaultThreads(33 * kMiB), at_most(2));
  EXPECT_EQ(DefaultThreads(48 * kMiB), at_most(3));
  EXPECT_EQ(DefaultThreads(1000 * kMiB), at_most(62));
  EXPECT_EQ(DefaultThreads(std::uint64_t{1} << 40U), DefaultThreads());
  EXPECT_EQ(DefaultThreads(UINT64_MAX), DefaultThreads());
}

#ifdef __linux__
TEST(OnlyProcessorsInTheAffinityMaskCountAndTheMaskStays) {
  // On a thread of its own, which ends with its mask.
  std::thread([] {
    cpu_set_t all;
    CPU_ZERO(&all);
    REQUIRE(sched_getaffinity(0, sizeof(all), &all) == 0);
    const int before = DefaultThreads();
    cpu_set_t after;
    CPU_ZERO(&after);
    EXPECT(sched_getaffinity(0, sizeof(after), &after) == 0);
    EXPECT(CPU_EQUAL(&all, &after));
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &all)) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
      EXPECT_EQ(DefaultThreads(), 1);
      EXPECT_EQ(DefaultThreads(std::uint64_t{1} << 40U), 1);
      CPU_ZERO(&after);
      EXPECT(sched_getaffinity(0, sizeof(after), &after) == 0);
      EXPECT(CPU_EQUAL(&one, &after));
    }
    REQUIRE(sched_setaffinity(0, sizeof(all), &all) == 0);
    EXPECT_EQ(DefaultThreads(), before);
  }).join();
}
#endif

TEST(TimeOfTheProcessorIsThatOfAllThreads) {
  const auto work = [] {
    const double until = ProcessCpuMs() + 20;
    while (ProcessCpuMs() < until) {
    }
  };
  const double before = ProcessCpuMs();
  EXPECT(before > 0);
  work();
  const double between = ProcessCpuMs();
  EXPECT(between >= before + 20);
  std::thread(work).join();
  EXPECT(ProcessCpuMs() >= between + 20);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
