#include "engine/draft/draft_budget.h"

#include <algorithm>

namespace svc {
namespace {

// Share of the elapsed time that is credited.
constexpr double kShare = 0.015;
// Maximum credit: enough for the draft model to process a long prompt. A higher limit would let it
// lose at once what it saved long ago.
constexpr double kMostCredit = 100;
constexpr std::uint32_t kLongestPause = 64;  // steps

}  // namespace

void DraftBudget::Pass(double steps) { Add(steps * kShare); }

void DraftBudget::Add(double steps) { credit_ = std::min(credit_ + steps, kMostCredit); }

bool DraftBudget::TryNow() {
  if (wait_ > 0) {
    --wait_;
    return false;
  }
  wait_ = pause_;
  pause_ = std::min(pause_ * 2, kLongestPause);
  return true;
}

void DraftBudget::Encourage() {
  pause_ = 1;
  wait_ = 0;
}

}  // namespace svc
