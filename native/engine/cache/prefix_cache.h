// What has been computed stays until its cells are wanted, so that a prompt that begins like an
// earlier one computes only what is new: the next turn of a conversation, the same instructions
// before another question.
//
// A radix tree over tokens. A node stands for a run of tokens and owns the cells of that run, and
// of nothing else, through a sequence id of its own; so a path from the root is a prefix, and a
// prefix that many share is stored once. Giving a prefix to a generation lets its sequence into the
// cells of each node on the path: libllama changes a bit in each cell and moves no data. Splitting
// a node where two prompts part, lengthening a leaf, cutting its end off are the same kind of
// bookkeeping.
//
//   root ── [system prompt] ─┬─ [question A, answer A] ── [second turn]
//      id 64 owns 0..740     └─ [question B, answer B]         id 67 owns 812..900
//
// Every cell in use has one owner: a node, or the generation that computed it. Publishing hands
// cells from a generation to the tree; a prompt is published chunk by chunk, so that others follow
// right behind it, an answer when it ends. Where somebody else has published the same tokens
// meanwhile, the generation lets go of its own cells and takes part in those.
//
// A pin keeps a node and all above it; what nobody pins can be evicted, the least recently used
// leaf first, from its end, because the beginning of a conversation is worth more than the end.
//
// What is evicted is swapped out: copied to ordinary memory, where as many tokens have room as
// there are cells, and then forgotten, again the least recently used first. A node that is swapped
// out has no cells and no id, and so has all below it. To copy a token there and back takes a
// thousandth of what computing it does, and a cell that holds it meanwhile costs every step
// something: attention walks over it.
//
// Each salt has a tree of its own (share.h), so that prompts of one salt never meet another's. Each
// node knows which shares sent its tokens, and how far: Known reports what a share may learn about.
//
// Cells are shared only where the model's memory is a plain cache. A recurrent state cannot be cut,
// and layers with a sliding window give up cells that the tree believes in: there the tree is off,
// holds nothing and finds nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
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
  // What a sequence has of the tree: its first `length` tokens stand in cells of `node` and of
  // those above it.
  struct Pin {
    Node* node = nullptr;
    std::uint32_t length = 0;
  };

  // The ids in [first, end) are its own. The decoder must outlive it. Copies of at most so many
  // tokens are held.
  PrefixCache(Decoder* decoder, SequenceId first, SequenceId end, std::uint32_t max_copied);
  ~PrefixCache();

  // How many of the tokens are here, from the first on, in cells or swapped out.
  std::uint32_t Match(PrefixScope scope, std::span<const Token> tokens) const;
  // Number of these that the scope's owner has sent before.
  std::uint32_t Known(PrefixScope scope, std::span<const Token> tokens) const;

  // Gives the sequence, which has no cells, what there is in cells, or a little less where there is
  // no id to split a node with, and pins it.
  Pin Take(PrefixScope scope, std::span<const Token> tokens, SequenceId sequence);
  // Then what is swapped out of them, as far as `free_cells` and what can be evicted suffice.
  void SwapIn(std::span<const Token> tokens, SequenceId sequence, std::uint32_t free_cells,
              Pin& pin);
  // The sequence has computed all of `tokens`: their cells become the tree's as far as there are
  // ids for new nodes, and the pin moves to their end.
  void Publish(PrefixScope scope, std::span<const Token> tokens, SequenceId sequence, Pin& pin);
  // REQUIRES: the sequence lets go of its cells now.
  void Release(Pin& pin);

  // Of what is swapped out, forgets what is more than that, now and from now on.
  void SetMaxCopied(std::uint32_t tokens);

  // Frees at least `cells`, or all that can be; returns how many.
  std::uint32_t Evict(std::uint32_t cells);

  // Forgets the tokens, from the end of what is here of them back to where another prefix parts
  // from them or a sequence uses them.
  void Discard(PrefixScope scope, std::span<const Token> tokens);

  std::uint32_t cells() const { return cells_; }
  std::uint32_t evictable() const { return evictable_; }
  std::uint64_t evicted() const { return evicted_; }  // since it was made
  std::uint32_t swapped() const { return swapped_; }  // tokens that can be brought back
  // Tokens whose copies take memory; more than swapped() where parts of a copy were forgotten.
  std::uint32_t copied() const { return copied_; }

 private:
  struct Place {
    Node* node;            // the last one that holds a token of the walk, or the root
    std::uint32_t inside;  // how many of its own
    std::uint32_t total;
  };
  enum class Reach { kCells, kAll };
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
  // The part behind its first `length` tokens, swapped out or about to be.
  Node* SplitOff(Node* node, std::uint32_t length);
  void Forget(Node* leaf);
  void ForgetSwapped();
  void ForgetBelow(Node* node);
  void CutEnd(Node* leaf, std::uint32_t cells);
  void ReserveIds(std::size_t count);

  Decoder* const decoder_;
  std::uint32_t max_copied_;
  std::uint32_t copied_ = 0;  // before the nodes, whose copies count there until they are gone
  std::map<ShareId, std::unique_ptr<Node>> roots_;  // by salt
  std::set<Node*> nodes_;                           // all but the roots
  std::set<SequenceId> free_ids_;
  std::uint64_t tick_ = 0;
  std::uint32_t cells_ = 0;
  std::uint32_t evictable_ = 0;
  std::uint64_t evicted_ = 0;
  std::uint32_t swapped_ = 0;
};

}  // namespace svc
