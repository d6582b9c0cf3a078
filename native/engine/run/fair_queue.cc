#include "engine/run/fair_queue.h"

#include <algorithm>
#include <limits>

namespace svc {

void FairQueue::Update(const std::set<ShareId>& alive, const std::set<ShareId>& backlogged) {
  for (const ShareId share : alive) {
    Entry& entry = entries_.try_emplace(share, Entry{.counter = virtual_time_}).first->second;
    const bool is_backlogged = backlogged.contains(share);
    if (is_backlogged && !entry.backlogged) entry.counter = std::max(entry.counter, virtual_time_);
    entry.backlogged = is_backlogged;
  }
  double smallest = std::numeric_limits<double>::infinity();
  double largest = virtual_time_;
  for (const auto& [share, entry] : entries_) {
    if (backlogged.contains(share)) smallest = std::min(smallest, entry.counter);
    if (alive.contains(share)) largest = std::max(largest, entry.counter);
  }
  virtual_time_ = backlogged.empty() ? largest : std::max(virtual_time_, smallest);
  std::erase_if(entries_, [&](const auto& each) {
    return !alive.contains(each.first) && each.second.counter <= virtual_time_;
  });
  for (auto& [share, entry] : entries_) {
    if (!alive.contains(share)) entry.backlogged = false;
  }
}

void FairQueue::Charge(ShareId share, double tokens) {
  entries_.try_emplace(share, Entry{.counter = virtual_time_}).first->second.counter += tokens;
}

double FairQueue::CounterOf(ShareId share) const {
  const auto found = entries_.find(share);
  return found == entries_.end() ? virtual_time_ : found->second.counter;
}

std::vector<ShareId> FairQueue::Known() const {
  std::vector<ShareId> known;
  known.reserve(entries_.size());
  for (const auto& [share, entry] : entries_) known.push_back(share);
  return known;
}

}  // namespace svc
