#include "engine/base/work_limit.h"

#include <cstdint>

#include "engine/base/thread_clock.h"

namespace svc {
namespace {

thread_local WorkLimit* current = nullptr;

}  // namespace

WorkLimit::WorkLimit(double max_cpu_seconds)
    : ends_at_(ThreadCpuSeconds() + max_cpu_seconds), is_inner_(current != nullptr) {
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
      current->is_exceeded_ || depth > kMaxStackBytes || ThreadCpuSeconds() > current->ends_at_;
  return current->is_exceeded_;
}

}  // namespace svc
