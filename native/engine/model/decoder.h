// Decoder: the narrow interface between the runner and a model. It computes a batch of rows into a
// KV cache and returns logits. Implemented by llama_decoder.h and, for tests,
// native/test/support/fake_decoder.h.
//
// Owner: the Runner. Thread: the runner thread only.
//
// A sequence is a list of tokens in the cache, named by an id in [0, sequence_ids()). A cell holds
// one token at one position; several sequences may share a cell. While a sequence is being
// computed, its positions are 0, 1, 2, ... without gaps. (With M-RoPE the model sees others, for a
// picture and what follows it. The rows of such a picture are shared, cut and saved together.)
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/state_bytes.h"
#include "engine/model/media_rows.h"
#include "engine/model/step_constants.h"
#include "engine/types/adapters.h"
#include "engine/types/output.h"

namespace svc {

using SequenceId = std::int32_t;

class PrefillLane;

// Minimum of max_outputs(), however few sequences there are: draft rows want logits, too.
inline constexpr std::uint32_t kLeastOutputs = 16;

struct Row {
  Token token = 0;
  std::int32_t position = 0;  // REQUIRES: NextPosition(sequence) + its earlier rows in the batch
  SequenceId sequence = 0;
  bool wants_logits = false;
  // The picture or sound of which it is a row, in place of the token; such rows want no logits.
  // Null: a token.
  const MediaRows* media = nullptr;
};

enum class DecodeOutcome {
  kDone,
  kNoCells,  // too few free cells; the cache is unchanged
  // The abort flag was seen, or the step took too long; NextPosition() shows how far it got.
  kAborted,
  // The batch was invalid, or the device failed. What is still in the cache: see NextPosition().
  kFailed,
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  // Makes the following steps compute with these LoRA adapters; initially with none. A change costs
  // about a millisecond for a small model, and several for a large one: the graph of the next step
  // is planned anew. REQUIRES: each of them was loaded with the model.
  virtual void SetAdapters(const AdapterSet& adapters) = 0;

  // Computes the rows into the cache. REQUIRES: what the rows' sequences have in the cache was
  // computed with the same adapters.
  // REQUIRES: at least one row, and at most max_rows(), not counting runs with MediaRows::is_whole.
  // Each such run has at most max_rows() rows, which are adjacent. At most max_outputs() rows want
  // logits. If a sequence has rows of a picture or sound, all its rows are of the same one.
  // `abort` may be set by another thread at any time; it is honoured where the device allows it.
  virtual DecodeOutcome Decode(std::span<const Row> rows, const std::atomic<bool>& abort) = 0;

  // Logits of row `index` of the last Decode: vocabulary() floats, valid until the next Decode.
  // REQUIRES: that Decode returned kDone and the row wanted logits.
  virtual const float* Logits(std::size_t index) = 0;

  // Position of the sequence's next row; 0: none of its tokens is in the cache.
  virtual std::int32_t NextPosition(SequenceId sequence) const = 0;
  // Removes the sequence from its cells; cells that no other sequence shares become free.
  virtual void RemoveSequence(SequenceId sequence) = 0;
  // Removes all sequences from the cache and clears the lane.
  virtual void Clear() = 0;

  // True if sequences can share cells and give up part of them. REQUIRES for the next two methods.
  virtual bool can_share() const = 0;
  // Adds sequence `to` to the cells of `from` at positions [begin, end). Moves no data. REQUIRES:
  // `to` has no cells there.
  virtual void ShareCells(SequenceId from, SequenceId to, std::uint32_t begin,
                          std::uint32_t end) = 0;
  // Removes the sequence from its cells at positions [begin, end).
  virtual void RemoveCells(SequenceId sequence, std::uint32_t begin, std::uint32_t end) = 0;

  // Size of what SaveState would return, in bytes. REQUIRES: as SaveState.
  virtual std::uint64_t SizeOfState(SequenceId sequence, std::uint32_t begin,
                                    std::uint32_t end) = 0;
  // Serialized cache content of the sequence's tokens [begin, end), for LoadState of any decoder of
  // the same model. Empty: not possible. REQUIRES, unless can_share(): begin is 0 and end is
  // NextPosition(sequence).
  virtual StateBytes SaveState(SequenceId sequence, std::uint32_t begin, std::uint32_t end) = 0;
  // Loads the sequence's tokens [begin, end) into new cells; the state may hold more tokens. False:
  // it failed, and the sequence has none of these tokens. REQUIRES: the sequence has none of them;
  // the state is exactly what SaveState returned; there are free cells for the whole state; unless
  // can_share(), begin and end are those of the SaveState call.
  virtual bool LoadState(SequenceId sequence, std::span<const std::uint8_t> state,
                         std::uint32_t begin, std::uint32_t end) = 0;

