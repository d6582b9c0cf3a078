// Number of cores worth a compute thread: physical cores and, on a hybrid processor, performance
// cores only. llama.cpp counts them the same way. Compute threads meet at a barrier after every
// operation, so one efficiency core slows all others down.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace svc {

// The processors that this process may run on. Numbers are the kernel's.
struct Processors {
  std::vector<int> allowed;
  // Returns a name for the physical core of the processor, equal for all its hardware threads.
  // Empty: unknown.
  std::function<std::string(int processor)> core_of;
  // True if the processor belongs to an efficiency core.
  std::function<bool(int processor)> is_efficient;
};

// Processors on efficiency cores among `allowed`, by the capacity that Linux gives those of arm64:
// 1024 for the fastest. None if it gives none. `folder`: /sys/devices/system/cpu.
std::set<int> SlowProcessors(const std::vector<int>& allowed, const std::string& folder);

// Number of allowed performance cores; if there are none, of all allowed cores. 0 if no processor
// is allowed.
int CountPerformanceCores(const Processors& processors);

}  // namespace svc
