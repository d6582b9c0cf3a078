// Walks a grammar byte by byte.
//
// A grammar may be in many places at once: a state is a set of stacks, each the node it is at and
// where the rules around it go on. States are numbered as they are met, and what follows a state on
// a byte is computed once and then looked up. That makes it cheap to try a whole vocabulary: the
// states of a JSON string are the same few, whatever stands in it.
//
// What has been met is kept for all generations with this grammar, up to kMaxBytes; then somebody
// who walks on takes their own state into a Fresh() automaton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/grammar/grammar.h"

namespace svc {

// Owner: shared by the generations that use it. Thread: one at a time (the runner's).
class GrammarAutomaton {
 public:
  using State = std::uint32_t;
  // Nothing of what follows is of the grammar.
  static constexpr State kDead = 0;
  // Fresh() is due above the first; above the second, states that are new are taken for kDead.
  static constexpr std::size_t kFullBytes = 4U << 20U;
  static constexpr std::size_t kMaxBytes = 16U << 20U;
  // Nodes looked at for one step. An ambiguous grammar that needs more is not followed.
  static constexpr std::size_t kMaxWork = 16384;

  explicit GrammarAutomaton(std::shared_ptr<const Grammar> grammar);

  State start() const { return start_; }
  State Next(State state, std::uint8_t byte) {
    const std::size_t at = state * row_size_ + grammar_->byte_class(byte);
    return transitions_[at] != kUnknown ? transitions_[at] : Compute(state, byte);
  }
  // What has been read is a whole text of the grammar.
  bool IsComplete(State state) const { return facts_[state].complete; }
  // No byte may follow.
  bool IsEnded(State state) const { return facts_[state].ended; }
  // The one byte that may follow; negative: the text may end here, or there is a choice, or none.
  int ForcedByte(State state) const { return facts_[state].forced_byte; }

  std::size_t grammar_bytes() const { return grammar_->bytes(); }
  bool full() const { return bytes_ > kFullBytes; }
  // A new one over the same grammar that knows only *state, which becomes its name there.
  std::shared_ptr<GrammarAutomaton> Fresh(State* state) const;

 private:
  // A stack: the node on top, and the stack under it. kEmpty: all rules have ended.
  using Stack = std::uint32_t;
  static constexpr Stack kEmpty = 0;
  struct Cell {
    Grammar::Node node = 0;
    Stack below = kEmpty;
  };
  struct Facts {
    bool complete = false;
    bool ended = false;
    std::int16_t forced_byte = -1;
  };
  using StateSet = std::vector<Stack>;  // sorted
  struct HashSet {
    std::size_t operator()(const StateSet& set) const;
  };
  static constexpr State kUnknown = UINT32_MAX;

  State Compute(State state, std::uint8_t byte);
  Stack Push(Grammar::Node node, Stack below);
  // The state that the stacks lead to without reading; false: too much work.
  bool Close(std::vector<Stack> stacks, StateSet* set);
  State Number(StateSet set);
  Facts Examine(const StateSet& set) const;

  const std::shared_ptr<const Grammar> grammar_;
  const std::size_t row_size_;
  std::vector<Cell> cells_;
  std::unordered_map<std::uint64_t, Stack> cell_numbers_;
  std::vector<const StateSet*> states_;  // keys of the map below
  std::unordered_map<StateSet, State, HashSet> state_numbers_;
  std::vector<State> transitions_;  // a row of byte classes for each state
  std::vector<Facts> facts_;
  std::vector<std::uint32_t> seen_;  // by stack: the last Close() that met it
  std::uint32_t closing_ = 0;
  std::size_t bytes_ = 0;
  State start_ = kDead;
};

}  // namespace svc
