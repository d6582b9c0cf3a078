#include "engine/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace svc {
namespace {

// A leaf is cut by so many tokens at a time: one by one, each would cost a walk over all cells.
constexpr std::uint32_t kLeastCut = 64;
// Both may split a node; publishing may add one.
constexpr std::size_t kIdsToTake = 1;
constexpr std::size_t kIdsToPublish = 2;

}  // namespace

struct PrefixCache::Node {
  Node* parent = nullptr;
  SequenceId id = -1;
  std::uint32_t begin = 0;  // position of the first token
  std::vector<Token> tokens;
  std::vector<std::unique_ptr<Node>> children;  // they begin with different tokens
  std::uint32_t pins = 0;                       // on this node and on those below
  std::uint64_t last_used = 0;

  std::uint32_t size() const { return static_cast<std::uint32_t>(tokens.size()); }
  std::uint32_t end() const { return begin + size(); }

  Node* ChildWith(Token token) const {
    for (const auto& child : children) {
      if (child->tokens.front() == token) return child.get();
    }
    return nullptr;
  }
  std::unique_ptr<Node> Remove(const Node* child) {
    const auto at = std::find_if(children.begin(), children.end(),
                                 [&](const auto& each) { return each.get() == child; });
    std::unique_ptr<Node> removed = std::move(*at);
    children.erase(at);
    return removed;
  }
};

PrefixCache::PrefixCache(Decoder* decoder, SequenceId first, SequenceId end)
    : decoder_(decoder), root_(std::make_unique<Node>()) {
  for (SequenceId id = first; id < end; ++id) free_ids_.insert(free_ids_.end(), id);
}

PrefixCache::~PrefixCache() = default;

// ---- finding ------------------------------------------------------------------------------------

PrefixCache::Place PrefixCache::Walk(std::span<const Token> tokens) const {
  Place place{&*root_, 0, 0};
  while (place.total < tokens.size() && place.inside == place.node->size()) {
    Node* child = place.node->ChildWith(tokens[place.total]);
    if (child == nullptr) break;
    const std::span<const Token> rest = tokens.subspan(place.total);
    const auto parting =
        std::mismatch(child->tokens.begin(), child->tokens.end(), rest.begin(), rest.end());
    place.node = child;
    place.inside = static_cast<std::uint32_t>(parting.first - child->tokens.begin());
    place.total += place.inside;
  }
  return place;
}

std::uint32_t PrefixCache::Match(std::span<const Token> tokens) const { return Walk(tokens).total; }

void PrefixCache::Touch(Node* node) {
  ++tick_;
  for (; node != nullptr; node = node->parent) node->last_used = tick_;
}

// Lets the sequence into the cells of [begin, end), which end at or in `node`.
void PrefixCache::Share(Node* node, std::uint32_t begin, std::uint32_t end, SequenceId sequence) {
  for (; node != root_.get() && node->end() > begin; node = node->parent) {
    const std::uint32_t from = std::max(begin, node->begin);
    const std::uint32_t to = std::min(end, node->end());
    if (from < to) decoder_->ShareCells(node->id, sequence, from, to);
  }
}

PrefixCache::Pin PrefixCache::Take(std::span<const Token> tokens, SequenceId sequence) {
  const Place place = WalkToEdge(tokens, kIdsToTake);
  Touch(place.node);
  AddPin(place.node);
  Share(place.node, 0, place.total, sequence);
  return {place.node, place.total};
}

// As Walk, but ends where a node ends: it splits one, or stops above it if there is no id. Leaves
// `ids` for the caller, if they can be had.
PrefixCache::Place PrefixCache::WalkToEdge(std::span<const Token> tokens, std::size_t ids) {
  Touch(Walk(tokens).node);  // what is wanted now is evicted last
  ReserveIds(ids);
  const Place place = Walk(tokens);
  if (place.inside == place.node->size()) return place;
  if (free_ids_.empty()) {
    Node* above = place.node->parent;
    return {above, above->size(), place.total - place.inside};
  }
  Node* upper = Split(place.node, place.inside);
  return {upper, upper->size(), place.total};
}

// ---- publishing ---------------------------------------------------------------------------------

