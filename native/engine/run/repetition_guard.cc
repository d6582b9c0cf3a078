#include "engine/run/repetition_guard.h"

#include <algorithm>

namespace svc {

bool RepetitionGuard::Add(Token token) {
  if (mode_ == RepetitionMode::kOff) return false;
  const std::uint32_t periods = std::min(size_, kMaxPeriod);
  for (std::uint32_t period = 1; period <= periods; ++period) {
    std::uint32_t& equal = equal_[period - 1];
    equal = last_[(size_ - period) % kMaxPeriod] == token ? equal + 1 : 0;
    // The first time of the cycle has nothing before it to be equal to.
    const std::uint32_t tokens = equal + period;
    if (equal == 0 || tokens < std::max(kMinTokens, kMinTimes * period)) continue;
    if (found_ && found_->period_tokens != period) continue;
    const std::uint32_t before = found_ ? found_->repeated_tokens : 0;
    found_ = {.period_tokens = period,
              .repeated_tokens = std::max(before, tokens),
              .stopped = mode_ == RepetitionMode::kStop};
    break;  // a multiple of the period repeats, too
  }
  last_[size_ % kMaxPeriod] = token;
  ++size_;
  return found_ && found_->stopped;
}

}  // namespace svc
