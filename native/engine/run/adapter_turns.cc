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
      if (own != line_.end()) own->turn = turn_ + 1;
      Begin(Next(*candidates), steps);
    }
  }
  std::erase_if(*candidates, [this](const Generation* g) { return g->adapters != current_; });
  for (const Generation* kept : *candidates) shares_[kept->scope.owner] = turn_;
  return sets;
}

// Brings line and shares up to date: who comes now is behind those that wait already.
void AdapterTurns::Line(const std::vector<Generation*>& candidates) {
  const auto any = [&](const auto& matches) { return std::ranges::any_of(candidates, matches); };
  std::erase_if(line_, [&](const Place& place) {
    return !any([&](const Generation* g) { return g->adapters == place.set; });
  });
  std::erase_if(shares_, [&](const auto& share) {
    return !any([&](const Generation* g) { return g->scope.owner == share.first; });
  });
  for (const Generation* candidate : candidates) {
    (void)PlaceOf(candidate->adapters);
    shares_.try_emplace(candidate->scope.owner, turn_);
  }
}

AdapterTurns::Place& AdapterTurns::PlaceOf(const AdapterSet& set) {
  const auto found = std::ranges::find(line_, set, &Place::set);
  return found != line_.end() ? *found : line_.emplace_back(Place{set, turn_});
}

// The set whose turn is after the current one.
const AdapterSet& AdapterTurns::Next(const std::vector<Generation*>& candidates) {
  const Generation* next = nullptr;
  std::pair<std::uint64_t, std::uint64_t> least;
  for (const Generation* candidate : candidates) {
    if (candidate->adapters == current_) continue;
    const std::pair waits(shares_.at(candidate->scope.owner), PlaceOf(candidate->adapters).turn);
    if (next != nullptr && waits >= least) continue;
    next = candidate;
    least = waits;
  }
  return next->adapters;
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
