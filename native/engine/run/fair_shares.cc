#include "engine/run/fair_shares.h"

#include <algorithm>
#include <set>

namespace svc {
namespace {

// Tokens by which a share may be ahead of another before its prompts lose their precedence. A short
// question is computed in one go, whatever its length in steps.
constexpr double kQuantum = 512;

}  // namespace

void FairShares::Count(const Generations& generations) {
  std::set<ShareId> alive;
  std::set<ShareId> backlogged;
  loads_.clear();
  has_waiting_ = false;
  for (const auto& generation : generations) {
    if (generation->ended) continue;
    const ShareId share = generation->scope.owner;
    alive.insert(share);
    const bool has_spoken = generation->timings.first_token_ms >= 0;
    if (!generation->paused && !(generation->in_cache() && has_spoken)) backlogged.insert(share);
    Load& load = loads_[share];
    if (!generation->in_cache()) {
      has_waiting_ = has_waiting_ || !generation->paused;
      continue;
    }
    ++load.sequences;
    load.cells += generation->computed;
  }
  queue_.Update(alive, backlogged);
}

void FairShares::Leaving(const Generation& generation) {
  const auto found = loads_.find(generation.scope.owner);
  if (found == loads_.end()) return;
  Load& load = found->second;
  load.sequences -= std::min(load.sequences, 1U);
  load.cells -= std::min(load.cells, generation.computed);
}

FairShares::Load FairShares::LoadOf(ShareId share) const {
  const auto found = loads_.find(share);
  return found == loads_.end() ? Load{} : found->second;
}

std::optional<ShareId> FairShares::LargestAbove(std::uint32_t Load::*held, std::uint32_t most,
                                                double least_counter) const {
  std::optional<ShareId> largest;
  for (const auto& [share, load] : loads_) {
    if (load.sequences < 2 || load.*held <= most) continue;
    if (queue_.CounterOf(share) < least_counter) continue;
    most = load.*held;
    largest = share;
  }
  return largest;
}

std::optional<ShareId> FairShares::MakesWayFor(const Generation& candidate,
                                               bool lacks_sequence) const {
  if (!several()) return std::nullopt;
  const ShareId asking = candidate.scope.owner;
  const auto held = lacks_sequence ? &Load::sequences : &Load::cells;
  const std::uint32_t part =
      PartOf(lacks_sequence ? decoder_->max_sequences() : decoder_->cells_total());
  if (LoadOf(asking).*held >= (lacks_sequence ? std::max(1U, part) : part)) return std::nullopt;
  const auto largest = LargestAbove(held, part, queue_.CounterOf(asking));
  return largest == asking ? std::nullopt : largest;
}

std::optional<ShareId> FairShares::Largest() const {
  if (!several()) return std::nullopt;
  return LargestAbove(&Load::cells, PartOf(decoder_->cells_total()), 0);
}

// True if the generation waits for its first token and its share runs less than half of what
// another one runs.
bool FairShares::IsDue(const Generation& generation) const {
  if (generation.timings.first_token_ms >= 0) return false;
  const ShareId share = generation.scope.owner;
  const double counter = queue_.CounterOf(share);
  const std::uint32_t held = LoadOf(share).sequences;
  return std::ranges::any_of(loads_, [&](const auto& each) {
    const auto& [other, load] = each;
    return other != share && load.sequences > 2 * held &&
           counter <= queue_.CounterOf(other) + kQuantum;
  });
}

StepYield FairShares::YieldTo(std::vector<Generation*>* candidates) const {
  if (!several()) return {};
  const auto end = std::stable_partition(candidates->begin(), candidates->end(),
                                         [this](const Generation* g) { return IsDue(*g); });
  if (end == candidates->begin()) return {};
  StepYield yield{.decoding_rows = 0, .prompt_rows = 0};
  for (auto due = candidates->begin(); due != end; ++due) yield.prompt_rows += (*due)->pending();
  std::set<ShareId> decoding;
  for (const Generation* generation : *candidates) {
    if (generation->pending() == 1) decoding.insert(generation->scope.owner);
  }
  yield.decoding_rows = static_cast<std::uint32_t>(std::max<std::size_t>(1, decoding.size()));
  return yield;
}

void FairShares::OrderDecoding(std::vector<Generation*>* decoding) const {
  if (!several()) return;
  std::map<ShareId, double> counters;
  std::vector<std::pair<std::pair<bool, double>, Generation*>> order;
  for (Generation* generation : *decoding) {
    const ShareId share = generation->scope.owner;
    const auto [at, is_first] = counters.try_emplace(share, queue_.CounterOf(share));
    order.push_back({{!is_first, at->second}, generation});
    at->second += kOutputWeight;
  }
  std::ranges::stable_sort(order, {}, [](const auto& each) { return each.first; });
  for (std::size_t i = 0; i < order.size(); ++i) (*decoding)[i] = order[i].second;
}

}  // namespace svc
