// The thread that owns the model's cache and turns submissions into tokens.
//
//   any thread:    Submit, Cancel, Pause, Resume, Hold ──► inbox (one mutex)
//   runner thread: take the inbox ► admit ► make room ► plan ► decode ► sample ► one sink call
//
// All generations live in one list in order of arrival. A generation is waiting (no sequence id) or
// in the cache. It is admitted when a sequence id and cells for all its tokens are free; the oldest
// waits for room and nobody overtakes it. While it decodes it takes one cell a step; when the cells
// run out, generations are preempted, paused ones first, then the newest: their cells are freed and
// computed again later from their tokens. The oldest that is not paused is never preempted, so
// there is always one that moves on, and preempting changes when a generation ends, never what it
// says.
//
// A failure of the device fails the generations of that batch; the others go on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/decoder.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "engine/rate_meter.h"
#include "engine/scheduler.h"

namespace svc {

// Owner: the engine. Every public method may be called from any thread, but Close not from the
// sink.
class Runner {
 public:
  // Generations that may wait for the cache; more are refused with kBusy.
  static constexpr std::uint32_t kMaxWaiting = 1024;

  // Starts the thread. The sink is called on it, at most once a step, with no lock held.
  Runner(std::unique_ptr<Decoder> decoder, OutputSink sink);
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

  // Ends every generation with kCancelled, joins the thread and frees the decoder. Idempotent;
  // blocks for at most one step where the device cannot be interrupted.
  void Close();

 private:
  // What the caller wants of a generation that is alive.
  struct Wish {
    bool paused = false;
    bool cancelled = false;
  };
  void Run();
  bool TakeInbox();  // false: closing
  void Step();
  void Deliver();

  void Admit();
  bool Fits(const Generation& candidate) const;
  void MakeRoom();
  bool PreemptOne();
  void LeaveCache(Generation& generation);

  void Plan();
  bool ClaimBatch();  // false: nobody wants it any more
  void Recover(DecodeOutcome outcome);
  void Sample(Generation& generation, std::size_t row);
  // Adds the token, with which the text is `whole`, and its text. True: the generation has ended.
  bool Take(Generation& generation, Token token, bool whole, std::string* text);
  void Finish(Generation& generation, GenerationOutput output);

  bool HasWork() const;
  std::uint32_t FreeCells() const { return decoder_->cells_total() - cells_used_; }
  void PublishCounts();  // REQUIRES: mutex_ is held
  void SetWish(GenerationId id, bool Wish::*wish, bool value);

  std::unique_ptr<Decoder> decoder_;  // freed by Close
  const OutputSink sink_;

  // ---- the inbox, under mutex_ ----
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Submission> arrivals_;
  std::unordered_map<GenerationId, Wish> alive_;
  std::unordered_set<GenerationId> in_batch_;  // being decoded and not cancelled
  bool wishes_changed_ = false;
  bool held_ = false;
  bool closing_ = false;
  EngineStats stats_;
  RateMeter rate_;

  // Set when nobody wants the running batch any more.
  std::atomic<bool> abort_ = false;
  std::atomic<std::int64_t> step_started_ns_ = 0;  // Clock; 0: none runs

  // ---- the runner thread's own ----
  std::vector<std::unique_ptr<Generation>> generations_;  // in order of arrival
  std::set<SequenceId> free_sequences_;
  std::uint32_t cells_used_ = 0;

  bool may_step_ = true;  // not held, as of the last look into the inbox
  struct BatchEntry {
    Generation* generation;
    std::uint32_t rows;
    std::size_t last_row;
  };
  std::vector<BatchEntry> batch_;
  std::vector<Row> rows_;
  std::vector<GenerationOutput> outputs_;

  std::once_flag closed_;
  std::thread thread_;
};

}  // namespace svc
