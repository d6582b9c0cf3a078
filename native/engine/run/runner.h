// The thread that turns submissions into tokens, and the inbox in front of it.
//
//   any thread:    Submit, Cancel, Pause, Resume, Hold ──► inbox (one mutex)
//   runner thread: take the inbox ► plan ► claim the batch ► compute ► one sink call
//
// While there is no work, the loop saves what is worth keeping, piece by piece.
//
// A batch is also aborted for the first request of a share that has had less than the others
// (fair_queue.h), if most of a long step is still to come: the share pays for it in tokens, and the
// next step is not aborted.
//
// Where there is no memory for something in between, all generations end with that error and the
// loop starts anew on the same decoder: a process that ends instead would fail them as well, and
// take longer to come back.
//
// What happens in a step is the Loop's business. The Runner knows who still wants what: a batch
// that nobody wants any more when it is claimed is not computed, and one that loses the last who
// does while it is computed is aborted.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/base/request.h"
#include "engine/model/decoder.h"
#include "engine/run/generation.h"
#include "engine/run/loop.h"

namespace svc {

// Owner: the engine. Every public method may be called from any thread, but Close not from the
// sink.
class Runner {
 public:
  // Generations that may wait for the cache; more are refused with kBusy.
  static constexpr std::uint32_t kMaxWaiting = 1024;

  // For saving, when it is closed; a piece that is being copied is copied to its end.
  static constexpr std::chrono::milliseconds kSaveTime{2500};

  // Starts the thread. The sink is called on it, at most once a step, with no lock held.
  Runner(std::unique_ptr<Decoder> decoder, OutputSink sink, LoopOptions options = {});
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Errors: kBusy, kInvalidRequest (the id is in use), kEngineUnavailable (closed). After an error
  // the sink hears nothing of it; after success it hears exactly one `done`.
  Status Submit(Submission submission);

  void Cancel(GenerationId id);
  void Pause(GenerationId id);
  void Resume(GenerationId id);
  void Hold(bool on);
  EngineStats stats() const;

  // Ends every generation with kCancelled, saves what is worth keeping, joins the thread and frees
  // the decoder. Idempotent; blocks for at most one step where the device cannot be interrupted,
  // and for kSaveTime.
  void Close();

 private:
  // What the caller wants of a generation that is alive.
  struct Wish {
    bool paused = false;
    bool cancelled = false;
  };
  void Run();
  void RunLoop();
  void StartAnew(const Status& status);
  bool TakeInbox();  // false: closing
  void Step();
  bool ClaimBatch();  // false: nobody wants it any more
  void Deliver();
  void YieldTo(const Submission& submission);
  void SetWish(GenerationId id, bool Wish::*wish, bool value);

  const OutputSink sink_;

  // ---- under mutex_ ----
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Submission> arrivals_;
  std::size_t adding_ = 0;  // arrivals that the runner has taken and not yet added to the loop
  std::unordered_map<GenerationId, Wish> alive_;
  std::vector<GenerationId> changed_;          // whose wishes the loop has not been told
  std::unordered_set<GenerationId> in_batch_;  // being computed and not cancelled
  bool held_ = false;
  bool closing_ = false;
  bool store_changed_ = false;
  EngineStats stats_;  // as of the last look into the inbox, claim or delivery

  // Set when nobody wants the running batch any more.
  std::atomic<bool> abort_ = false;
  // The running batch, and the share for whose first request it was aborted.
  StepOwner step_owner_;
  std::optional<ShareId> yielded_to_;
  std::atomic<std::int64_t> step_started_ns_ = 0;  // Clock; 0: none runs

  // ---- the runner thread's own ----
  std::unique_ptr<Loop> loop_;  // freed by Close
  bool may_step_ = true;        // not held, as of the last look into the inbox
  bool may_fetch_ = false;      // the store has called, as of then

  std::once_flag closed_;
  std::thread thread_;
};

}  // namespace svc
