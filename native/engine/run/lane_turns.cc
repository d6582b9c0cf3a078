#include "engine/run/lane_turns.h"

#include <algorithm>

namespace svc {
namespace {

// A character has at most four bytes, and a token at least one.
constexpr std::uint32_t kMostSilentSteps = 3;

}  // namespace

bool LaneTurns::MayGoOn(std::span<const Demand> demands, const StepLimits& limits,
                        const StepCosts& costs) const {
  if (demands.empty()) return true;
  if (demands.front().rows > 1) return false;
  const auto rows =
      std::min(static_cast<std::uint32_t>(demands.size()), std::max(limits.decoding_rows, 1U));
  return !IsStepDue(Milliseconds(now_() - since_), costs.model().Predict(rows, rows),
                    costs.targets());
}

void LaneTurns::StepEnds(std::uint64_t steps) {
  silent_steps_ = is_silent_ && silent_steps_ < kMostSilentSteps ? silent_steps_ + 1 : 0;
  if (silent_steps_ > 0) return;
  since_ = now_();
  due_step_ = steps + 1;
}

}  // namespace svc
