#include "engine/base/work_limit.h"

#include "engine/base/private_bytes.h"
#include "engine/base/thread_clock.h"

namespace svc {
namespace {

// Most bytes allocated between two measurements of the process, which take 20 µs each.
constexpr double kMeasureEveryBytes = 4U << 20U;
// Most bytes allocated where the process cannot be measured. Most of them are freed meanwhile.
constexpr double kMaxUnmeasuredBytes = 16.0 * WorkLimit::kMaxGrowthBytes;

thread_local WorkLimit* current = nullptr;

}  // namespace

WorkLimit::WorkLimit(double max_cpu_seconds)
    : ends_at_(ThreadCpuSeconds() + max_cpu_seconds),
      next_measure_at_(kMeasureEveryBytes),
      is_inner_(current != nullptr) {
  if (!is_inner_) current = this;
}

WorkLimit::~WorkLimit() {
  if (!is_inner_) current = nullptr;
}

bool WorkLimit::IsInForce() { return current != nullptr; }

bool WorkLimit::IsExceeded() {
  if (current == nullptr) return false;
  const char here = 0;
  const auto top = reinterpret_cast<std::uintptr_t>(current);
  const auto bottom = reinterpret_cast<std::uintptr_t>(&here);
  const std::uintptr_t depth = top > bottom ? top - bottom : bottom - top;
  current->is_exceeded_ =
      current->is_exceeded_ || depth > kMaxStackBytes || current->IsTimeUsedUp();
  return current->is_exceeded_;
}

// Measuring CPU time is a system call, which took a sixth of the time of rendering a chat. No more
// CPU time is used than time passes, so it is measured only when that much may have been used.
bool WorkLimit::IsTimeUsedUp() {
  const Clock::time_point now = Clock::now();
  if (now < cannot_end_before_) return false;
  const std::chrono::duration<double> left(ends_at_ - ThreadCpuSeconds());
  cannot_end_before_ = now + std::chrono::duration_cast<Clock::duration>(left);
  return left.count() < 0;
}

bool WorkLimit::IsOutOfMemory() { return current != nullptr && current->is_out_of_memory_; }

void WorkLimit::RunOutOfMemory() {
  current->is_exceeded_ = true;
  current->is_out_of_memory_ = true;
}

bool WorkLimit::MayAllocate(double bytes) {
  if (current == nullptr) return true;
  current->allocated_bytes_ += bytes;
  if (bytes > kMaxAllocationBytes || current->HasGrown()) RunOutOfMemory();
  return !IsExceeded();
}

bool WorkLimit::MayOutput(double bytes) {
  if (current == nullptr) return true;
  current->output_bytes_ += bytes;
  if (current->output_bytes_ > kMaxGrowthBytes) RunOutOfMemory();
  return MayAllocate(bytes);
}

bool WorkLimit::MayMove(double bytes) {
  if (current == nullptr) return true;
  if (bytes > kMaxMovedBytes) current->is_exceeded_ = true;
  return !IsExceeded();
}

bool WorkLimit::HasGrown() {
  if (allocated_bytes_ < next_measure_at_) return false;
  next_measure_at_ = allocated_bytes_ + kMeasureEveryBytes;
  const std::optional<std::uint64_t> now = PrivateBytes();
  if (!is_measured_) start_bytes_ = now;
  is_measured_ = true;
  if (!now || !start_bytes_) return allocated_bytes_ > kMaxUnmeasuredBytes;
  return allocated_bytes_ > kMaxGrowthBytes && *now > *start_bytes_ + kMaxGrowthBytes;
}

}  // namespace svc
