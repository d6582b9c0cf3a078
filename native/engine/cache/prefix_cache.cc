#include "engine/cache/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "engine/base/common_length.h"
#include "engine/model/media_rows.h"

namespace svc {
namespace {

// Minimum tokens to cut off a leaf: each cut walks over all cells.
constexpr std::uint32_t kLeastCut = 64;
// Maximum tokens to swap out or in at a time. Each copy walks over all cells, too; but larger
// pieces would be wasted on a prompt that shares only their beginning.
constexpr std::uint32_t kPiece = 512;
// Free ids that Take and Publish need: both may split a node, and Publish may add one.
constexpr std::size_t kIdsToTake = 1;
constexpr std::size_t kIdsToPublish = 2;
// Shares that a node records. A share that was dropped gets fewer cached tokens reported.
constexpr std::size_t kMostMarks = 64;

}  // namespace

// Copy of a node's state. SplitOff may leave several nodes with one Copy, because a state cannot be
// cut; it counts in full until the last of them is gone.
struct PrefixCache::Copy {
  Copy(StateBytes bytes, std::uint32_t size, std::uint32_t* total)
      : state(std::make_shared<const StateBytes>(std::move(bytes))), tokens(size), counter(total) {
    *counter += tokens;
  }
  ~Copy() { *counter -= tokens; }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  const std::shared_ptr<const StateBytes> state;
  const std::uint32_t tokens;
  std::uint32_t* const counter;
};

struct PrefixCache::Node {
  // Position up to which a share has sent the node's tokens.
  struct Mark {
    ShareId owner;
    std::uint32_t end;
  };

  Node* parent = nullptr;
  SequenceId id = -1;       // negative: swapped out
  std::uint32_t begin = 0;  // position of the first token
  std::vector<Token> tokens;
  std::shared_ptr<const Copy> copy;             // null: the node has cells
  std::vector<std::unique_ptr<Node>> children;  // their first tokens differ
  std::uint32_t pins = 0;                       // on this node and its descendants
  std::uint64_t last_used = 0;
  std::vector<Mark> marks;  // most recent last

  bool is_root() const { return parent == nullptr; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(tokens.size()); }
  std::uint32_t end() const { return begin + size(); }

  bool swapped() const { return copy != nullptr; }
  // True if no descendant has cells.
  bool is_leaf() const {
    return std::all_of(children.begin(), children.end(),
                       [](const auto& child) { return child->swapped(); });
  }

  // Size of the node's end of at least `wanted` tokens that can be cut off.
  std::uint32_t EndOf(std::uint32_t wanted) const {
    return size() - WholePictures(tokens, size() - std::min(size(), wanted));
  }