void PrefixCache::Publish(std::span<const Token> tokens, SequenceId sequence, Pin& pin) {
  const auto end = static_cast<std::uint32_t>(tokens.size());
  const Place place = WalkToEdge(tokens, kIdsToPublish);
  if (place.total > pin.length) {
    decoder_->RemoveCells(sequence, pin.length, place.total);
    Share(place.node, pin.length, place.total, sequence);
  }
  Node* node = place.node;
  std::uint32_t length = place.total;
  // A leaf may grow while nobody else pins it, who would then keep more than it uses.
  const std::uint32_t own_pins = pin.node == node ? 1 : 0;
  const bool grows = node != root_.get() && node->children.empty() && node->pins == own_pins;
  if (length < end && (grows || !free_ids_.empty())) {
    if (!grows) node = AddChild(node, length);
    length = end;
  }
  AddPin(node);
  RemovePin(pin.node);
  pin = {node, length};
  if (node->end() < length) {
    decoder_->ShareCells(sequence, node->id, node->end(), length);
    cells_ += length - node->end();
    node->tokens.insert(node->tokens.end(), tokens.begin() + node->end(), tokens.end());
  }
  Touch(node);
}

PrefixCache::Node* PrefixCache::AddChild(Node* parent, std::uint32_t begin) {
  Node* child = parent->children.emplace_back(std::make_unique<Node>()).get();
  child->parent = parent;
  child->begin = begin;
  child->id = free_ids_.extract(free_ids_.begin()).value();
  nodes_.insert(child);
  return child;
}

PrefixCache::Node* PrefixCache::Split(Node* node, std::uint32_t length) {
  const std::uint32_t cut = node->begin + length;
  std::unique_ptr<Node> lower = node->parent->Remove(node);
  Node* upper = AddChild(node->parent, node->begin);
  upper->tokens.assign(node->tokens.begin(), node->tokens.begin() + length);
  upper->pins = node->pins;
  upper->last_used = node->last_used;
  decoder_->ShareCells(node->id, upper->id, node->begin, cut);
  decoder_->RemoveCells(node->id, node->begin, cut);
  node->tokens.erase(node->tokens.begin(), node->tokens.begin() + length);
  node->begin = cut;
  node->parent = upper;
  upper->children.push_back(std::move(lower));
  return upper;
}

// ---- keeping and evicting -----------------------------------------------------------------------

void PrefixCache::AddPin(Node* node) {
  for (; node != nullptr; node = node->parent) {
    if (node->pins++ == 0) evictable_ -= node->size();
  }
}

void PrefixCache::RemovePin(Node* node) {
  for (; node != nullptr; node = node->parent) {
    if (--node->pins == 0) evictable_ += node->size();
  }
}

void PrefixCache::Release(Pin& pin) {
  RemovePin(pin.node);
  pin = {};
}

PrefixCache::Node* PrefixCache::OldestLeaf() const {
  Node* oldest = nullptr;
  for (Node* node : nodes_) {
    if (node->pins > 0 || !node->children.empty()) continue;
    if (oldest == nullptr || node->last_used < oldest->last_used) oldest = node;
  }
  return oldest;
}

void PrefixCache::CutEnd(Node* leaf, std::uint32_t cells) {
  decoder_->RemoveCells(leaf->id, leaf->end() - cells, leaf->end());
  cells_ -= cells;
  evictable_ -= cells;
  evicted_ += cells;
  leaf->tokens.resize(leaf->tokens.size() - cells);
  if (leaf->size() > 0) return;
  free_ids_.insert(leaf->id);
  nodes_.erase(leaf);
  leaf->parent->Remove(leaf);
}

void PrefixCache::Evict(std::uint32_t cells) {
  std::uint32_t freed = 0;
  while (freed < cells) {
    Node* leaf = OldestLeaf();
    if (leaf == nullptr) return;
    const std::uint32_t cut = std::min(leaf->size(), std::max(cells - freed, kLeastCut));
    CutEnd(leaf, cut);
    freed += cut;
  }
}

void PrefixCache::ReserveIds(std::size_t count) {
  while (free_ids_.size() < count) {
    Node* leaf = OldestLeaf();
    if (leaf == nullptr) return;
    CutEnd(leaf, leaf->size());
  }
}

}  // namespace svc
