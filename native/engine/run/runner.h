// The thread that turns submissions into tokens, and the inbox in front of it.
//
//   any thread:    Submit, Cancel, Pause, Resume, Hold ──► inbox (one mutex)
//   runner thread: take the inbox ► plan ► claim the batch ► compute ► one sink call
//
// While there is no work, the loop saves prefixes to disk, piece by piece.
//
// A batch is also aborted for the first request of a share that has had less than the others
// (fair_queue.h), if most of a long step is still to come: the share pays for it in tokens, and the
// next step is not aborted.
//
// If memory runs out in the loop, all generations end with that error and a new loop continues on
// the same decoder. Ending the process would fail them as well, and take longer to recover.
//
// The Loop decides what happens in a step. The Runner knows which generations were cancelled or
// paused; the Worker skips and aborts batches that no request needs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/status.h"
#include "engine/model/decoder.h"
#include "engine/model/media_turns.h"
#include "engine/run/generation.h"
#include "engine/run/loop.h"
#include "engine/run/worker.h"
#include "engine/types/engine_stats.h"
#include "engine/types/output.h"

namespace svc {

// Owner: the engine. Every public method may be called from any thread, but Close not from the
// sink.
class Runner {
 public:
  // Prefixes are saved to disk once there was no work for so long, or earlier if they may be lost
  // (Loop::MayLoseUnsaved). A client's next request often follows at once: it would wait for the
  // copy, and compute beside the thread that writes it.
  static constexpr std::chrono::milliseconds kIdleBeforeSave{1000};
  // For saving, when it is closed; a piece that is being copied is copied to its end.
  static constexpr std::chrono::milliseconds kSaveTime{2500};

  // Starts the thread. The sink is called on it, at most once a step, with no lock held. `turns`:
  // null, if nothing else computes.
  Runner(std::unique_ptr<Decoder> decoder, OutputSink sink, LoopOptions options = {},
         std::shared_ptr<MediaTurns> turns = nullptr);
  // Frees the loop before the worker, which the thread of the loop's store wakes.
  ~Runner() { Close(); }

  // Errors: as Worker::Accepts, where generations wait for the cache. After an error the sink gets
  // nothing for this id; after success it gets exactly one `done`.
  Status Submit(Submission submission);

  void Cancel(GenerationId id) { SetWish(id, &Wish::cancelled, true); }
  void Pause(GenerationId id) { SetWish(id, &Wish::paused, true); }
  void Resume(GenerationId id) { SetWish(id, &Wish::paused, false); }
  void Hold(bool on) { worker_.Hold(on); }
  // As TextEngine::GrantCells.
  void GrantCells(std::uint32_t cells, std::string refusal);
  EngineStats stats() const;

  // Ends every generation with kCancelled, saves prefixes to disk, joins the thread and frees
  // the decoder. Idempotent; blocks for at most one step where the device cannot be interrupted,
  // and for kSaveTime.
  void Close() {
    worker_.Close([this] { loop_.reset(); });
  }

 private:
  // What the caller wants of a generation that is alive.
  struct Wish {
    bool paused = false;
    bool cancelled = false;
  };
  void Run();
  void Measure();
  void RunLoop();
  void StartAnew(const Status& status);
  bool TakeInbox();  // false: closing
  void Step();
  bool ClaimBatch();  // false: all its generations were cancelled
  void Deliver();
  void YieldTo(const Submission& submission);
  void SetWish(GenerationId id, bool Wish::*wish, bool value);

  // ---- under the worker's lock ----
  std::vector<Submission> arrivals_;
  std::size_t adding_ = 0;  // arrivals that the runner has taken and not yet added to the loop
  std::unordered_map<GenerationId, Wish> alive_;
  std::vector<GenerationId> changed_;  // whose wishes the loop does not have yet
  bool store_changed_ = false;
  struct CellGrant {
    std::uint32_t cells = 0;
    std::string refusal;
  };
  std::optional<CellGrant> grant_;
  EngineStats stats_;                  // as of the last look into the inbox, claim or delivery
  StepOwner step_owner_;               // of the running batch
  std::optional<ShareId> yielded_to_;  // share for whose first request the batch was aborted

  const std::shared_ptr<MediaTurns> turns_;

  // ---- the runner thread's own ----
  std::unique_ptr<Loop> loop_;  // freed by Close
  bool may_step_ = true;        // not held, as of the last look into the inbox
  bool may_fetch_ = false;      // the store has called, as of then
  bool may_save_ = false;       // there was no work for long enough, as of then
  Clock::time_point last_step_ = Clock::now();

  Worker worker_;
};

}  // namespace svc
