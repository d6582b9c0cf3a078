// Limits the cost of preparing one request: templating, tokenizing, compiling its grammar.
//
// This work runs on a worker thread and cannot be cancelled from outside, so its loops poll
// IsExceeded(). The limit is CPU time of the thread: a busy machine does not make a request fail.
//
// Work on untrusted programs (chat templates) also asks before it allocates and before it starts a
// long operation. The memory of a single thread cannot be measured. So the limit is exceeded when
// the process has grown by kMaxGrowthBytes and this thread has allocated as much meanwhile.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace svc {

// The limit in force on this thread, from construction to destruction. Limits do not nest: an inner
// one has no effect.
class WorkLimit {
 public:
  static constexpr double kMaxCpuSeconds = 10;
  // Stack below the frame that holds the limit. Worker threads have 8 MiB, on some systems 4.
  static constexpr std::size_t kMaxStackBytes = 2U << 20U;
  // Growth of this process, and output of all steps together.
  static constexpr std::uint64_t kMaxGrowthBytes = 256U << 20U;
  // A single allocation.
  static constexpr std::uint64_t kMaxAllocationBytes = 64U << 20U;
  // Bytes that a single operation may read, compare or move. They take at most half a minute.
  static constexpr double kMaxMovedBytes = 256e9;

  explicit WorkLimit(double max_cpu_seconds = kMaxCpuSeconds);
  ~WorkLimit();
  WorkLimit(const WorkLimit&) = delete;
  WorkLimit& operator=(const WorkLimit&) = delete;

  // True if a limit is in force on this thread.
  static bool IsInForce();

  // True if this thread has used up its time, stack or memory; false where no limit is in force.
  // Stays true until the limit is destroyed.
  static bool IsExceeded();
  // True if MayAllocate or MayOutput returned false: the work needs too much memory.
  static bool IsOutOfMemory();

  // Each returns !IsExceeded(), after it counted an allocation, a piece of output, or an operation.
  static bool MayAllocate(double bytes);
  static bool MayOutput(double bytes);
  static bool MayMove(double bytes);

 private:
  using Clock = std::chrono::steady_clock;

  bool IsTimeUsedUp();
  bool HasGrown();
  static void RunOutOfMemory();

  double ends_at_;                         // CPU seconds of this thread
  Clock::time_point cannot_end_before_{};  // when the CPU time is measured next
  double allocated_bytes_ = 0;
  double output_bytes_ = 0;
  double next_measure_at_;  // of allocated_bytes_
  std::optional<std::uint64_t> start_bytes_;
  bool is_measured_ = false;
  bool is_exceeded_ = false;
  bool is_out_of_memory_ = false;
  bool is_inner_ = false;
};

}  // namespace svc
