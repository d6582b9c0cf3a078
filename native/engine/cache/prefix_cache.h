// Prefix cache: computed prompts stay in the KV cache until their cells are needed, so that a
// prompt with the same beginning computes only what is new (the next turn of a conversation, or the
// same instructions before another question).
//
// A radix tree over tokens. A node stands for a run of tokens and owns exactly the cells of that
// run, through a sequence id of its own. A path from the root is a prefix; a prefix that many
// prompts share is stored once. To give a prefix to a generation, its sequence is added to the
// cells of each node on the path: libllama sets a bit in each cell and moves no data. Splitting a
// node, lengthening a leaf and cutting off its end are the same kind of bookkeeping.
//
//   root ── [system prompt] ─┬─ [question A, answer A] ── [second turn]
//      id 64 owns 0..740     └─ [question B, answer B]         id 67 owns 812..900
//
// Every cell in use has one owner: a node, or the generation that computed it. Publishing moves
// cells from a generation to the tree. A prompt is published chunk by chunk, so that similar
// prompts can follow right behind it; an answer is published when it ends. If the same tokens were
// published meanwhile, the generation frees its own cells and shares the tree's.
//
// A pin keeps a node and all its ancestors. Nodes without a pin can be evicted: the least recently
// used leaf first, from its end, because the beginning of a conversation is reused more often than
// its end.
//
// Evicted nodes are swapped out: copied to ordinary memory, up to max_copied tokens, and then
// dropped, again least recently used first. A swapped-out node and all its descendants have no
// cells and no ids. Copying a token out and back costs a thousandth of computing it, while an idle
// cell slows down every step, because attention walks over it.
//
// Each salt has a tree of its own (share.h), so prompts of different salts never meet. Each node
// records which shares sent its tokens, and how far; Known() reports only what a share itself has
// sent.
//
// Cells are shared only where the model's memory is a plain cache. A recurrent state cannot be cut,
// and layers with a sliding window give up cells that the tree relies on. For such models the tree
// is off and always empty (checkpoints.h serves them).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "engine/base/share.h"
#include "engine/model/decoder.h"

namespace svc {

// Owner and thread: the Loop.
class PrefixCache {
 private:
  struct Copy;
  struct Node;

 public:
  // The part of the tree that a sequence uses: its first `length` tokens are in the cells of `node`
  // and its ancestors.
  struct Pin {
    Node* node = nullptr;
    std::uint32_t length = 0;
  };
  // A copy of the state of a text's tokens [begin, end), and of no others. May outlive the cache.
  struct Part {
    std::uint32_t begin;
    std::uint32_t end;
    std::shared_ptr<const StateBytes> state;
  };

  // Uses the sequence ids [first, end). Holds copies of at most `max_copied` tokens. The decoder
  // must outlive it.
  PrefixCache(Decoder* decoder, SequenceId first, SequenceId end, std::uint32_t max_copied);
  ~PrefixCache();

  // Number of leading tokens that are cached, in cells or swapped out.
  std::uint32_t Match(PrefixScope scope, std::span<const Token> tokens) const;
  // Number of these that the scope's owner has sent before.
  std::uint32_t Known(PrefixScope scope, std::span<const Token> tokens) const;

  // Adds the sequence to the cached cells of the tokens' longest prefix, and pins it. Takes a
  // little less if there is no free id to split a node with. REQUIRES: the sequence has no cells.
  Pin Take(PrefixScope scope, std::span<const Token> tokens, SequenceId sequence);
  // Swaps in the continuation of the pinned prefix, as far as `free_cells` and evictable cells
  // suffice, and extends the pin.
  void SwapIn(std::span<const Token> tokens, SequenceId sequence, std::uint32_t free_cells,
              Pin& pin);
  // Returns the swapped-out part of the prefix with the token at `index`. Absent: the token is in
  // cells or not cached, or the part's copy also covers other tokens.
  std::optional<Part> SwappedAt(PrefixScope scope, std::span<const Token> tokens,
                                std::uint32_t index) const;
  // Moves the cells of `tokens` to the tree, as far as there are ids for new nodes, and moves the
  // pin to their end. REQUIRES: the sequence has computed all of `tokens`.
  void Publish(PrefixScope scope, std::span<const Token> tokens, SequenceId sequence, Pin& pin);
  // Removes the pin. REQUIRES: the sequence gives up its cells now.
  void Release(Pin& pin);

  // Sets max_copied and drops the copies above it.
  void SetMaxCopied(std::uint32_t tokens);

  // Frees at least `cells` cells, or all that can be evicted. Returns the number freed.
  std::uint32_t Evict(std::uint32_t cells);

  // Drops the tokens from the cache: from the end back to the point where another prefix branches
  // off or a sequence uses them.
  void Discard(PrefixScope scope, std::span<const Token> tokens);

  std::uint32_t cells() const { return cells_; }
  std::uint32_t evictable() const { return evictable_; }
  std::uint64_t evicted() const { return evicted_; }  // cells, in total
  std::uint64_t added() const { return added_; }      // tokens that were new to the tree, in total
  std::uint32_t swapped() const { return swapped_; }  // tokens that can be swapped in
  // Tokens whose copies take memory; more than swapped() where part of a copy was dropped.
  std::uint32_t copied() const { return copied_; }

 private:
  struct Place {
    Node* node;            // the last node on the path; the root if no token matched
    std::uint32_t inside;  // matching tokens in `node`
    std::uint32_t total;   // matching tokens on the whole path
  };
  enum class Reach { kCells, kAll };   // kCells: stop at swapped-out nodes
  Node* FindRoot(ShareId salt) const;  // null: the salt has no tree
  Node* MakeRoot(ShareId salt);
  Place Walk(Node* root, std::span<const Token> tokens, Reach reach) const;
  Place WalkToEdge(Node* root, std::span<const Token> tokens, std::size_t ids);
  void Touch(Node* node);
  void Share(Node* node, std::uint32_t begin, std::uint32_t end, SequenceId sequence);
  Node* AddChild(Node* parent, std::uint32_t begin);
  // Cuts a node in two after `length` tokens; returns the upper one.
  Node* Split(Node* node, std::uint32_t length);
  void AddPin(Node* node);
  void RemovePin(Node* node);

  template <typename Matches>
  Node* Oldest(Matches matches) const;
  Node* OldestLeaf() const;
  void FreeCells(Node* leaf, std::uint32_t cells);
  std::uint32_t SwapOut(Node* leaf, std::uint32_t wanted);
  bool BringBack(Node* node, std::uint32_t* free_cells);
  Node* Revive(Node* node, std::span<const Token> tokens, SequenceId sequence);
  // Cuts off the tokens after the first `length` as a child and returns it. REQUIRES: they are
  // swapped out, or about to be.
  Node* SplitOff(Node* node, std::uint32_t length);
  void Forget(Node* leaf);
  void ForgetSwapped();
  void ForgetBelow(Node* node);
  void CutEnd(Node* leaf, std::uint32_t cells);
  void ReserveIds(std::size_t count);

  Decoder* const decoder_;
  std::uint32_t max_copied_;
  std::uint32_t copied_ = 0;  // declared before the nodes: their copies decrement it when destroyed
  std::map<ShareId, std::unique_ptr<Node>> roots_;  // by salt
  std::set<Node*> nodes_;                           // all but the roots
  std::set<SequenceId> free_ids_;
  std::uint64_t tick_ = 0;
  std::uint32_t cells_ = 0;
  std::uint32_t evictable_ = 0;
  std::uint64_t evicted_ = 0;
  std::uint64_t added_ = 0;
  std::uint32_t swapped_ = 0;
};

}  // namespace svc
