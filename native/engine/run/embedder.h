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
// A failure of the device fails the jobs of that batch; the others continue. If memory runs out
// elsewhere, all jobs fail, and the thread continues with those that come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/status.h"
#include "engine/model/encoder.h"
#include "engine/run/worker.h"
#include "engine/types/engine_stats.h"
#include "engine/types/output.h"
#include "engine/types/output_list.h"

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
  // Starts the thread. The sink is called on it, at most once a batch, with no lock held.
  Embedder(std::unique_ptr<Encoder> encoder, OutputSink sink);

  // Errors: as Worker::Accepts, where all jobs that have not ended count. After an error the sink
  // gets nothing for this id; after success it gets exactly one `done`.
  Status Submit(EmbeddingSubmission submission);

  void Cancel(GenerationId id);
  void Hold(bool on) { worker_.Hold(on); }
  EngineStats stats() const;

  // Ends every job with kCancelled, joins the thread and frees the encoder. Idempotent; blocks for
  // at most one batch where the device cannot be interrupted.
  void Close() {
    worker_.Close([this] { encoder_.reset(); });
  }

 private:
  struct Job {
    EmbeddingSubmission submission;
    std::size_t planned = 0;  // inputs that are computed or in the batch
    std::size_t computed = 0;
    bool cancelled = false;
    GenerationTimings timings;
    GenerationUsage usage;

    double SinceSubmit() const { return Milliseconds(Clock::now() - submission.submitted_at); }
  };
  using Jobs = std::list<Job>;

  void Run();
  void RunJobs();
  void FailAll(const Status& status);
  Status Encode(std::vector<float>* vectors);

  // All REQUIRE the lock.
  Jobs::iterator Find(GenerationId id);
  bool MayEncode() const { return !worker_.held() && !jobs_.empty(); }
  // Returns the jobs in the batch.
  std::unordered_set<GenerationId> PlanBatch();
  void EndBatch(const Status& status, const std::vector<float>& vectors);
  void TakeVectors(const std::vector<float>& vectors);
  // Makes the last output of each job for which `ends` returns true, and removes the job.
  template <typename F>
  void EndIf(F ends, FinishReason reason, const Status& status = Status::Ok());

  std::unique_ptr<Encoder> encoder_;  // freed by Close

  // ---- under the worker's lock ----
  Jobs jobs_;  // whose turn it is first; only the thread takes any away
  bool has_cancelled_ = false;
  EngineStats stats_;
  std::vector<Job*> batch_;  // the job of each input; empty: nothing is being computed
  std::vector<std::span<const Token>> inputs_;
  OutputList outputs_;

  Worker worker_;
};

}  // namespace svc