  // Number of cells that unused prefixes may occupy before steps become noticeably slower.
  virtual std::uint32_t idle_cells() const { return cells_total(); }

  // Longest prompt that the lane takes, in tokens. 0: there is no lane (as where sequences cannot
  // share cells), and every prompt is computed in the decoder's own cache.
  virtual std::uint32_t lane_cells() const { return 0; }
  // Returns the prefill lane, with cells for a prompt of `tokens` tokens. It takes memory, so it is
  // created on first use, and replaced by a larger, empty one when it is too small. Null: not
  // enough memory; lane_cells() then returns less. REQUIRES: tokens <= lane_cells()
  virtual PrefillLane* lane(std::uint32_t /*tokens*/) { return nullptr; }
  // Frees a lane that has grown beyond its initial size. REQUIRES: no batch has been begun in it.
  virtual void ShrinkLane() {}

  // Maximum number of tokens whose copies may be held in memory outside the cache, once the lane
  // has cells for a prompt of `lane_tokens` tokens: both share one limit (CopyBytes in
  // llama/decoder_options.h).
  virtual std::uint32_t max_copied(std::uint32_t /*lane_tokens*/) const { return cells_total(); }
  // Limit for copies of whole states, in bytes, where sequences cannot share cells. Holds at least
  // the longest state of one sequence.
  virtual std::uint64_t max_state_bytes() const = 0;

  virtual bool IsEndOfGeneration(Token token) const = 0;
  // Bytes that a token adds to the text; none for control tokens. May end inside a UTF-8 character.
  virtual std::string Piece(Token token) const = 0;

  // Sets the number of compute threads for the following steps, in 1..max_threads(). Initially
  // max_threads(), which is 1 where the CPU does not compute. The lane has its own number, but at
  // most `threads` if that is below max_threads().
  virtual void SetThreads(int threads) = 0;
  virtual int max_threads() const = 0;
  // Aborts the following steps when they have taken so many milliseconds, where the device allows
  // it. 0, as initially: never.
  virtual void SetStepLimit(double ms) = 0;

  virtual std::uint32_t max_rows() const = 0;
  // At least kLeastOutputs and at least max_sequences() + kPaddingIds.
  virtual std::uint32_t max_outputs() const = 0;
  // Sequences that may be computed at the same time.
  virtual std::uint32_t max_sequences() const = 0;
  virtual std::uint32_t sequence_ids() const = 0;
  virtual std::uint32_t vocabulary() const = 0;
  virtual std::uint32_t cells_total() const = 0;

  // Most cells that Grow accepts.
  virtual std::uint32_t max_cells() const { return cells_total(); }
  // Replaces the cache by an empty one of `cells` cells, and frees the lane. False: not enough
  // memory; the new cache has as many cells as the old one. REQUIRES: no sequence has cells;
  // cells_total() <= cells <= max_cells()
  virtual bool Grow(std::uint32_t /*cells*/) { return false; }
};

// Samples tokens for one generation. Created on any thread, then used on the runner thread.
class Sampler {
 public:
  virtual ~Sampler() = default;

  // Draws the next token and remembers it for penalties and the grammar. kNoToken: the grammar
  // allows no token. kBrokenLogits: the logits hold NaN or infinity, or are all -infinity; nothing
  // is remembered. kSlowGrammar: following the grammar takes too long.
  virtual Token Sample(const float* logits) = 0;
  // Lead of the token that Sample would draw over the second-best one, in logits, after all
  // transformations, or a little less. Infinite if the token is drawn at random or forced. Absent:
  // it is unknown, because the logits are broken, or the grammar refuses all of the best tokens.
  // Changes no state.
  virtual std::optional<float> Lead(const float* /*logits*/) {
    return std::numeric_limits<float>::infinity();
  }
  // Tokens that the grammar forces after the one just drawn, so that they need no logits. They are
  // remembered like drawn ones, and returned once.
  virtual std::vector<Token> Forced() { return {}; }
  // Tokens of the next draws, regardless of the logits. Valid until the next draw.
  virtual std::span<const Token> Known() const { return {}; }
  // True if the text is complete under the grammar and nothing can follow.
  virtual bool ended() const { return false; }
  // Log probabilities of the last drawn token; null unless requested.
  virtual const TokenLogprobs* logprobs() const { return nullptr; }
};

inline constexpr Token kNoToken = -1;
inline constexpr Token kBrokenLogits = -2;
inline constexpr Token kSlowGrammar = -3;

}  // namespace svc
