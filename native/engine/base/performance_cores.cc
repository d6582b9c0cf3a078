#include "engine/base/performance_cores.h"

#include <algorithm>
#include <fstream>
#include <map>

namespace svc {
namespace {

// Least capacity of a performance core, as a share of the largest.
constexpr double kPerformanceShare = 0.7;

}  // namespace

std::set<int> SlowProcessors(const std::vector<int>& allowed, const std::string& folder) {
  std::map<int, double> capacities;
  double largest = 0;
  for (const int processor : allowed) {
    std::ifstream file(folder + "/cpu" + std::to_string(processor) + "/cpu_capacity");
    double capacity = 0;
    if (!(file >> capacity)) continue;
    capacities[processor] = capacity;
    largest = std::max(largest, capacity);
  }
  std::set<int> slow;
  for (const auto& [processor, capacity] : capacities) {
    if (capacity < kPerformanceShare * largest) slow.insert(processor);
  }
  return slow;
}

int CountPerformanceCores(const Processors& processors) {
  std::set<std::string> performance;
  std::set<std::string> efficient;
  for (const int processor : processors.allowed) {
    std::string core = processors.core_of(processor);
    // Without a topology every processor counts as a core.
    if (core.empty()) core = "cpu" + std::to_string(processor);
    (processors.is_efficient(processor) ? efficient : performance).insert(std::move(core));
  }
  return static_cast<int>(performance.empty() ? efficient.size() : performance.size());
}

}  // namespace svc
