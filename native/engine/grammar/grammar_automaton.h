// Automaton that walks a grammar byte by byte.
//
// A text can be at several places of a grammar at once: a state is a set of stacks, each with the
// current node and the return nodes of the enclosing rules. States are numbered when first reached;
// each transition is computed once and then looked up. So it is cheap to test a whole vocabulary: a
// JSON string, for example, has the same few states whatever it contains.
//
// All generations with the same grammar share the states, up to kFullBytes; then a generation takes
// its own state to a Fresh() automaton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/grammar/grammar.h"

namespace svc {

// Owner: shared by the generations that use it. Thread: any for its construction, then one (the
// runner's), which sanitizer builds check.
class GrammarAutomaton {
 public:
  using State = std::uint32_t;
  // State after a byte that the grammar does not allow; no way out.
  static constexpr State kDead = 0;
  // State after a byte that cannot be followed within the limits; no way out. The grammar may allow
  // the text.
  static constexpr State kLost = 1;
  // Above kFullBytes the caller should use Fresh(). Above kMaxBytes unknown transitions become
  // kLost.
  static constexpr std::size_t kFullBytes = 4U << 20U;
  static constexpr std::size_t kMaxBytes = 16U << 20U;
  // Maximum nodes visited for one transition, which take half a millisecond. Where the grammar is
  // more ambiguous than that, it becomes kLost.
  static constexpr std::size_t kMaxWork = 65536;

  explicit GrammarAutomaton(std::shared_ptr<const Grammar> grammar);

  State start() const { return start_; }
  // State after reading the byte; kDead: not allowed; kLost: unknown.
  State Next(State state, std::uint8_t byte) {
    const std::size_t at = state * row_size_ + grammar_->byte_class(byte);
    return transitions_[at] != kUnknown ? transitions_[at] : Compute(state, byte);
  }
  // True if the text so far is complete under the grammar.
  bool IsComplete(State state) const { return facts_[state].complete; }
  // True if the text is complete and no byte may follow.
  bool IsEnded(State state) const { return facts_[state].ended; }
  // The only byte that may follow. Negative: there is a choice, the text may end here, or nothing
  // may follow.
  int ForcedByte(State state) const { return facts_[state].forced_byte; }

  std::size_t grammar_bytes() const { return grammar_->bytes(); }
  bool full() const { return bytes_ > kFullBytes; }
  // A fresh automaton over the same grammar, seeded with *state; *state becomes its id in the new
  // one.
  std::shared_ptr<GrammarAutomaton> Fresh(State* state) const;

 private:
  // A stack: id of a Cell with the top node and the stack below it. kEmpty: all rules have ended.
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

  bool IsOnItsThread();
  State Compute(State state, std::uint8_t byte);
  Stack Push(Grammar::Node node, Stack below);
  // Follows all edges that read nothing, from all stacks. False: more than kMaxWork.
  bool Close(std::vector<Stack> stacks, StateSet* set);
  State Number(StateSet set);
  State Add(const StateSet& set);
  Facts Examine(const StateSet& set) const;

  const std::shared_ptr<const Grammar> grammar_;
  const std::size_t row_size_;
  std::vector<Cell> cells_;
  std::unordered_map<std::uint64_t, Stack> cell_numbers_;
  std::vector<const StateSet*> states_;  // keys of the map below
  std::unordered_map<StateSet, State, HashSet> state_numbers_;
  std::vector<State> transitions_;  // for each state one entry per byte class
  std::vector<Facts> facts_;
  std::vector<std::uint32_t> seen_;  // by stack: the last Close() that reached it
  std::uint32_t closing_ = 0;
  std::size_t bytes_ = 0;
  State start_ = kDead;
  std::thread::id thread_;  // that reads bytes; none yet
};

}  // namespace svc
