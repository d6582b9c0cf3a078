// Time of attention with ggml's kernel and with ours, for kernels that no benchmark has measured:
// the processor that runs them decides.
#pragma once

#include <functional>
#include <vector>

namespace svc {

// Seconds of one operation of some shape.
struct KernelTime {
  double theirs;
  double ours;
};

// Times operations on one thread of the CPU backend, with each kernel in turns so that a change of
// the clock rate affects both, and keeps the least time of each: one row and a prompt, with heads
// of 64 and of 128 elements. `use_ours(is_ours)` registers ours or takes them out; ours are left
// registered. Takes up to a tenth of a second, or longer if running each once does. Empty: the
// backend failed.
std::vector<KernelTime> TimeAttention(const std::function<void(bool is_ours)>& use_ours);

// True if ours took longer on average, or much longer for one shape, or if nothing was timed.
bool IsLoss(const std::vector<KernelTime>& times);

}  // namespace svc
