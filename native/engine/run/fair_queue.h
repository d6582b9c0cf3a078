// Division of an engine's tokens between shares (share.h): fair queueing with virtual token
// counters, after VTC (Y. Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024).
// The virtual time that a new share starts from is that of start-time fair queueing (P. Goyal et
// al., 1996).
//
// Each share has a counter of the tokens it was given: prompt tokens that were computed, and
// generated tokens times kOutputWeight. The share with the smallest counter goes first. A share is
// backlogged while it has a request without a first token. When it becomes backlogged its counter
// is lifted to the virtual time:
//
//   something is backlogged: the smallest counter among backlogged shares
//   nothing is:              the largest counter of those with requests
//
// So idle time earns no credit, and tokens taken while no other share wanted them cost nothing
// later. Two shares that are both backlogged get equal numbers of tokens, up to a constant: what
// the rows of one step and the prompts in the cache count.
//
// The order is work-conserving: it decides who goes first, and never leaves a row empty because of
// a counter. A share that is alone gets everything. Within a share, deadlines decide (scheduler.h).
#pragma once

#include <map>
#include <set>
#include <vector>

#include "engine/base/share.h"

namespace svc {

// Cost of a generated token, in tokens of a prompt. As in the paper.
inline constexpr double kOutputWeight = 2;

// Owner and thread: the Loop.
class FairQueue {
 public:
  // Shares with requests, before each step. Forgets those without requests whose counter the
  // virtual time has reached.
  void Update(const std::set<ShareId>& alive, const std::set<ShareId>& backlogged);

  void Charge(ShareId share, double tokens);
  // Smaller goes first.
  double CounterOf(ShareId share) const;

  // Shares with requests, or whose counter is above the virtual time. All others have the virtual
  // time as their counter.
  std::vector<ShareId> Known() const;

 private:
  struct Entry {
    double counter = 0;
    bool backlogged = false;
  };

  std::map<ShareId, Entry> entries_;
  double virtual_time_ = 0;
};

}  // namespace svc
