// Thread of an engine, and the state that callers share with it whatever it computes: the lock, the
// wake-up, hold, the running batch and its abort flag, and closing.
//
//   any thread:     Change ──► the owner's inbox, under the lock ──► wake-up
//   worker thread:  Wait ► Claim ► compute, until done or abort() ► EndBatch ► Deliver
//
// A batch whose requests were all cancelled is not claimed; if the last one is cancelled mid-batch,
// the batch is aborted.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/status.h"
#include "engine/model/cost_model.h"
#include "engine/types/output.h"

namespace svc {

// Owner: the Runner or the Embedder, whose own shared state is under the same lock. It is their
// last member, so that the thread has ended when the others are destroyed.
class Worker {
 public:
  // Requests that may wait; more are refused with kBusy.
  static constexpr std::uint32_t kMaxWaiting = 1024;

  explicit Worker(OutputSink sink) : sink_(std::move(sink)) {}
  ~Worker() { Close(); }

  // Starts the thread, which calls `run` once. Call once.
  void Start(std::function<void()> run) { thread_ = std::thread(std::move(run)); }

  // ---- any thread, without the lock ----

  std::unique_lock<std::mutex> Lock() const { return std::unique_lock(mutex_); }
  // Calls `change` under the lock, wakes the thread and returns what `change` returned.
  template <typename F>
  auto Change(F change) {
    const WakeAtEnd wake{&wake_};  // after the lock is released
    const std::lock_guard lock(mutex_);
    return change();
  }
  // true: the owner claims no further batch, until Hold(false).
  void Hold(bool on) {
    Change([&] { held_ = on; });
  }
  // Aborts the running batch, makes Wait return, joins the thread, then calls `free`. Idempotent;
  // later and concurrent calls return once the first one has finished. Not from the sink.
  void Close(const std::function<void()>& free = [] {});

  // ---- any thread, REQUIRES the lock ----

  bool held() const { return held_; }
  bool closing() const { return closing_; }
  // Ok if a new request may be queued behind `waiting` others. Errors: kEngineUnavailable (closed),
  // kBusy, kInvalidRequest (the id is in use).
  Status Accepts(GenerationId id, std::size_t waiting, bool in_use) const;
  // A request was cancelled: aborts the running batch if no other request is left in it.
  void Cancelled(GenerationId id);
  // Age of the running batch in milliseconds; 0: none runs.
  double BatchAgeMs() const;
  // Aborts the running batch.
  void Abort() { abort_ = true; }

  // ---- the worker thread ----

  // Sleeps until the engine closes or `has_work` (called under the lock) returns true.
  template <typename F>
  void Wait(std::unique_lock<std::mutex>& lock, F has_work) {
    wake_.wait(lock, [&] { return closing_ || has_work(); });
  }
  // The same until `deadline`. False: it has passed.
  template <typename F>
  bool WaitUntil(std::unique_lock<std::mutex>& lock, Clock::time_point deadline, F has_work) {
    return wake_.wait_until(lock, deadline, [&] { return closing_ || has_work(); });
  }
  // REQUIRES the lock. Begins a batch for these requests. False: there are none, or the engine
  // closes.
  bool Claim(std::unordered_set<GenerationId> wanted);
  // REQUIRES the lock. The batch is computed, or was given up.
  void EndBatch();
  // Set while the running batch should stop.
  const std::atomic<bool>& abort() const { return abort_; }
  // Calls the sink, unless there are no outputs. REQUIRES that the lock is not held.
  void Deliver(std::vector<GenerationOutput> outputs) const {
    if (!outputs.empty()) sink_(std::move(outputs));
  }

 private:
  struct WakeAtEnd {
    std::condition_variable* wake;
    ~WakeAtEnd() { wake->notify_one(); }
  };

  const OutputSink sink_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;

  // ---- under mutex_ ----
  bool held_ = false;
  bool closing_ = false;
  std::unordered_set<GenerationId> in_batch_;          // being computed and not cancelled
  std::optional<Clock::time_point> batch_started_at_;  // absent: no batch runs

  std::atomic<bool> abort_ = false;
  std::once_flag closed_;
  std::thread thread_;
};

}  // namespace svc
