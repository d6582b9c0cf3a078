#include "engine/grammar/grammar_automaton.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace svc {

GrammarAutomaton::GrammarAutomaton(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)), row_size_(grammar_->byte_class_count()) {
  cells_.emplace_back();  // kEmpty
  const State dead = Number({});
  std::fill_n(transitions_.begin() + dead * row_size_, row_size_, kDead);
  const State lost = Add(*states_[dead]);
  std::fill_n(transitions_.begin() + lost * row_size_, row_size_, kLost);
  assert(dead == kDead && lost == kLost);
  start_ = kLost;
  if (StateSet set; Close({Push(grammar_->start(), kEmpty)}, &set)) start_ = Number(std::move(set));
}

std::shared_ptr<GrammarAutomaton> GrammarAutomaton::Fresh(State* state) const {
  auto fresh = std::make_shared<GrammarAutomaton>(grammar_);
  if (*state == kLost) return fresh;
  StateSet set;
  for (Stack stack : *states_[*state]) {
    std::vector<Grammar::Node> nodes;
    for (; stack != kEmpty; stack = cells_[stack].below) nodes.push_back(cells_[stack].node);
    Stack copy = kEmpty;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) copy = fresh->Push(*node, copy);
    set.push_back(copy);
  }
  std::ranges::sort(set);
  *state = fresh->Number(std::move(set));
  return fresh;
}

bool GrammarAutomaton::IsOnItsThread() {
  if (thread_ == std::thread::id()) thread_ = std::this_thread::get_id();
  return thread_ == std::this_thread::get_id();
}

GrammarAutomaton::State GrammarAutomaton::Compute(State state, std::uint8_t byte) {
  assert(IsOnItsThread());
  std::vector<Stack> stacks;
  for (const Stack stack : *states_[state]) {
    if (stack == kEmpty) continue;
    grammar_->ForEachEdge(cells_[stack].node, [&](const Grammar::Edge& edge) {
      if (edge.kind == Grammar::Edge::Kind::kByte && edge.low <= byte && byte <= edge.high) {
        stacks.push_back(edge.target);
        stacks.push_back(cells_[stack].below);
      }
    });
  }
  StateSet entered;
  for (std::size_t i = 0; i < stacks.size(); i += 2) {
    entered.push_back(Push(stacks[i], stacks[i + 1]));
  }
  StateSet set;
  const State next =
      bytes_ < kMaxBytes && Close(std::move(entered), &set) ? Number(std::move(set)) : kLost;
  transitions_[state * row_size_ + grammar_->byte_class(byte)] = next;
  return next;
}

// Epsilon closure: the stacks reachable from `todo` without reading, as far as their top node reads
// a byte, and kEmpty. A call at the end of a rule leaves no return node (see Push), so a rule that
// repeats by calling itself at its end does not grow the stacks.
bool GrammarAutomaton::Close(std::vector<Stack> todo, StateSet* set) {
  const auto reach = [&](Stack stack) {
    if (stack >= seen_.size()) seen_.resize(cells_.size() + 1);
    if (seen_[stack] == closing_) return;
    seen_[stack] = closing_;
    todo.push_back(stack);
  };
  ++closing_;
  for (const Stack stack : std::exchange(todo, {})) reach(stack);
  std::size_t work = 0;
  while (!todo.empty()) {
    if (++work > kMaxWork) return false;
    const Stack stack = todo.back();
    todo.pop_back();
    if (stack == kEmpty) {
      set->push_back(stack);
      continue;
    }
    const auto [node, below] = cells_[stack];
    if (grammar_->ends_rule(node)) reach(below);
    bool reads = false;
    grammar_->ForEachEdge(node, [&, below = below](const Grammar::Edge& edge) {
      switch (edge.kind) {
        case Grammar::Edge::Kind::kByte:
          reads = true;
          break;
        case Grammar::Edge::Kind::kJump:
          reach(Push(edge.target, below));
          break;
        case Grammar::Edge::Kind::kCall:
          reach(Push(edge.target, Push(edge.after, below)));
          break;
      }
    });
    if (reads) set->push_back(stack);
  }
  std::ranges::sort(*set);
  bytes_ += work * sizeof(Stack);  // counts work as memory, so that kMaxBytes bounds time, too
  return true;
}

GrammarAutomaton::Stack GrammarAutomaton::Push(Grammar::Node node, Stack below) {
  if (grammar_->only_leaves_rule(node)) return below;
  const std::uint64_t key = std::uint64_t{node} << 32U | below;
  const auto [found, added] = cell_numbers_.try_emplace(key, static_cast<Stack>(cells_.size()));
  if (added) {
    cells_.push_back({node, below});
    bytes_ += sizeof(Cell) + 48;  // 48: the map entry
  }
  return found->second;
}

GrammarAutomaton::State GrammarAutomaton::Number(StateSet set) {
  const auto [found, added] =
      state_numbers_.try_emplace(std::move(set), static_cast<State>(states_.size()));
  return added ? Add(found->first) : found->second;
}

GrammarAutomaton::State GrammarAutomaton::Add(const StateSet& set) {
  states_.push_back(&set);
  facts_.push_back(Examine(set));
  transitions_.resize(transitions_.size() + row_size_, kUnknown);
  bytes_ += 128 + (set.size() + row_size_) * sizeof(State);
  return static_cast<State>(states_.size() - 1);
}

GrammarAutomaton::Facts GrammarAutomaton::Examine(const StateSet& set) const {
  Facts facts;
  facts.complete = !set.empty() && set.front() == kEmpty;
  int only = -1;
  bool choice = facts.complete;
  for (const Stack stack : set) {
    if (stack == kEmpty) continue;
    grammar_->ForEachEdge(cells_[stack].node, [&](const Grammar::Edge& edge) {
      if (edge.kind != Grammar::Edge::Kind::kByte) return;
      if (edge.low != edge.high || (only >= 0 && only != edge.low)) choice = true;
      only = edge.low;
    });
  }
  facts.ended = facts.complete && only < 0;
  facts.forced_byte = static_cast<std::int16_t>(choice ? -1 : only);
  return facts;
}

std::size_t GrammarAutomaton::HashSet::operator()(const StateSet& set) const {
  std::uint64_t hash = 0x9E3779B97F4A7C15ULL;
  for (const Stack stack : set) hash = (hash ^ stack) * 0x100000001B3ULL;
  return static_cast<std::size_t>(hash ^ hash >> 32U);
}

}  // namespace svc
