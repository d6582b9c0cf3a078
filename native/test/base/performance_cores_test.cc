// Core counts of simulated processors.
#include "engine/base/performance_cores.h"

#include <filesystem>
#include <fstream>
#include <numeric>

#include "folder.h"
#include "test.h"

namespace svc {
namespace {

// `threaded` cores with two logical processors each, then `efficient` cores with one each.
Processors Hybrid(int threaded, int efficient) {
  const int first_efficient = 2 * threaded;
  Processors processors;
  processors.allowed.resize(static_cast<std::size_t>(first_efficient + efficient));
  std::iota(processors.allowed.begin(), processors.allowed.end(), 0);
  processors.core_of = [first_efficient](int processor) {
    if (processor >= first_efficient) return std::to_string(processor);
    const int first = processor / 2 * 2;
    return std::to_string(first) + "-" + std::to_string(first + 1);
  };
  processors.is_efficient = [first_efficient](int processor) {
    return processor >= first_efficient;
  };
  return processors;
}

TEST(OfAHybridProcessorOnlyPerformanceCoresCount) {
  EXPECT_EQ(CountPerformanceCores(Hybrid(8, 16)), 8);  // Core i9-13900K
  EXPECT_EQ(CountPerformanceCores(Hybrid(2, 8)), 2);   // Core i5-1235U
}

TEST(OfOthersEveryCoreCountsOnce) {
  EXPECT_EQ(CountPerformanceCores(Hybrid(4, 0)), 4);
  EXPECT_EQ(CountPerformanceCores(Hybrid(0, 4)), 4);  // efficiency cores alone: Atom, N100
}

TEST(WhatAMaskLeavesCounts) {
  Processors processors = Hybrid(8, 16);
  processors.allowed = {0, 2, 3, 20};
  EXPECT_EQ(CountPerformanceCores(processors), 2);
  processors.allowed = {17, 18, 19};
  EXPECT_EQ(CountPerformanceCores(processors), 3);
  processors.allowed = {};
  EXPECT_EQ(CountPerformanceCores(processors), 0);
}

TEST(WithoutATopologyEveryProcessorIsACore) {
  Processors processors = Hybrid(2, 3);
  processors.core_of = [](int) { return std::string(); };
  EXPECT_EQ(CountPerformanceCores(processors), 4);
}

TEST(SlowProcessorsHaveLessThanMostOfTheLargestCapacity) {
  const test::Folder folder;
  const std::string root = folder.path().string();
  const std::vector<int> all = {0, 1, 2, 3, 4};
  EXPECT(SlowProcessors(all, root).empty());
  const std::vector<int> capacities = {530, 717, 716, 1024};  // the last processor has no file
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    const std::filesystem::path processor = folder.path() / ("cpu" + std::to_string(i));
    std::filesystem::create_directory(processor);
    std::ofstream(processor / "cpu_capacity") << capacities[i] << "\n";
  }
  EXPECT(SlowProcessors(all, root) == std::set<int>({0, 2}));
  // Without the fastest one.
  EXPECT(SlowProcessors({0, 1, 2}, root) == std::set<int>({}));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
