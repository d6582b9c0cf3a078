// Checkpoints: the prefix cache for models whose memory cannot be cut. A recurrent state cannot be
// rolled back, and a sliding window gives up cells, so their cells can be neither shared nor
// shortened. But a state can be copied: after the beginning of a prompt, and at the end of a text.
// A prompt that begins with all tokens of such a checkpoint loads a copy of the state and computes
// the rest.
//
// Where a prompt is cut for a checkpoint: at a multiple of a tile (the rows that attention
// processes at a time) with at least one whole tile after it. So the rest is computed in the same
// batches whether the beginning was computed or loaded, and every number is the same. There are two
// such places: near the end of the prompt, for repeated prompts and for those that differ only at
// the end; and where the prompt diverges from an earlier one, because further prompts are likely to
// diverge there too (after the instructions, or after a document).
#pragma once

#include <algorithm>
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
    std::vector<ShareId> owners = {};  // shares that sent the tokens, most recent last
  };

  // max_bytes: limit for all states together, those being written to or read from the disk
  // included.
  explicit Checkpoints(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Raises the limit.
  void SetMaxBytes(std::uint64_t max_bytes) { max_bytes_ = std::max(max_bytes_, max_bytes); }
  // Evicts the least recently used checkpoints until a state of that size fits beside the others.
  // False: it does not fit, and nothing was evicted.
  bool MakeRoom(std::uint64_t bytes);
  // Sets the state that is being written to the disk; null: none. It counts towards the limit until
  // the write has ended, even if it is evicted.
  void SetWritten(const std::shared_ptr<const StateBytes>& state) { written_ = state; }
  // Size of a state that is being read from the disk; 0: none is. Evicts for it as far as possible.
  void SetRead(std::uint64_t bytes);
  // Largest state that could be read now.
  std::uint64_t max_read_bytes() const;

  // Stores the state after these tokens, evicting as MakeRoom. One that does not fit is dropped.
  void Put(PrefixScope scope, std::vector<Token> tokens, std::shared_ptr<const StateBytes> state);
  // Returns the longest checkpoint that is a prefix of the tokens, and marks it as used; null:
  // none. Valid until the next Put.
  const Checkpoint* Take(PrefixScope scope, std::span<const Token> tokens);
  // Length of the checkpoint that Take would return; 0: none.
  std::uint32_t Match(PrefixScope scope, std::span<const Token> tokens) const;
  // Length of the longest such checkpoint that the scope's owner has sent before; 0: none.
  std::uint32_t Known(PrefixScope scope, std::span<const Token> tokens) const;
  // True if there is a checkpoint of exactly these tokens.
  bool Has(PrefixScope scope, std::span<const Token> tokens) const;
  // Drops all checkpoints whose tokens are a prefix of `tokens`.
  void Discard(PrefixScope scope, std::span<const Token> tokens);
  // Records that the scope's owner has sent the tokens, if there is a checkpoint of exactly these.
  void MarkKnown(PrefixScope scope, std::span<const Token> tokens);

  // Number of the next `rows` tokens of a prompt to compute in one step, so that the step ends at a
  // place for a checkpoint. `computed`: tokens of the prompt that have been computed.
  std::uint32_t CutRows(PrefixScope scope, std::span<const Token> prompt, std::uint32_t computed,
                        std::uint32_t rows) const;
  // True if `computed` is a place for a checkpoint and there is none yet.
  bool BelongsAt(PrefixScope scope, std::span<const Token> prompt, std::uint32_t computed) const;

  std::uint64_t bytes() const { return bytes_; }

 private:
  // Bytes that no eviction frees. `written`: the state that is being written, or null.
  std::uint64_t FixedBytes(const StateBytes* written) const {
    return read_bytes_ + (written != nullptr ? written->size() : 0);
  }
  void EvictDownTo(std::uint64_t bytes, const StateBytes* written);
  std::vector<std::uint32_t> PlacesIn(PrefixScope scope, std::span<const Token> prompt) const;

  std::uint64_t max_bytes_;
  std::uint64_t bytes_ = 0;  // of checkpoints_
  std::uint64_t read_bytes_ = 0;
  std::weak_ptr<const StateBytes> written_;
  std::list<Checkpoint> checkpoints_;  // most recently used first
};

}  // namespace svc
