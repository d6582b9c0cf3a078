// What a draft model may cost.
//
// Whether its drafts pay shows only when they have been made. So it has an account, in steps that
// are computed without drafts: a small share of the time that passes is paid in, and what its
// drafts have saved; what it computes is paid out of it. While it pays, the account is full and is
// never looked at. Where it does not, all that it can cost is the share, and what it has saved
// before; the account then fills for a trial now and then, ever more rarely while they fail.
//
// Pure arithmetic. Owner and thread: the Loop.
#pragma once

#include <cstdint>

namespace svc {

class DraftBudget {
 public:
  // So many steps' time has passed.
  void Pass(double steps);
  // Saved; negative: paid.
  void Add(double steps);
  bool Affords(double steps) const { return credit_ >= steps; }

  // Asked in each step in which nothing is expected of a draft: whether to try it nevertheless.
  bool TryNow();
  // A draft was right: the next trial comes soon.
  void Encourage();

 private:
  // Enough to read a short prompt and to show what it can.
  double credit_ = 8;
  std::uint32_t pause_ = 1;  // steps to the next trial but one
  std::uint32_t wait_ = 0;   // to the next
};

}  // namespace svc
