// Turns of the runner and the projector, which computes pictures and sounds on another thread
// (llama/media/projector.h).
//
// The threads of a computation wait for each other after each operation. Two computations at once
// would stop each other there, so they take turns:
//
//   runner      step ········ step ········ step
//   projector        part          part
//
// A part of a picture takes a third as long as the step before it, or the rest of the inter-token
// target if that is longer (part_ms): the projector chooses its operations accordingly. Prompts
// have half of that target meanwhile (Loop::Plan). A step whose token is a part of a character
// gives its reader nothing. So that this reader does not wait for two steps and two parts, the next
// step comes at once, and without prompts.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "engine/model/cost_model.h"
#include "engine/model/step_constants.h"

namespace svc {

// Thread: the runner's uses Step and Rest; the thread that computes a picture or sound uses Media.
class MediaTurns {
 public:
  // `decoding_ms`: target from one token to the next, where something decodes.
  explicit MediaTurns(double decoding_ms = kDecodingTargetMs) : decoding_ms_(decoding_ms) {}

  // A turn of the runner. Waits until it begins. Null turns: there is no projector.
  class Step {
   public:
    explicit Step(MediaTurns* turns);
    ~Step();
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

    // A stream got only a part of a character: the next turn goes to a step again.
    void SetSilent(bool is_silent) { is_silent_ = is_silent; }

   private:
    MediaTurns* const turns_;
    bool is_silent_ = false;
  };

  // A picture or sound. Waits until its first turn begins. One at a time.
  class Media {
   public:
    explicit Media(MediaTurns* turns);
    ~Media();
    Media(const Media&) = delete;
    Media& operator=(const Media&) = delete;

    // Between two parts: if a step waits, returns after it.
    void Yield();

   private:
    MediaTurns* const turns_;
  };

  // Call when there is no step to compute, so that a picture or sound continues at once.
  void Rest();
  // True while there is a picture or sound: the next step may have to wait.
  bool has_media() const { return has_media_; }
  bool step_waits() const;
  bool media_waits() const;
  // Milliseconds of a part.
  double part_ms() const;

 private:
  enum class Owner { kNone, kStep, kMedia };

  void Give(Owner owner);
  void TakeForMedia(std::unique_lock<std::mutex>& lock);

  const double decoding_ms_;
  std::atomic<bool> has_media_ = false;

  mutable std::mutex mutex_;
  std::condition_variable given_;
  // ---- under mutex_ ----
  Owner owner_ = Owner::kNone;
  bool step_waits_ = false;
  bool media_waits_ = false;
  Clock::time_point step_began_at_;
  double step_ms_ = 0;  // of the last one
};

}  // namespace svc
