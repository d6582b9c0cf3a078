// Growth of the KV cache on demand.
//
// The decoder begins with fewer cells than a request may use (Decoder::max_cells), because unused
// cells cost memory, too. A generation that has no room for its next token even if it had all cells
// to itself has outgrown the cache: a long prompt at its arrival, or an answer in the middle. It
// takes no part in steps until the receiver of the outputs has been asked for memory (CellDemand)
// and has answered:
//
//   outgrown ──► CellDemand ──► Grant ─┬─ enough ──► Replace ──► all generations continue
//                                      └─ too few ─► a prompt fails, an answer ends as too long
//
// One generation asks at a time, so each answer is about one demand, and the refusal of a very long
// prompt does not end a shorter one.
//
// Replace happens between two steps. What is in the cache is copied to ordinary memory and back:
// prefixes and generations by swapping out, or whole states where cells cannot be shared. That
// takes a thousandth of computing it, so running generations only pause.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/status.h"
#include "engine/model/decoder.h"
#include "engine/run/admission.h"
#include "engine/run/generation.h"
#include "engine/types/output.h"

namespace svc {

// Owner and thread: the Loop. All pointers must outlive it.
class Growth {
 public:
  Growth(Decoder* decoder, const Generations* generations, Admission* admission);

  // True if there are enough cells for the generation's next token, if it has them to itself.
  bool Fits(const Generation& generation) const;

  // Before each step: finds the generations that have outgrown the cache and lets them wait.
  // Returns those to be ended instead, because more cells were refused.
  std::vector<Generation*> Collect();
  // The demand of a waiting generation, if one has to be sent now; SetAsking has to follow.
  std::optional<GenerationOutput> Ask() const;
  // Generation with an unanswered demand. Set once the demand is in the outbox, and by Loop::Anew
  // if the previous loop sent it.
  std::optional<GenerationId> asking() const { return asking_; }
  void SetAsking(std::optional<GenerationId> asking) { asking_ = asking; }
  // Answers the last demand: `cells` that fit into memory, and the reason if they are fewer than
  // requested.
  void Grant(std::uint32_t cells, std::string refusal);
  // True if a generation needs cells that have been granted.
  bool Due() const;
  // Replaces the cache by one of the granted size; Collect has to follow. False: the memory could
  // not be allocated, so the largest of the generations that need it is refused. REQUIRES: Due()
  bool Replace();

  // The last output of a generation that Collect has returned.
  GenerationOutput EndOf(Generation& generation, Clock::time_point now) const;

 private:
  Status RefusalOf(const Generation& generation) const;
  bool GrowTo(std::uint32_t cells);
  bool GrowWithStates(std::uint32_t cells);

  Decoder* const decoder_;
  const Generations* const generations_;
  Admission* const admission_;
  std::uint32_t granted_;
  std::optional<GenerationId> asking_;
  std::string refusal_;
};

}  // namespace svc
