// The projector of a model: a second file that turns pictures or sounds into embeddings which the
// model reads like tokens. Computed by libmtmd, in a graph and buffers of its own, on the thread
// that submits the request, in turns with the runner's steps (media_turns.h).
//
//   bytes ─► pixels or samples ─► pieces, sized for the projector ─► rows of embeddings
//            picture.h, sound.h   Prepare                            Encode
//
// Prepare is cheap and gives the number of rows, so that a prompt that is too long is refused
// before anything is computed. Encode takes as long as hundreds of tokens.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/siphash.h"
#include "engine/base/status.h"
#include "engine/llama/llama_model.h"
#include "engine/model/media_rows.h"
#include "engine/model/media_turns.h"
#include "engine/types/chat.h"
#include "engine/types/load_options.h"
#include "mtmd.h"

namespace svc {

// A picture or sound of a prompt, cut into the pieces that the projector takes.
class PreparedMedia {
 public:
  struct Piece {
    SipTag digest = {};
    Token first = 0;  // the id of its first row
    std::uint32_t rows = 0;
    bool is_whole = false;  // see MediaRows; so are the next two
    std::uint32_t positions = 0;
    std::vector<MediaPlace> places;
    const mtmd_input_chunk* chunk = nullptr;
  };

  // What stands in the prompt: tokens that mark the pieces, and the ids of their rows.
  std::vector<Token> tokens;
  std::vector<Piece> pieces;

 private:
  friend class Projector;
  mtmd::input_chunks_ptr chunks_;
};

// Owner: the engine. `model` must outlive it. Any thread.
class Projector {
 public:
  // Reads LoadOptions::projector_path. `max_rows`: most rows of a batch. `key`: secret for
  // the ids of rows; differs per projector. Errors: kModelInvalid, with a reason in words
  // that follow "the projector"; kCancelled. libmtmd keeps the memory of a projector that it
  // refuses after reading it: it is free only when the process ends.
  static Result<std::unique_ptr<Projector>> Load(const LoadOptions& options,
                                                 const LlamaModel& model, int threads,
                                                 std::uint32_t max_rows, const SipKey& key,
                                                 std::shared_ptr<MediaTurns> turns);

  bool sees() const;
  bool hears() const;

  // Decodes a picture or sound and cuts it into pieces. Error: kInvalidRequest, in words that
  // follow its name ("the picture", "the sound").
  Result<PreparedMedia> Prepare(const Media& media) const;

  // Embeddings of a piece, `rows` times the model's width. One at a time is computed; the last ones
  // are kept, so that the next turn of a conversation needs no second computation. `abort` may be
  // set by another thread at any time. REQUIRES: the piece's PreparedMedia is alive. Errors:
  // kCancelled (aborted), kInternal.
  Result<std::shared_ptr<const std::vector<float>>> Encode(const PreparedMedia::Piece& piece,
                                                           const std::atomic<bool>& abort);

  std::uint32_t width() const { return width_; }

 private:
  struct Kept {
    SipTag digest = {};
    std::shared_ptr<const std::vector<float>> embeddings;
  };

  // The running computation. Work is counted in multiplications.
  struct Run {
    MediaTurns::Media* media = nullptr;  // null: none runs
    const std::atomic<bool>* abort = nullptr;
    bool given_up = false;       // *abort was seen set
    double work = 0;             // of this part
    double largest = 0;          // operation so far
    Clock::time_point began_at;  // this part
  };

  Projector(std::uint32_t width, std::uint32_t max_rows, const SipKey& key,
            std::shared_ptr<MediaTurns> turns);
  Result<PreparedMedia> Cut(PreparedMedia prepared, const SipTag& digest) const;
  static bool AtNode(ggml_tensor* node, bool ask, void* projector);
  bool EndsPart(const ggml_tensor& node);
  bool MayGoOn();

  mtmd::context_ptr context_;  // set once
  const std::uint32_t width_;
  const std::uint32_t max_rows_;
  const SipKey key_;
  const std::shared_ptr<MediaTurns> turns_;
  Run run_;
  double ms_per_work_ = 0;  // 0: not known yet
  std::mutex mutex_;        // of the encoder, and of all but the constants
  std::list<Kept> kept_;    // the latest first
  std::size_t kept_floats_ = 0;
};

}  // namespace svc
