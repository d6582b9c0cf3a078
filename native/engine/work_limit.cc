#include "engine/work_limit.h"

#include <chrono>
#include <cstdint>

namespace svc {
namespace {

thread_local WorkLimit* current = nullptr;

// CPU seconds of this thread; where the system does not count them, seconds.
double ThreadSeconds() {
#ifdef CLOCK_THREAD_CPUTIME_ID
  timespec now{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0) {
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }
#endif
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

WorkLimit::WorkLimit(double max_cpu_seconds)
    : ends_at_(ThreadSeconds() + max_cpu_seconds), is_inner_(current != nullptr) {
  if (!is_inner_) current = this;
}

WorkLimit::~WorkLimit() {
  if (!is_inner_) current = nullptr;
}

bool WorkLimit::IsExceeded() {
  if (current == nullptr) return false;
  const char here = 0;
  const auto top = reinterpret_cast<std::uintptr_t>(current);
  const auto bottom = reinterpret_cast<std::uintptr_t>(&here);
  const std::uintptr_t depth = top > bottom ? top - bottom : bottom - top;
  current->is_exceeded_ =
      current->is_exceeded_ || depth > kMaxStackBytes || ThreadSeconds() > current->ends_at_;
  return current->is_exceeded_;
}

}  // namespace svc
