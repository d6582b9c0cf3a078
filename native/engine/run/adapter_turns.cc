#include "engine/run/adapter_turns.h"

#include <algorithm>

namespace svc {

std::uint32_t AdapterTurns::Keep(std::vector<Generation*>* candidates, std::uint64_t steps,
                                 double round_ms) {
  if (candidates->empty()) return 1;
  Line(*candidates);
  const auto decodes = [](const Generation* g) { return g->pending() == 1; };
  const bool in_turns = line_.size() > 1 && std::ranges::any_of(*candidates, decodes);
  const auto sets = in_turns ? static_cast<std::uint32_t>(line_.size()) : 1;
  if (!in_turns) {
    const AdapterSet& first = candidates->front()->adapters;
    if (first != current_) Begin(first, steps);
  } else {
    const auto own = std::ranges::find(line_, current_, &Place::set);
    if (own == line_.end() || IsOver(steps, round_ms / sets)) {
      // Line puts it back, behind the others.
      if (own != line_.end()) line_.erase(own);
      Begin(std::ranges::min_element(line_, {}, &Place::turn)->set, steps);
    }
  }
  std::erase_if(*candidates, [this](const Generation* g) { return g->adapters != current_; });
  return sets;
}

// Brings the line up to date: a set that comes now is behind those that wait already.
void AdapterTurns::Line(const std::vector<Generation*>& candidates) {
  const auto is_wanted = [&](const Place& place) {
    return std::ranges::any_of(candidates,
                               [&](const Generation* g) { return g->adapters == place.set; });
  };
  std::erase_if(line_, [&](const Place& place) { return !is_wanted(place); });
  for (const Generation* candidate : candidates) {
    const auto found = std::ranges::find(line_, candidate->adapters, &Place::set);
    if (found == line_.end()) line_.push_back({.set = candidate->adapters, .turn = turn_});
  }
}

// True if another step like those of this turn would end after it.
bool AdapterTurns::IsOver(std::uint64_t steps, double turn_ms) const {
  const auto taken = static_cast<double>(steps - first_step_);
  return taken > 0 && Milliseconds(now_() - since_) * (taken + 1) / taken > turn_ms;
}

void AdapterTurns::Begin(const AdapterSet& set, std::uint64_t steps) {
  current_ = set;
  ++turn_;
  first_step_ = steps;
  since_ = now_();
}

}  // namespace svc
