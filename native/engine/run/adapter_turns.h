// Turns of the sets of LoRA adapters. A step computes with one set (Decoder::SetAdapters), so
// generations with different sets cannot share it.
//
// While nothing decodes, the set of the most urgent prompt goes first. Otherwise the sets take
// turns: the next set belongs to the share (share.h) that has waited longest, and is the one of its
// sets that has waited longest. So a client with many sets gets no more turns than one with a
// single set.
//
// A turn lasts several steps if they are short, because each change costs time, but all turns
// together last no longer than the inter-token target: each set has an equal part of it, and one
// step at least. The steps of a turn have the same part as their target (StepTargets::turns), so
// that prompts in them do not delay the other sets either.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "engine/base/share.h"
#include "engine/model/cost_model.h"
#include "engine/run/generation.h"
#include "engine/types/adapters.h"

namespace svc {

// Owner and thread: the Loop.
class AdapterTurns {
 public:
  explicit AdapterTurns(Now now) : now_(std::move(now)) {}

  // Keeps the generations whose set has its turn. `candidates`: the most urgent prompt first.
  // `steps`: number of steps so far; `round_ms`: time of a turn of each set. Returns the number of
  // sets that take turns; 1: they do not.
  std::uint32_t Keep(std::vector<Generation*>* candidates, std::uint64_t steps, double round_ms);

 private:
  struct Place {
    AdapterSet set;
    // Since which turn the set waits: the one after its own last, or the one in which it came.
    std::uint64_t turn = 0;
  };
  void Line(const std::vector<Generation*>& candidates);
  Place& PlaceOf(const AdapterSet& set);
  bool IsOver(std::uint64_t steps, double turn_ms) const;
  const AdapterSet& Next(const std::vector<Generation*>& candidates);
  void Begin(const AdapterSet& set, std::uint64_t steps);

  const Now now_;
  std::vector<Place> line_;                  // sets of the candidates
  std::map<ShareId, std::uint64_t> shares_;  // theirs: number of the last turn, as in Place
  AdapterSet current_;
  std::uint64_t turn_ = 0;        // number of the current turn
  std::uint64_t first_step_ = 0;  // steps before it
  Clock::time_point since_;       // its begin
};

}  // namespace svc
