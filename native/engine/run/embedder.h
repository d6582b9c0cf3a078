// The thread that turns texts into vectors.
//
//   any thread:         Submit, Cancel, Hold ──► jobs (one mutex)
//   embedder's thread:  plan a batch ► encode ► one sink call
//
// A job is one request with any number of inputs. Jobs take turns: a batch takes one input of each,
// in rounds, until it is full, and the job that began one batch comes last in the next. So a
// question of one line is in the next batch however many documents came before it, and no input
// waits for more batches than there are jobs. The inputs of one job are computed in their order,
// and delivered as they are.
//
// A failure of the device fails the jobs of that batch; the others go on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/base/request.h"
#include "engine/model/encoder.h"
#include "engine/run/generation.h"

namespace svc {

// What a caller hands over.
struct EmbeddingSubmission {
  GenerationId id = 0;
  // REQUIRES: not empty, and each as the encoder requires
  std::vector<std::vector<Token>> inputs;
  std::optional<std::uint32_t> truncated_tokens;  // see GenerationUsage
  Clock::time_point submitted_at = Clock::now();
};

// Owner: the engine. Every public method may be called from any thread, but Close not from the
// sink.
class Embedder {
 public:
  // Jobs that may be alive; more are refused with kBusy.
  static constexpr std::size_t kMaxJobs = 1024;

  // Starts the thread. The sink is called on it, at most once a batch, with no lock held.
  Embedder(std::unique_ptr<Encoder> encoder, OutputSink sink);
  ~Embedder();
  Embedder(const Embedder&) = delete;
  Embedder& operator=(const Embedder&) = delete;

  // Errors: kBusy, kInvalidRequest (the id is in use), kEngineUnavailable (closed). After an error
  // the sink hears nothing of it; after success it hears exactly one `done`.
  Status Submit(EmbeddingSubmission submission);

  void Cancel(GenerationId id);
  void Hold(bool on);
  EngineStats stats() const;

  // Ends every job with kCancelled, joins the thread and frees the encoder. Idempotent; blocks for
  // at most one batch where the device cannot be interrupted.
  void Close();

 private:
  struct Job {
    EmbeddingSubmission submission;
    std::size_t planned = 0;  // inputs that are computed or in the batch
    std::size_t computed = 0;
    bool cancelled = false;
    GenerationTimings timings;
    GenerationUsage usage;

    double SinceSubmit() const;
  };

  // The thread's own; all REQUIRE mutex_ to be held.
  void Run();
  Status Encode(std::vector<float>* vectors);
  void EndCancelled();
  void PlanBatch();
  void TakeVectors(const std::vector<float>& vectors);
  void FailBatch(const Status& status);
  // The last output of a job, which is then gone. Returns the next job.
  std::list<Job>::iterator End(std::list<Job>::iterator job, FinishReason reason,
                               const Status& status);
  GenerationOutput& OutputOf(GenerationId id);

  std::unique_ptr<Encoder> encoder_;  // freed by Close
  const OutputSink sink_;

  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable wake_;
  std::list<Job> jobs_;  // whose turn it is first; only the thread takes any away
  bool has_cancelled_ = false;
  bool held_ = false;
  bool closing_ = false;
  EngineStats stats_;
  Clock::time_point batch_started_;  // while there is a batch
  std::vector<Job*> batch_;          // the job of each input; empty: nothing is being computed
  std::vector<std::span<const Token>> inputs_;
  std::vector<GenerationOutput> outputs_;

  // Set when nobody wants the running batch any more.
  std::atomic<bool> abort_ = false;

  std::once_flag closed_;
  std::thread thread_;
};

}  // namespace svc
