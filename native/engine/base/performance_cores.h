// Which processors are worth a compute thread: one of each physical core, and of a hybrid processor
// its performance cores only, as llama.cpp counts them. Compute threads wait for one another after
// every operation, so an efficiency core makes all others wait.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace svc {

// What is known of the processors that the process may run on. Numbers as the kernel has them.
struct Processors {
  std::vector<int> allowed;
  // Names those that share a core, the same for each of them. Empty: not known.
  std::function<std::string(int processor)> core_of;
  // True if it belongs to an efficiency core.
  std::function<bool(int processor)> is_efficient;
};

// Cores to compute on: performance cores, or all where there are no others. 0 if none is allowed.
int CountPerformanceCores(const Processors& processors);

}  // namespace svc
