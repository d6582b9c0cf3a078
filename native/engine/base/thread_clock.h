// CPU time of the calling thread, for limits that must not be used up by other programs.
#pragma once

#include <chrono>
#include <ctime>

namespace svc {

// CPU seconds since an arbitrary start. Falls back to wall-clock time where the system does not
// count CPU time.
inline double ThreadCpuSeconds() {
#ifdef CLOCK_THREAD_CPUTIME_ID
  timespec now{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0) {
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }
#endif
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace svc
