// Budget for the draft model: bounds what it may cost when its drafts do not pay.
//
// Whether drafts pay is known only after they are computed. So an account is kept, in units of the
// time of one step without drafts. Credited: a small share of the elapsed time, and the time that
// accepted drafts saved. Debited: the time that the draft model computes. While drafts pay, the
// account is full and never limits. When they do not, the loss is bounded by the share plus earlier
// savings; the account then refills for an occasional trial, at growing intervals while trials
// fail.
//
// Pure arithmetic. Owner and thread: the Loop.
#pragma once

#include <algorithm>
#include <cstdint>

namespace svc {

class DraftBudget {
 public:
  // Credits the share of the time of `steps` steps that have passed.
  void Pass(double steps) { Add(steps * kShare); }
  // Credits saved time; negative: debits drafting time.
  void Add(double steps) { credit_ = std::min(credit_ + steps, kMostCredit); }
  bool Affords(double steps) const { return credit_ >= steps; }

  // Called in each step in which drafts are not expected to pay. True: run a trial in this step.
  bool TryNow() {
    if (wait_ > 0) {
      --wait_;
      return false;
    }
    wait_ = pause_;
    pause_ = std::min(pause_ * 2, kLongestPause);
    return true;
  }
  // Called when a draft was accepted: the next trial comes at once.
  void Encourage() {
    pause_ = 1;
    wait_ = 0;
  }

 private:
  // Share of the elapsed time that is credited.
  static constexpr double kShare = 0.015;
  // Maximum credit: enough for the draft model to process a long prompt. With a higher limit, time
  // saved long ago could be lost at once.
  static constexpr double kMostCredit = 100;
  static constexpr std::uint32_t kLongestPause = 64;  // steps

  // Initial credit: enough for the draft model to process a short prompt and draft a few tokens.
  double credit_ = 8;
  std::uint32_t pause_ = 1;  // steps to wait after the next trial; doubles
  std::uint32_t wait_ = 0;   // steps to wait before the next trial
};

}  // namespace svc
