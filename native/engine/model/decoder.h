// The narrow interface between the runner and a model: a cache of cells, a batch of rows computed
// into it, logits out of it. llama_decoder.h is the real one, native/test/support/fake_decoder.h the other.
//
// Owner: the Runner. Thread: the runner thread only.
//
// A sequence is a row of tokens in the cache, named by an id in [0, sequence_ids()). A cell holds a
// token at a position, and sequences may share it. Where a sequence is computed on, its positions
// are 0, 1, 2, ... without gaps.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "engine/base/request.h"

namespace svc {

using SequenceId = std::int32_t;

class PrefillLane;

// Sequences, beyond those that are computed on, for rows that only pad a batch.
inline constexpr std::uint32_t kPaddingIds = 3;

// Rows of a batch that may want logits, however few sequences there are: drafts want them, too.
inline constexpr std::uint32_t kLeastOutputs = 16;

struct Row {
  Token token = 0;
  std::int32_t position = 0;  // REQUIRES: NextPosition(sequence) + earlier rows of it in the batch
  SequenceId sequence = 0;
  bool wants_logits = false;
};

enum class DecodeOutcome {
  kDone,
  kNoCells,  // the cache is as it was before
  kAborted,  // the abort flag was seen; NextPosition() tells what has been computed
  kFailed,   // the batch was wrong or the device failed; NextPosition() tells what is left
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  // Computes the rows into the cache.
  // REQUIRES: 0 < rows.size() <= max_rows(), at most max_outputs() rows want logits.
  // `abort` may be set by another thread at any time; it is honoured where the device allows it.
  virtual DecodeOutcome Decode(std::span<const Row> rows, const std::atomic<bool>& abort) = 0;

  // vocabulary() floats for row `index` of the last Decode; valid until the next one.
  // REQUIRES: that returned kDone and the row wanted logits.
  virtual const float* Logits(std::size_t index) = 0;

  // The position that the next row of the sequence takes; 0: nothing of it is in the cache.
  virtual std::int32_t NextPosition(SequenceId sequence) const = 0;
  // The sequence lets go of its cells; those that no other has are free.
  virtual void RemoveSequence(SequenceId sequence) = 0;
  // All sequences let go of their cells, and the lane is cleared.
  virtual void Clear() = 0;

  // Whether sequences can share cells and let go of some; if not, the next two may not be called.
  virtual bool can_share() const = 0;
  // Lets `to` into the cells of `from` at positions [begin, end), where it has none. No data moves.
  virtual void ShareCells(SequenceId from, SequenceId to, std::uint32_t begin,
                          std::uint32_t end) = 0;
  virtual void RemoveCells(SequenceId sequence, std::uint32_t begin, std::uint32_t end) = 0;

  // What the cache holds of the sequence's tokens [begin, end), to be put back by LoadState, in
  // this decoder or another one of the same model. Where sequences cannot share cells: of all its
  // tokens, begin is 0 and end NextPosition(sequence). Empty: there is none to be had.
  virtual std::vector<std::uint8_t> SaveState(SequenceId sequence, std::uint32_t begin,
                                              std::uint32_t end) = 0;
  // Gives the sequence new cells for its tokens [begin, end), of which it has none, out of a state
  // that may hold more. False: it cannot be done; the sequence has none of them then.
  // REQUIRES: the state is what SaveState returned, every byte of it; cells for all of it are free;
  // where sequences cannot share cells, begin and end are those it was saved with.
  virtual bool LoadState(SequenceId sequence, std::span<const std::uint8_t> state,
                         std::uint32_t begin, std::uint32_t end) = 0;

  // Cells of prefixes that nobody uses: with more of them, steps would cost noticeably more.
  virtual std::uint32_t idle_cells() const { return cells_total(); }

  // The longest prompt that its lane takes, in tokens. 0: it has none, as where sequences cannot
  // share cells, and every prompt is computed in its own cache.
  virtual std::uint32_t lane_cells() const { return 0; }
  // The lane, with cells for a prompt of so many tokens. It takes memory, so it is made when it is
  // first asked for, and made anew, empty, when it is too small. Null: there is no memory for it,
  // and lane_cells() is less from now on.
  // REQUIRES: tokens <= lane_cells()
  virtual PrefillLane* lane(std::uint32_t /*tokens*/) { return nullptr; }
  // Frees a lane that has grown. REQUIRES: nothing is being computed in it.
  virtual void ShrinkLane() {}

  // Memory beside the cache, as memory_estimate.h counts it. Tokens whose copies may be held there,
  // once the lane has cells for a prompt of so many tokens; a lane that grows leaves less.
  virtual std::uint32_t max_copied(std::uint32_t /*lane_tokens*/) const { return cells_total(); }
  // Bytes of copies of whole states, where sequences cannot share cells.
  virtual std::uint64_t max_state_bytes() const { return std::uint64_t{512} << 20U; }

  virtual bool IsEndOfGeneration(Token token) const = 0;
  // The bytes a token adds to the text; control tokens add none. May end inside a character.
  virtual std::string Piece(Token token) const = 0;

  // Compute threads of the steps that follow, in 1..max_threads(); at first all of them. Where they
  // do not do the computing there is one. The lane may have another number; with fewer than all
  // it has no more than the steps.
  virtual void SetThreads(int threads) = 0;
  virtual int max_threads() const = 0;

  virtual std::uint32_t max_rows() const = 0;
  // Not fewer than kLeastOutputs, nor than max_sequences() + kPaddingIds.
  virtual std::uint32_t max_outputs() const = 0;
  // That are computed on at one time.
  virtual std::uint32_t max_sequences() const = 0;
  virtual std::uint32_t sequence_ids() const = 0;
  virtual std::uint32_t vocabulary() const = 0;
  virtual std::uint32_t cells_total() const = 0;
};

// Draws tokens for one generation. Made on any thread, then used on the runner thread.
class Sampler {
 public:
  virtual ~Sampler() = default;

  // The token that follows; remembered, for penalties and the grammar. kNoToken: the grammar leaves
  // none of the vocabulary. kBrokenLogits: the logits hold NaN or infinity, or are all -infinity;
  // nothing is remembered then. kSlowGrammar: following the grammar takes too long.
  virtual Token Sample(const float* logits) = 0;
  // By how much the logit of the token that Sample would draw leads the next one, after all that is
  // made of the logits; infinite where it is drawn by chance or must follow; 0 for broken logits.
  // Changes nothing.
  virtual float Lead(const float* /*logits*/) { return std::numeric_limits<float>::infinity(); }
  // The tokens that must follow the one just drawn, remembered too: the grammar leaves no choice,
  // so they need no logits. Told once.
  virtual std::vector<Token> Forced() { return {}; }
  // What has been drawn and forced is a whole text of the grammar, and nothing can follow.
  virtual bool ended() const { return false; }
  // Of the token drawn last; null unless asked for.
  virtual const TokenLogprobs* logprobs() const { return nullptr; }
};

inline constexpr Token kNoToken = -1;
inline constexpr Token kBrokenLogits = -2;
inline constexpr Token kSlowGrammar = -3;

}  // namespace svc
