// What is behind the cells of the prefix cache: checkpoints, where a model's memory cannot be cut,
// and the disk.
//
//   a prompt arrives ──► Fetch ──► (the store's thread reads) ──► TakeFetched ──► cells,
//   checkpoints a text ends ──► Keep ──► (nobody wants anything) ──► SaveOne ──► (the store's
//   thread writes)
//
// Pieces that come from the disk go where the loop looks anyway, so there is one way to reuse a
// prefix; by the time it is wanted it may have been evicted again, and is computed.
#pragma once

#include <cstdint>
#include <deque>
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
  // The decoder and the cache must outlive it. `store` may be null: there is no disk tier.
  PrefixTiers(Decoder* decoder, PrefixCache* cache, std::unique_ptr<PrefixStore> store);

  // How many of the tokens are in memory.
  std::uint32_t Match(PrefixScope scope, std::span<const Token> tokens) const;
  // Number of these that the scope's owner has sent before.
  std::uint32_t Known(PrefixScope scope, std::span<const Token> tokens) const;

  // ---- checkpoints: only where the decoder cannot share ----

  // Gives the sequence, which has no cells, the longest checkpoint of the tokens. Returns its
  // length.
  std::uint32_t Restore(PrefixScope scope, std::span<const Token> tokens, SequenceId sequence);
  // As Checkpoints::CutRows.
  std::uint32_t CutRows(PrefixScope scope, std::span<const Token> prompt, std::uint32_t computed,
                        std::uint32_t rows) const;
  // The sequence has computed so much of the prompt: a place for a checkpoint? `on_disk` as Keep.
  void PromptComputed(PrefixScope scope, std::span<const Token> prompt, std::uint32_t computed,
                      SequenceId sequence, bool on_disk);

  // ---- the ends of generations ----

  // The sequence has computed all of `tokens` and lets go of them now. `on_disk`: they may be
  // saved there.
  void Keep(PrefixScope scope, std::span<const Token> tokens, SequenceId sequence, bool on_disk);

  // Cells that nobody has, neither the prefix cache nor the generations, of which `busy_cells` are.
  std::uint32_t FreeCells(std::uint32_t busy_cells) const {
    return decoder_->cells_total() - busy_cells - cache_->cells();
  }

  // ---- the disk ----

  PrefixStore* store() const { return store_.get(); }
  // Then there is no disk tier any more.
  std::unique_ptr<PrefixStore> TakeStore() { return std::move(store_); }
  // Begins to read what the disk has more of the tokens. False: nothing that is worth it.
  bool Fetch(GenerationId wanted_by, PrefixScope scope, std::span<const Token> tokens);
  // Brings into memory what has been read, with a free sequence (negative: none is) and as far as
  // there is room beside `busy_cells`. Returns who need not wait any more.
  std::vector<GenerationId> TakeFetched(SequenceId sequence, std::uint32_t busy_cells);

  // There is something to save and the store can take it.
  bool WantsToSave() const;
  // Hands one piece to the store. `sequence`: a free one, negative: none is.
  void SaveOne(SequenceId sequence, std::uint32_t busy_cells);

 private:
  struct Unsaved {
    PrefixScope scope;
    std::vector<Token> tokens;
  };
  void Adopt(FetchedPiece piece, SequenceId sequence, std::uint32_t busy_cells);

  Decoder* const decoder_;
  PrefixCache* const cache_;
  std::unique_ptr<PrefixStore> store_;
  Checkpoints checkpoints_;
  std::deque<Unsaved> unsaved_;
};

}  // namespace svc
