// The tiers behind the prefix cache's cells: checkpoints (for models whose memory cannot be cut)
// and the disk.
//
//   a prompt arrives ─► Fetch ─► [reader thread reads] ─► TakeFetched ─► cells or checkpoints
//   a text ends ──────► Keep ──► [until idle: unsaved_] ─► SaveOne ────► [writer thread writes]
//
// Pieces from the disk are loaded into the cells or checkpoints in which the loop looks anyway, so
// there is a single way to reuse a prefix. If a piece is evicted again before its generation is
// admitted, the tokens are computed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/cache/checkpoints.h"
#include "engine/cache/prefix_cache.h"
#include "engine/cache/prefix_store.h"
#include "engine/model/decoder.h"

namespace svc {

// Owner and thread: the Loop.
class PrefixTiers {
 public:
  // Maximum size of the state in one file, in bytes, where a state can be cut. Steps wait while it
  // is copied, and the copy is in no estimate of memory.
  static constexpr std::uint64_t kMostPieceBytes = 32ULL << 20U;

  // The decoder and the cache must outlive it. `store`: null means no disk tier.
  PrefixTiers(Decoder* decoder, PrefixCache* cache, std::unique_ptr<PrefixStore> store,
              std::uint64_t most_piece_bytes = kMostPieceBytes);

  // Call when the decoder's cache has grown: states are larger then, and so is their limit.
  void Grown() { checkpoints_.SetMaxBytes(decoder_->max_state_bytes()); }

  // Number of leading tokens that are in memory.
  std::uint32_t Match(PrefixScope scope, std::span<const Token> tokens) const;
  // Number of these that the scope's owner has sent before.
  std::uint32_t Known(PrefixScope scope, std::span<const Token> tokens) const;

  // ---- checkpoints: only where the decoder cannot share ----

  // Loads the longest checkpoint of the tokens into the sequence. Returns its length; 0: none, or
  // it failed. REQUIRES: the sequence has no cells.
  std::uint32_t Restore(PrefixScope scope, std::span<const Token> tokens, SequenceId sequence);
  // As Checkpoints::CutRows.
  std::uint32_t CutRows(PrefixScope scope, std::span<const Token> prompt, std::uint32_t computed,
                        std::uint32_t rows) const;
  // Called when the sequence has computed the first `computed` tokens of the prompt: stores a
  // checkpoint if one belongs there. `on_disk` as in Keep.
  void PromptComputed(PrefixScope scope, std::span<const Token> prompt, std::uint32_t computed,
                      SequenceId sequence, bool on_disk);

  // Evicts checkpoints until copies of states with `bytes` in all fit beside the others. False:
  // they do not fit.
  bool MakeRoomForStates(std::uint64_t bytes);

  // Drops the cached state of the tokens: in memory, unless another prompt uses it, and on disk.
  void Discard(PrefixScope scope, std::span<const Token> tokens);

  // ---- the ends of generations ----

  // Keeps the tokens of a sequence that is about to end: stores a checkpoint if cells cannot be
  // shared, and queues them for the disk if `on_disk`. REQUIRES: the sequence has computed all of
  // `tokens` and still has its cells.
  void Keep(PrefixScope scope, std::span<const Token> tokens, SequenceId sequence, bool on_disk);

  // Free cells: used neither by the prefix cache nor by generations, which use `busy_cells`.
  std::uint32_t FreeCells(std::uint32_t busy_cells) const {
    return decoder_->cells_total() - busy_cells - cache_->cells();
  }

  // ---- the disk ----

  PrefixStore* store() const { return store_.get(); }
  // Hands over the store; after that there is no disk tier.
  std::unique_ptr<PrefixStore> TakeStore() { return std::move(store_); }
  // Starts reading what the disk has beyond the memory. False: not worth it; nothing is read.
  bool Fetch(GenerationId wanted_by, PrefixScope scope, std::span<const Token> tokens);
  // Cancels the reads that only this generation waits for.
  void CancelFetch(GenerationId wanted_by);
  // Loads the pieces read so far, as far as cells are free beside `busy_cells`. `sequence`: a free
  // sequence id, negative: none. Returns the generations that need not wait any longer.
  std::vector<GenerationId> TakeFetched(SequenceId sequence, std::uint32_t busy_cells);

  // True if something is queued and the store accepts a write.
  bool WantsToSave() const;
  // True if a queued text may soon be lost: later texts have taken half as many cells as there are,
  // or many texts are queued. Until then they can wait for an idle time.
  bool MayLoseUnsaved() const;
  // Hands one piece of a queued text to the store: a copy of cells, or what is swapped out, as it
  // is. `sequence`: a free sequence id, negative: none. REQUIRES: WantsToSave()
  void SaveOne(SequenceId sequence, std::uint32_t busy_cells);

 private:
  struct Unsaved {
    PrefixScope scope;
    std::vector<Token> tokens;
    std::uint64_t kept_before;    // kept() when it was queued
    std::uint32_t attempted = 0;  // the end of the pieces that the store got
  };
  // Tokens that took cells, or copies of whole states, in total.
  std::uint64_t kept() const { return decoder_->can_share() ? cache_->added() : kept_in_states_; }
  std::optional<PrefixCache::Part> CopyPart(const Unsaved& text, std::uint32_t stored,
                                            SequenceId sequence, std::uint32_t busy_cells);
  std::uint32_t EndOfPiece(std::span<const Token> tokens, std::uint32_t begin,
                           std::uint64_t bytes) const;
  void SaveWholeState(const Unsaved& unsaved, std::uint32_t stored);
  void Adopt(FetchedPiece piece, SequenceId sequence, std::uint32_t busy_cells);
  // Brings the limit of the checkpoints and what counts towards it up to date.
  void BoundCheckpoints();
  void CountReads();

  Decoder* const decoder_;
  const std::uint64_t most_piece_bytes_;
  PrefixCache* const cache_;
  std::unique_ptr<PrefixStore> store_;
  Checkpoints checkpoints_;
  std::deque<Unsaved> unsaved_;
  std::uint64_t kept_in_states_ = 0;             // tokens, in total
  std::map<GenerationId, std::uint64_t> reads_;  // bytes of the whole states being read
};

}  // namespace svc
