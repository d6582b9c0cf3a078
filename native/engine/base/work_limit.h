// Limits the cost of preparing one request: templating, tokenizing, compiling its grammar.
//
// This work runs on a worker thread and cannot be cancelled from outside, so its loops poll
// IsExceeded(). The limit is CPU time of the thread: a busy machine does not make a request fail.
#pragma once

#include <cstddef>

namespace svc {

// The limit in force on this thread, from construction to destruction. Limits do not nest: an inner
// one has no effect.
class WorkLimit {
 public:
  static constexpr double kMaxCpuSeconds = 10;
  // Stack below the frame that holds the limit. Worker threads have 8 MiB, on some systems 4.
  static constexpr std::size_t kMaxStackBytes = 2U << 20U;

  explicit WorkLimit(double max_cpu_seconds = kMaxCpuSeconds);
  ~WorkLimit();
  WorkLimit(const WorkLimit&) = delete;
  WorkLimit& operator=(const WorkLimit&) = delete;

  // True if this thread has used up its time or stack; false where no limit is in force. Stays true
  // until the limit is destroyed.
  static bool IsExceeded();

 private:
  double ends_at_;  // CPU seconds of this thread
  bool is_exceeded_ = false;
  bool is_inner_ = false;
};

}  // namespace svc
