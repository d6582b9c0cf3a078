// The loop's part in fairness (fair_queue.h): which shares are here, what each holds, and what the
// others leave to one that has less than its part.
#include <algorithm>
#include <set>
#include <utility>

#include "engine/run/loop.h"

namespace svc {
namespace {

// A share may be this many tokens ahead of another one before its prompts lose their precedence: a
// short question is computed in one go, whatever its length in steps.
constexpr double kQuantum = 512;

}  // namespace

void Loop::CountShares() {
  std::set<ShareId> alive;
  std::set<ShareId> backlogged;
  loads_.clear();
  waiting_ = false;
  for (const auto& generation : generations_) {
    if (generation->ended) continue;
    const ShareId share = generation->scope.owner;
    alive.insert(share);
    const bool has_spoken = generation->timings.first_token_ms >= 0;
    if (!generation->paused && !(generation->in_cache() && has_spoken)) backlogged.insert(share);
    ShareLoad& load = loads_[share];
    if (!generation->in_cache()) {
      waiting_ = waiting_ || !generation->paused;
      continue;
    }
    ++load.sequences;
    load.cells += generation->computed;
  }
  fair_.Update(alive, backlogged);
  // The order may have changed since nothing more could be admitted.
  if (loads_.size() > 1 && waiting_) may_admit_ = true;
}

Loop::Urgency Loop::UrgencyOf(const Generation& generation) const {
  const double deadline = Deadline(generation);
  if (loads_.size() < 2) return {0, deadline};
  return {std::min(generation.wanted_by_counter, fair_.CounterOf(generation.scope.owner)),
          deadline};
}

// A share with more than its part of sequences or cells gives back its most junior generation, but
// never its last one: it would come back and do the same.
bool Loop::MakeWayOfShare(const Generation& candidate) {
  if (loads_.size() < 2) return false;
  const ShareLoad own = loads_[candidate.scope.owner];
  const auto shares = static_cast<std::uint32_t>(loads_.size());
  const std::uint32_t sequences = decoder_->max_sequences() / shares;
  const std::uint32_t cells = decoder_->cells_total() / shares;
  const bool lacks_sequence = free_sequences_.empty();
  if (lacks_sequence ? own.sequences >= std::max(1U, sequences) : own.cells >= cells) return false;
  const double counter = fair_.CounterOf(candidate.scope.owner);
  ShareId largest = candidate.scope.owner;
  std::uint32_t most = lacks_sequence ? sequences : cells;
  for (const auto& [share, load] : loads_) {
    const std::uint32_t held = lacks_sequence ? load.sequences : load.cells;
    if (load.sequences < 2 || held <= most || fair_.CounterOf(share) < counter) continue;
    most = held;
    largest = share;
  }
  Generation* junior = largest == candidate.scope.owner ? nullptr : JuniorOf(largest);
  if (junior == nullptr) return false;
  Preempt(*junior);
  return true;
}

// The share with the most cells over its part, if it has more than one generation; else anybody.
std::optional<ShareId> Loop::LargestShare() const {
  if (loads_.size() < 2) return std::nullopt;
  std::uint32_t most = decoder_->cells_total() / static_cast<std::uint32_t>(loads_.size());
  std::optional<ShareId> largest;
  for (const auto& [share, load] : loads_) {
    if (load.sequences < 2 || load.cells <= most) continue;
    most = load.cells;
    largest = share;
  }
  return largest;
}

Generation* Loop::JuniorOf(std::optional<ShareId> share) const {
  Generation* junior = nullptr;
  const auto seniority = [](const Generation& generation) {
    return SeniorityOf(Milliseconds(generation.submitted_at.time_since_epoch()),
                       generation.priority);
  };
  for (const auto& generation : generations_) {
    if (!generation->in_cache() || (share && generation->scope.owner != *share)) continue;
    if (junior == nullptr || generation->paused > junior->paused ||
        (generation->paused == junior->paused && seniority(*generation) >= seniority(*junior))) {
      junior = generation.get();
    }
  }
  return junior;
}

void Loop::Preempt(Generation& generation) {
  LeaveCache(generation, /*keep_prefix=*/true);
  ++counts_.preemptions;
}

// True if it waits for its first token and its share runs less than half of what another one does.
bool Loop::IsDue(const Generation& generation) const {
  if (generation.timings.first_token_ms >= 0) return false;
  const ShareId share = generation.scope.owner;
  const double counter = fair_.CounterOf(share);
  const std::uint32_t held = loads_.at(share).sequences;
  return std::any_of(loads_.begin(), loads_.end(), [&](const auto& each) {
    const auto& [other, load] = each;
    return other != share && load.sequences > 2 * held &&
           counter <= fair_.CounterOf(other) + kQuantum;
  });
}

// Puts generations whose first token is due before the others, and returns what a step leaves to
// them: each share that decodes gets one row, and prompts of others none, so that the step is no
// longer than beside a single stream.
StepYield Loop::YieldTo(std::vector<Generation*>* candidates) const {
  if (loads_.size() < 2) return {};
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

// Who decodes first where not all do: one of each share, then the shares in turn by their counters,
// and in a share who has waited longest. REQUIRES: those of a share are in that order.
void Loop::OrderDecoding(std::vector<Generation*>* decoding) const {
  if (loads_.size() < 2) return;
  std::map<ShareId, double> counters;
  std::vector<std::pair<std::pair<bool, double>, Generation*>> order;
  for (Generation* generation : *decoding) {
    const ShareId share = generation->scope.owner;
    const auto [at, is_first] = counters.try_emplace(share, fair_.CounterOf(share));
    order.push_back({{!is_first, at->second}, generation});
    at->second += kOutputWeight;
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < order.size(); ++i) (*decoding)[i] = order[i].second;
}

void Loop::CountLeaving(const Generation& generation) {
  const auto found = loads_.find(generation.scope.owner);
  if (found == loads_.end()) return;
  ShareLoad& load = found->second;
  load.sequences -= std::min(load.sequences, 1U);
  load.cells -= std::min(load.cells, generation.computed);
}

StepOwner Loop::step_owner() const {
  if (rows_.empty() || !decoder_->can_share()) return {};
  const auto rows = static_cast<std::uint32_t>(rows_.size());
  const auto outputs = static_cast<std::uint32_t>(
      std::count_if(rows_.begin(), rows_.end(), [](const Row& row) { return row.wants_logits; }));
  return {.may_yield = true,
          .predicted_ms = cost_.measured() ? cost_.Predict(rows, outputs) : 0,
          .rows = rows,
          .known = fair_.Known()};
}

}  // namespace svc
