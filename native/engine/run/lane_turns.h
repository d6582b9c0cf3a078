// When the prompt in the lane (prefill_lane.h) gives way to a step of the generations that decode
// beside it. A picture or sound follows the same rule for silent steps (media_turns.h).
//
// A step is due as scheduler.h says, counted from the last step that gave every generation in it
// some text. A step after which one of them has no text, because its token is only a part of a
// character, does not count, up to kMostSilentSteps in a row; nor does one that was aborted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "engine/run/generation.h"
#include "engine/run/scheduler.h"
#include "engine/run/step_costs.h"

namespace svc {

// Owner and thread: the Loop.
class LaneTurns {
 public:
  explicit LaneTurns(Now now) : now_(std::move(now)) {}

  // True if the batch in the lane continues before the step of these demands.
  bool MayGoOn(std::span<const Demand> demands, const StepLimits& limits,
               const StepCosts& costs) const {
    if (demands.empty()) return true;
    if (demands.front().rows > 1) return false;
    const auto rows =
        std::min(static_cast<std::uint32_t>(demands.size()), std::max(limits.decoding_rows, 1U));
    return !IsStepDue(Milliseconds(now_() - since_), costs.model().Predict(rows, rows),
                      costs.targets());
  }

  // Around each step in the cache; `steps`: number of steps so far.
  void StepBegins() { is_silent_ = false; }
  // A generation in the step got a token and no text.
  void NoText(const Generation& generation) {
    if (generation.last_text_step < due_step_) is_silent_ = true;
  }
  // The step was aborted: no generation in it got a token.
  void StepAborted() { is_silent_ = true; }
  void StepEnds(std::uint64_t steps) {
    silent_steps_ = is_silent_ && silent_steps_ < kMostSilentSteps ? silent_steps_ + 1 : 0;
    if (silent_steps_ > 0) return;
    since_ = now_();
    due_step_ = steps + 1;
  }

  // The last step did not count.
  bool is_silent() const { return silent_steps_ > 0; }

 private:
  // A character has at most four bytes, and a token at least one.
  static constexpr std::uint32_t kMostSilentSteps = 3;

  const Now now_;
  Clock::time_point since_;         // generations that decode wait for a step since then
  std::uint64_t due_step_ = 0;      // number of the first step after that
  bool is_silent_ = false;          // a generation has had no text since then
  std::uint32_t silent_steps_ = 0;  // steps in a row that did not count
};

}  // namespace svc
