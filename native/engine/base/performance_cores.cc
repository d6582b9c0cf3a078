#include "engine/base/performance_cores.h"

#include <set>

namespace svc {

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
