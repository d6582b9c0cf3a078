#include "engine/run/thread_governor.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/model/step_constants.h"

namespace svc {
namespace {

// Window of observation: long enough that a single interruption does not count as contention.
constexpr int kWatchSteps = 4;
constexpr double kWatchMs = 100;
constexpr double kWatchLongMs = 500;
// Contention: the threads got less than this part of the processor time that they could have used.
constexpr double kContendedShare = 0.8;

// The first step of a trial is left out: threads wake up, caches fill.
constexpr int kTrialSteps = 4;
// A trial succeeds below this relative cost, a margin larger than the noise of steps; a step above
// the second ends it at once.
constexpr double kTrialGain = 0.95;
constexpr double kTrialLoss = 1.5;

// Steps this many times dearer than predicted are hardly running: a trial starts without a pause.
constexpr double kStall = 8;
// A step has stalled when it takes this many times as long as predicted, or kStall times during the
// pause behind a trial that failed. Before the second it never has: that soon it ends anyway.
constexpr double kLate = 3;
constexpr double kLeastLimitMs = kDecodingTargetMs;

constexpr double kLongestPauseMs = 16'000;
// Length of a pause, relative to the trial before it: bounds the cost of all trials.
constexpr double kPausePerTrial = 20;

}  // namespace

double ThreadGovernor::StepDone(double now_ms, double spent_ms, double predicted_ms,
                                double cpu_ms) {
  if (most_ == 1 || predicted_ms <= 0) return 1;
  ++sums_.steps;
  if (!trying() || sums_.steps > 1) {
    sums_.spent_ms += spent_ms;
    sums_.predicted_ms += predicted_ms;
    sums_.cpu_ms += cpu_ms;
  }
  if (trying()) {
    trial_ms_ += spent_ms;
    const bool bad = spent_ms > kTrialLoss * before_ * predicted_ms;
    if (!bad && sums_.steps < kTrialSteps) return 1;
    return EndTrial(now_ms, bad);
  }
  const bool watched_some = sums_.steps >= kWatchSteps && sums_.spent_ms >= kWatchMs;
  if (!watched_some && sums_.spent_ms < kWatchLongMs) return 1;
  const Sums watched = std::exchange(sums_, {});
  const bool stalled = watched.spent_ms > kStall * watched.predicted_ms;
  if (now_ms < next_trial_ms_ && !stalled) return 1;
  before_ = watched.spent_ms / watched.predicted_ms;
  const bool contended = watched.cpu_ms < kContendedShare * threads_ * watched.spent_ms;
  if (contended && threads_ > 1) {
    if (threads_ < part_) part_ = 2;
    Try(threads_ / part_);
  } else if (!contended && threads_ < most_) {
    Try(std::min(most_, threads_ * 2));
  }
  return 1;
}

double ThreadGovernor::LimitMs(double now_ms, double predicted_ms) const {
  if (threads_ == 1 || predicted_ms <= 0) return 0;
  const double as_before = kLate * std::clamp(before_, 1.0, 2.0);
  const double times = trying() ? as_before : now_ms < next_trial_ms_ ? kStall : kLate;
  return std::max(kLeastLimitMs, times * predicted_ms);
}

void ThreadGovernor::StepStalled(double now_ms, double spent_ms) {
  if (trying() && threads_ > from_) {
    trial_ms_ += spent_ms;
    (void)EndTrial(now_ms, /*bad=*/true);
    return;
  }
  // A trial with fewer threads that stalls continues with still fewer.
  const int from = trying() ? from_ : threads_;
  // How long it would have taken is not known, so any step that ends is better. Where that is
  // wrong, a trial with more threads follows within a second.
  before_ = std::numeric_limits<double>::infinity();
  Try(threads_ / 2);
  from_ = from;
}

void ThreadGovernor::Try(int threads) {
  from_ = std::exchange(threads_, threads);
  sums_ = {};
  trial_ms_ = 0;
}

double ThreadGovernor::EndTrial(double now_ms, bool bad) {
  const Sums trial = std::exchange(sums_, {});
  const int from = std::exchange(from_, 0);
  const double cost = trial.predicted_ms > 0 ? trial.spent_ms / trial.predicted_ms : 0;
  if (!bad && cost <= kTrialGain * before_) {
    part_ = 2;
    pause_ms_ = kFirstPauseMs;
    next_trial_ms_ = now_ms + pause_ms_;
    return cost;
  }
  if (threads_ < from) part_ *= 2;
  threads_ = from;
  next_trial_ms_ = now_ms + std::max(pause_ms_, kPausePerTrial * trial_ms_);
  pause_ms_ = std::min(kLongestPauseMs, pause_ms_ * 2);
  return 1;
}

}  // namespace svc