  // Position up to which the owner has sent the tokens; at least `begin`.
  std::uint32_t MarkOf(ShareId owner) const {
    for (const Mark& mark : marks) {
      if (mark.owner == owner) return mark.end;
    }
    return begin;
  }
  void SetMark(ShareId owner, std::uint32_t position) {
    const std::uint32_t reached = std::max(MarkOf(owner), std::min(position, end()));
    std::erase_if(marks, [&](const Mark& mark) { return mark.owner == owner; });
    if (reached <= begin) return;
    if (marks.size() == kMostMarks) marks.erase(marks.begin());
    marks.push_back({owner, reached});
  }
  // Shortens or removes the marks beyond `cut`, where the node is about to end, and returns them.
  std::vector<Mark> CutMarks(std::uint32_t cut) {
    std::vector<Mark> behind;
    for (Mark& mark : marks) {
      if (mark.end <= cut) continue;
      behind.push_back(mark);
      mark.end = cut;
    }
    std::erase_if(marks, [&](const Mark& mark) { return mark.end <= begin; });
    return behind;
  }

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

PrefixCache::PrefixCache(Decoder* decoder, SequenceId first, SequenceId end,
                         std::uint32_t max_copied)
    : decoder_(decoder), max_copied_(max_copied) {
  for (SequenceId id = first; id < end; ++id) free_ids_.insert(free_ids_.end(), id);
}

PrefixCache::~PrefixCache() = default;

// ---- finding ------------------------------------------------------------------------------------

PrefixCache::Node* PrefixCache::FindRoot(ShareId salt) const {
  const auto found = roots_.find(salt);
  return found == roots_.end() ? nullptr : found->second.get();
}

PrefixCache::Node* PrefixCache::MakeRoot(ShareId salt) {
  if (Node* root = FindRoot(salt)) return root;
  std::erase_if(roots_, [](const auto& each) {
    return each.second->children.empty() && each.second->pins == 0;
  });
  return roots_.emplace(salt, std::make_unique<Node>()).first->second.get();
}

PrefixCache::Place PrefixCache::Walk(Node* root, std::span<const Token> tokens, Reach reach) const {
  Place place{root, 0, 0};
  while (place.total < tokens.size() && place.inside == place.node->size()) {
    Node* child = place.node->ChildWith(tokens[place.total]);
    if (child == nullptr || (child->swapped() && reach == Reach::kCells)) break;
    const std::uint32_t common = CommonLength(child->tokens, tokens.subspan(place.total));
    const std::uint32_t inside = WholePictures(child->tokens, common);
    if (inside == 0) break;
    place = {child, inside, place.total + inside};
  }
  return place;
}

std::uint32_t PrefixCache::Match(PrefixScope scope, std::span<const Token> tokens) const {
  Node* root = FindRoot(scope.salt);
  return root == nullptr ? 0 : Walk(root, tokens, Reach::kAll).total;
}

std::uint32_t PrefixCache::Known(PrefixScope scope, std::span<const Token> tokens) const {
  Node* root = FindRoot(scope.salt);
  if (root == nullptr) return 0;
  const Place place = Walk(root, tokens, Reach::kAll);
  std::uint32_t known = place.total;
  // From the leaf up, so that the first gap counts.
  for (const Node* node = place.node; !node->is_root(); node = node->parent) {
    const std::uint32_t reached = node->MarkOf(scope.owner);
    if (reached < std::min(node->end(), place.total)) known = reached;
  }
  return known;
}

std::optional<PrefixCache::Part> PrefixCache::SwappedAt(PrefixScope scope,
                                                        std::span<const Token> tokens,
                                                        std::uint32_t index) const {
  Node* root = FindRoot(scope.salt);
  if (root == nullptr) return std::nullopt;
  const Place place = Walk(root, tokens, Reach::kAll);
  const Node* node = place.node;
  while (!node->is_root() && node->begin > index) node = node->parent;
  const bool has_it = index < place.total && node->end() <= place.total;
  if (!has_it || !node->swapped() || node->copy->tokens != node->size()) return std::nullopt;
  return Part{node->begin, node->end(), node->copy->state};
}

void PrefixCache::Touch(Node* node) {
  ++tick_;
  for (; node != nullptr; node = node->parent) node->last_used = tick_;
}

// Adds the sequence to the cells of positions [begin, end), which end at or in `node`.
void PrefixCache::Share(Node* node, std::uint32_t begin, std::uint32_t end, SequenceId sequence) {
  for (; !node->is_root() && node->end() > begin; node = node->parent) {
    const std::uint32_t from = std::max(begin, node->begin);
    const std::uint32_t to = std::min(end, node->end());
    if (from < to) decoder_->ShareCells(node->id, sequence, from, to);
  }
}

PrefixCache::Pin PrefixCache::Take(PrefixScope scope, std::span<const Token> tokens,
                                   SequenceId sequence) {
  const Place place = WalkToEdge(MakeRoot(scope.salt), tokens, kIdsToTake);
  Touch(place.node);
  AddPin(place.node);
  Share(place.node, 0, place.total, sequence);
  return {place.node, place.total};
}

// Walk(kCells), but ends at the end of a node: splits the last node or, without a free id, stops at
// its parent. Tries to leave `ids` free ids for the caller.
PrefixCache::Place PrefixCache::WalkToEdge(Node* root, std::span<const Token> tokens,
                                           std::size_t ids) {
  Touch(Walk(root, tokens, Reach::kAll).node);  // what is wanted now is evicted last
  ReserveIds(ids);
  const Place place = Walk(root, tokens, Reach::kCells);
  if (place.inside == place.node->size()) return place;
  if (free_ids_.empty()) {
    Node* above = place.node->parent;
    return {above, above->size(), place.total - place.inside};
  }
  Node* upper = Split(place.node, place.inside);
  return {upper, upper->size(), place.total};
}

// ---- publishing ---------------------------------------------------------------------------------

void PrefixCache::Publish(PrefixScope scope, std::span<const Token> tokens, SequenceId sequence,
                          Pin& pin) {
  const auto end = static_cast<std::uint32_t>(tokens.size());
  const Place place = WalkToEdge(MakeRoot(scope.salt), tokens, kIdsToPublish);
  if (place.total > pin.length) {
    decoder_->RemoveCells(sequence, pin.length, place.total);
    Share(place.node, pin.length, place.total, sequence);
  }
  Node* node = Revive(place.node, tokens, sequence);
  std::uint32_t length = node->end();
  // A leaf grows only while no other sequence pins it: that one would then keep more than it uses.
  const std::uint32_t own_pins = pin.node == node ? 1 : 0;
  const bool grows = !node->is_root() && node->children.empty() && node->pins == own_pins;
  // A child that begins alike has a picture of which these tokens have only a part so far.
  const bool may_branch = !free_ids_.empty() && length < end && !node->ChildWith(tokens[length]);
  if (length < end && (grows || may_branch)) {
    if (!grows) node = AddChild(node, length);
    length = end;
  }
  AddPin(node);
  RemovePin(pin.node);
  pin = {node, length};
  if (node->end() < length) {
    decoder_->ShareCells(sequence, node->id, node->end(), length);
    cells_ += length - node->end();
    added_ += length - node->end();
    node->tokens.insert(node->tokens.end(), tokens.begin() + node->end(), tokens.end());
  }
  Touch(node);
  for (; !node->is_root(); node = node->parent) node->SetMark(scope.owner, length);
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
  std::vector<Node::Mark> behind = node->CutMarks(cut);
  upper->marks = std::exchange(node->marks, std::move(behind));
  node->begin = cut;
  node->parent = upper;
  upper->children.push_back(std::move(lower));
  return upper;
}

// Hands the sequence's cells to swapped-out nodes below `node` whose tokens the sequence has
// computed again. Returns the last node that has cells then.
PrefixCache::Node* PrefixCache::Revive(Node* node, std::span<const Token> tokens,
                                       SequenceId sequence) {
  AddPin(node);
  while (node->end() < tokens.size()) {
    Node* next = node->ChildWith(tokens[node->end()]);
    if (next == nullptr) break;
    ++next->pins;
    ReserveIds(1);
    --next->pins;
    if (free_ids_.empty()) break;
    const std::uint32_t common = SharedLength(next->tokens, tokens.subspan(next->begin));
    if (common == 0) break;
    if (common < next->size()) SplitOff(next, common);
    next->copy = nullptr;
    next->id = free_ids_.extract(free_ids_.begin()).value();
    decoder_->ShareCells(sequence, next->id, next->begin, next->end());
    swapped_ -= next->size();
    cells_ += next->size();
    evictable_ += next->size();
    AddPin(next);
    RemovePin(node);
    node = next;
  }
  RemovePin(node);
  return node;
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

// The least recently used matching node without pins, or null.
template <typename Matches>
PrefixCache::Node* PrefixCache::Oldest(Matches matches) const {
  Node* oldest = nullptr;
  for (Node* node : nodes_) {
    if (node->pins > 0 || !matches(*node)) continue;
    if (oldest == nullptr || node->last_used < oldest->last_used) oldest = node;
  }
  return oldest;
}

PrefixCache::Node* PrefixCache::OldestLeaf() const {
  return Oldest([](const Node& node) { return !node.swapped() && node.is_leaf(); });
}

// Frees the leaf's last cells; its tokens stay.
void PrefixCache::FreeCells(Node* leaf, std::uint32_t cells) {
  decoder_->RemoveCells(leaf->id, leaf->end() - cells, leaf->end());
  cells_ -= cells;
  evictable_ -= cells;
  evicted_ += cells;
}

std::uint32_t PrefixCache::Evict(std::uint32_t cells) {
  std::uint32_t freed = 0;
  while (freed < cells) {
    Node* leaf = OldestLeaf();
    if (leaf == nullptr) break;
    freed += SwapOut(leaf, cells - freed);
  }
  return freed;
}

// Swaps out a piece at the leaf's end and returns the number of cells freed. If it cannot be
// copied, drops it; then only about as much as is wanted.
std::uint32_t PrefixCache::SwapOut(Node* leaf, std::uint32_t wanted) {
  std::uint32_t cut = leaf->EndOf(kPiece);
  StateBytes state;
  if (max_copied_ > 0) state = decoder_->SaveState(leaf->id, leaf->end() - cut, leaf->end());
  if (state.empty()) {
    cut = leaf->EndOf(std::max(wanted, kLeastCut));
    CutEnd(leaf, cut);
    return cut;
  }
  FreeCells(leaf, cut);
  Node* piece = leaf;
  if (cut < leaf->size()) {
    piece = SplitOff(leaf, leaf->size() - cut);
  } else {
    free_ids_.insert(std::exchange(leaf->id, -1));
  }
  piece->copy = std::make_shared<const Copy>(std::move(state), cut, &copied_);
  swapped_ += cut;
  ForgetSwapped();
  return cut;
}

void PrefixCache::SwapIn(std::span<const Token> tokens, SequenceId sequence,
                         std::uint32_t free_cells, Pin& pin) {
  while (pin.length < tokens.size()) {
    Node* next = pin.node->ChildWith(tokens[pin.length]);
    if (next == nullptr || !next->swapped() || !BringBack(next, &free_cells)) return;
    Node* root = pin.node;
    while (!root->is_root()) root = root->parent;
    const Place place = WalkToEdge(root, tokens, kIdsToTake);
    // If ids are scarce, WalkToEdge may have taken the id of the node just brought back.
    if (place.total <= pin.length) return;
    Share(place.node, pin.length, place.total, sequence);
    AddPin(place.node);
    RemovePin(pin.node);
    pin = {place.node, place.total};
  }
}

// Loads a swapped-out node into cells. False: it stays swapped out. REQUIRES: its ancestors have
// cells and are pinned.
bool PrefixCache::BringBack(Node* node, std::uint32_t* free_cells) {
  // If only the caller pins the parent, and this is its only child, the node is merged into the
  // parent: otherwise a long text would end up in many nodes.
  Node* parent = node->parent;
  const bool joins = !parent->is_root() && parent->pins == 1 && parent->children.size() == 1;
  const std::uint32_t needed = node->copy->tokens;
  Touch(node);
  ++node->pins;  // Evict may drop swapped-out nodes
  if (*free_cells < needed) *free_cells += Evict(needed - *free_cells);
  if (!joins) ReserveIds(1);
  --node->pins;
  if (*free_cells < needed || (!joins && free_ids_.empty())) return false;
  const SequenceId id = joins ? parent->id : *free_ids_.begin();
  if (!decoder_->LoadState(id, *node->copy->state, node->begin, node->end())) return false;
  *free_cells -= node->size();
  swapped_ -= node->size();
  cells_ += node->size();
  if (!joins) {
    node->copy = nullptr;
    node->id = id;
    free_ids_.erase(id);
    evictable_ += node->size();
    return true;
  }
  const std::uint32_t joint = parent->end();
  parent->tokens.insert(parent->tokens.end(), node->tokens.begin(), node->tokens.end());
  for (const Node::Mark& mark : node->marks) {
    if (parent->MarkOf(mark.owner) == joint) parent->SetMark(mark.owner, mark.end);
  }
  const std::unique_ptr<Node> joined = parent->Remove(node);
  nodes_.erase(node);
  parent->children = std::move(joined->children);
  for (const auto& child : parent->children) child->parent = parent;
  return true;
}

PrefixCache::Node* PrefixCache::SplitOff(Node* node, std::uint32_t length) {
  auto tail = std::make_unique<Node>();
  tail->parent = node;
  tail->begin = node->begin + length;
  tail->tokens.assign(node->tokens.begin() + length, node->tokens.end());
  tail->copy = node->copy;
  tail->last_used = node->last_used;
  tail->marks = node->CutMarks(tail->begin);
  tail->children = std::move(node->children);
  for (const auto& child : tail->children) child->parent = tail.get();
  node->tokens.resize(length);
  node->children.clear();
  nodes_.insert(tail.get());
  return node->children.emplace_back(std::move(tail)).get();
}

// ---- forgetting ---------------------------------------------------------------------------------

void PrefixCache::SetMaxCopied(std::uint32_t tokens) {
  max_copied_ = tokens;
  ForgetSwapped();
}

// Drops the least recently used copies until max_copied_ holds.
void PrefixCache::ForgetSwapped() {
  while (copied_ > max_copied_) {
    Node* oldest = Oldest([](const Node& node) { return node.swapped() && node.children.empty(); });
    if (oldest == nullptr) return;
    Forget(oldest);
  }
}

// Removes a leaf from the tree. REQUIRES: it has no cells and no children.
void PrefixCache::Forget(Node* leaf) {
  if (leaf->swapped()) swapped_ -= leaf->size();
  nodes_.erase(leaf);
  leaf->parent->Remove(leaf);
}

// Removes all descendants. REQUIRES: all of them are swapped out.
void PrefixCache::ForgetBelow(Node* node) {
  while (!node->children.empty()) {
    Node* child = node->children.back().get();
    ForgetBelow(child);
    Forget(child);
  }
}

void PrefixCache::Discard(PrefixScope scope, std::span<const Token> tokens) {
  Node* root = FindRoot(scope.salt);
  if (root == nullptr) return;
  Node* node = Walk(root, tokens, Reach::kAll).node;
  // Swapped-out continuations of the tokens are dropped with them.
  bool ends = node->is_leaf();
  while (!node->is_root() && node->pins == 0 && ends) {
    Node* const parent = node->parent;
    if (node->swapped()) {
      ForgetBelow(node);
      Forget(node);
    } else {
      CutEnd(node, node->size());
    }
    node = parent;
    ends = node->children.empty();
  }
}

void PrefixCache::CutEnd(Node* leaf, std::uint32_t cells) {
  ForgetBelow(leaf);
  FreeCells(leaf, cells);
  leaf->CutMarks(leaf->end() - cells);
  leaf->tokens.resize(leaf->tokens.size() - cells);
  if (leaf->size() > 0) return;
  free_ids_.insert(leaf->id);
  Forget(leaf);
}

void PrefixCache::ReserveIds(std::size_t count) {
  while (free_ids_.size() < count) {
    Node* leaf = OldestLeaf();
    if (leaf == nullptr) return;
    SwapOut(leaf, leaf->size());
  }
}

}  // namespace svc
