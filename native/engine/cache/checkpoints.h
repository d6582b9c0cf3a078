// The prefix cache of models whose memory cannot be cut: what a recurrent state has forgotten does
// not come back, and a sliding window gives up cells. There is nothing to share there and nothing
// to shorten, but a state can be copied: as it is after a prompt's beginning, and when a text ends.
// A prompt that begins with all tokens of such a checkpoint gets a copy and computes the rest.
//
// Where a prompt is cut for a checkpoint. At a multiple of a tile (the rows that attention takes at
// a time), with a whole one left after it: so the rest is computed in the same pieces whether the
// beginning was or not, and every number is the same. Once near the end of the prompt, for those
// that ask again and those that ask something else at the end; and once where it parts from one
// that came before, because where two parted (after the instructions, or a document) others will.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/share.h"
#include "engine/cache/prefix_file.h"

namespace svc {

// Owner and thread: the Loop.
class Checkpoints {
 public:
  struct Checkpoint {
    std::vector<Token> tokens;
    std::shared_ptr<const StateBytes> state;
    ShareId salt = 0;
    std::vector<ShareId> owners = {};  // the shares that sent the tokens; the last at the end
  };

  // Of all states together.
  explicit Checkpoints(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Keeps the state after these tokens; those used longest ago go. One too large is not kept.
  void Put(PrefixScope scope, std::vector<Token> tokens, std::shared_ptr<const StateBytes> state);
  // The longest that all of begins the tokens; null: none. Used now. Valid until the next Put.
  const Checkpoint* Take(PrefixScope scope, std::span<const Token> tokens);
  // Its length.
  std::uint32_t Match(PrefixScope scope, std::span<const Token> tokens) const;
  // Length of the longest that the scope's owner has sent before.
  std::uint32_t Known(PrefixScope scope, std::span<const Token> tokens) const;
  bool Has(PrefixScope scope, std::span<const Token> tokens) const;
  // Records that the owner has sent the tokens, where that is a checkpoint.
  void MarkKnown(PrefixScope scope, std::span<const Token> tokens);

  // How many tokens a step may compute of a prompt that is computed up to `computed`, of the next
  // `rows`, so that it ends where a checkpoint belongs.
  std::uint32_t CutRows(PrefixScope scope, std::span<const Token> prompt, std::uint32_t computed,
                        std::uint32_t rows) const;
  // Whether one belongs there.
  bool BelongsAt(PrefixScope scope, std::span<const Token> prompt, std::uint32_t computed) const;

  std::uint64_t bytes() const { return bytes_; }

 private:
  std::vector<std::uint32_t> PlacesIn(PrefixScope scope, std::span<const Token> prompt) const;

  const std::uint64_t max_bytes_;
  std::uint64_t bytes_ = 0;
  std::list<Checkpoint> checkpoints_;  // the last used first
};

}  // namespace svc
