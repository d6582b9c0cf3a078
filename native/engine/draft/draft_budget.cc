#include "engine/draft/draft_budget.h"

#include <algorithm>

namespace svc {
namespace {

constexpr double kShare = 0.015;
// As much as it takes to read a long prompt, and no more: what was saved long ago should not be
// lost at one go.
constexpr double kMostCredit = 100;
constexpr std::uint32_t kLongestPause = 64;

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
