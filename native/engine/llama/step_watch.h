// When the running step of a decoder or encoder is aborted: once another thread wants it, or when
// it takes too long. Counts operations, so that a long step can be told from one that hangs.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/model/cost_model.h"

namespace svc {

// Thread: the one that computes the step. ggml asks after each operation, on the first of its
// threads, which is the same one. Must live while the context computes.
class StepWatch {
 public:
  // Milliseconds of each following step. 0: it may take any time.
  void SetLimit(double ms) { limit_ms_ = ms; }

  // Around a step. `abort` may be set by another thread at any time.
  void Begin(const std::atomic<bool>& abort) {
    abort_ = &abort;
    aborted_ = false;
    began_at_ = Clock::now();
  }
  void End() { abort_ = nullptr; }

  // The last step was aborted.
  const std::atomic<bool>& aborted() const { return aborted_; }

  // Operations of all steps of this process so far; those of a GPU do not count. Any thread.
  static std::uint64_t operations() { return operations_.load(std::memory_order_relaxed); }

  // ggml's abort callback.
  static bool IsToBeAborted(void* watch) {
    operations_.fetch_add(1, std::memory_order_relaxed);
    auto* const self = static_cast<StepWatch*>(watch);
    return self->aborted_ = self->abort_ != nullptr && (*self->abort_ || self->IsLate());
  }

 private:
  bool IsLate() const {
    return limit_ms_ > 0 && Milliseconds(Clock::now() - began_at_) > limit_ms_;
  }

  static inline std::atomic<std::uint64_t> operations_ = 0;

  double limit_ms_ = 0;
  const std::atomic<bool>* abort_ = nullptr;  // of the running step
  std::atomic<bool> aborted_ = false;
  Clock::time_point began_at_;
};

}  // namespace svc
