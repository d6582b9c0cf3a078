#include "engine/run/embedder.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace svc {

Embedder::Embedder(std::unique_ptr<Encoder> encoder, OutputSink sink)
    : encoder_(std::move(encoder)), sink_(std::move(sink)) {
  thread_ = std::thread([this] { Run(); });
}

Embedder::~Embedder() { Close(); }

double Embedder::Job::SinceSubmit() const {
  return std::chrono::duration<double, std::milli>(Clock::now() - submission.submitted_at).count();
}

// ---- any thread ---------------------------------------------------------------------------------

Status Embedder::Submit(EmbeddingSubmission submission) {
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return {StatusCode::kEngineUnavailable, "the engine is closed"};
    if (jobs_.size() >= kMaxJobs) {
      return {StatusCode::kBusy,
              std::to_string(kMaxJobs) + " requests are waiting for this model already"};
    }
    const auto same = [&](const Job& job) { return job.submission.id == submission.id; };
    if (std::any_of(jobs_.begin(), jobs_.end(), same)) {
      return {StatusCode::kInvalidRequest,
              "request " + std::to_string(submission.id) + " is alive already"};
    }
    jobs_.emplace_back().submission = std::move(submission);
  }
  wake_.notify_one();
  return Status::Ok();
}

void Embedder::Cancel(GenerationId id) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(jobs_.begin(), jobs_.end(),
                                    [&](const Job& job) { return job.submission.id == id; });
    if (found == jobs_.end()) return;
    found->cancelled = true;
    has_cancelled_ = true;
    if (std::all_of(batch_.begin(), batch_.end(), [](const Job* job) { return job->cancelled; })) {
      abort_ = true;
    }
  }
  wake_.notify_one();
}

void Embedder::Hold(bool on) {
  {
    const std::lock_guard lock(mutex_);
    held_ = on;
  }
  wake_.notify_one();
}

EngineStats Embedder::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.active =
      static_cast<std::uint32_t>(std::set<const Job*>(batch_.begin(), batch_.end()).size());
  stats.waiting = static_cast<std::uint32_t>(jobs_.size()) - stats.active;
  if (!batch_.empty()) {
    const auto age = Clock::now() - batch_started_;
    stats.step_age_ms = std::chrono::duration<double, std::milli>(age).count();
  }
  return stats;
}

void Embedder::Close() {
  std::call_once(closed_, [this] {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      abort_ = true;
    }
    wake_.notify_one();
    thread_.join();
    encoder_.reset();
  });
}

// ---- the embedder's thread ----------------------------------------------------------------------

void Embedder::Run() {
  std::unique_lock lock(mutex_);
  std::vector<float> vectors;
  for (;;) {
    wake_.wait(lock, [this] { return closing_ || has_cancelled_ || (!held_ && !jobs_.empty()); });
    const bool last = closing_;
    if (last) {
      for (Job& job : jobs_) job.cancelled = true;
    }
    EndCancelled();
    // Who has left hears so before the others' next batch.
    if (outputs_.empty() && !held_ && !jobs_.empty()) {
      PlanBatch();
      lock.unlock();
      const Status status = Encode(&vectors);
      lock.lock();
      if (status.ok()) {
        TakeVectors(vectors);
      } else if (status.code() != StatusCode::kCancelled) {
        FailBatch(status);
      }
      batch_.clear();
      ++stats_.steps;
    }
    if (!outputs_.empty()) {
      std::vector<GenerationOutput> outputs = std::exchange(outputs_, {});
      lock.unlock();
      sink_(std::move(outputs));
      lock.lock();
    }
    if (last) return;
  }
}

Status Embedder::Encode(std::vector<float>* vectors) {
  try {
    return encoder_->Encode(inputs_, abort_, vectors);
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, "no memory to compute these embeddings"};
  } catch (const std::exception& error) {
    return {StatusCode::kInternal, error.what()};
  }
}

void Embedder::EndCancelled() {
  has_cancelled_ = false;
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    job = job->cancelled ? End(job, FinishReason::kCancelled, Status::Ok()) : std::next(job);
  }
}

void Embedder::PlanBatch() {
  inputs_.clear();
  std::size_t tokens = 0;
  for (Job& job : jobs_) job.planned = job.computed;
  for (bool added = true; added;) {
    added = false;
    for (Job& job : jobs_) {
      const auto& inputs = job.submission.inputs;
      if (job.planned == inputs.size() || inputs_.size() == encoder_->max_inputs()) continue;
      const std::vector<Token>& input = inputs[job.planned];
      if (!inputs_.empty() && tokens + input.size() > encoder_->batch_tokens()) continue;
      if (job.timings.started_ms < 0) job.timings.started_ms = job.SinceSubmit();
      ++job.planned;
      tokens += input.size();
      batch_.push_back(&job);
      inputs_.emplace_back(input);
      added = true;
    }
  }
  jobs_.splice(jobs_.end(), jobs_, jobs_.begin());
  abort_ = false;
  batch_started_ = Clock::now();
}

void Embedder::TakeVectors(const std::vector<float>& vectors) {
  const std::size_t length = encoder_->length();
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    Job& job = *batch_[i];
    const auto input_tokens = static_cast<std::uint32_t>(inputs_[i].size());
    ++job.computed;
    job.usage.input_tokens += input_tokens;
    stats_.prompt_tokens += input_tokens;
    if (job.cancelled) continue;
    std::vector<float>& target = OutputOf(job.submission.id).embeddings;
    const auto from = vectors.begin() + static_cast<std::ptrdiff_t>(i * length);
    target.insert(target.end(), from, from + static_cast<std::ptrdiff_t>(length));
  }
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    const bool complete = job->computed == job->submission.inputs.size();
    job =
        complete && !job->cancelled ? End(job, FinishReason::kStop, Status::Ok()) : std::next(job);
  }
}

void Embedder::FailBatch(const Status& status) {
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    const bool failed = std::find(batch_.begin(), batch_.end(), &*job) != batch_.end();
    job = failed ? End(job, FinishReason::kStop, status) : std::next(job);
  }
}

std::list<Embedder::Job>::iterator Embedder::End(std::list<Job>::iterator job, FinishReason reason,
                                                 const Status& status) {
  GenerationOutput& output = OutputOf(job->submission.id);
  output.done = true;
  output.reason = reason;
  output.status = status;
  output.usage = job->usage;
  output.usage.truncated_tokens = job->submission.truncated_tokens;
  output.timings = job->timings;
  output.timings.finished_ms = job->SinceSubmit();
  return jobs_.erase(job);
}

// Of what is not delivered yet: one for each job.
GenerationOutput& Embedder::OutputOf(GenerationId id) {
  const auto found = std::find_if(outputs_.begin(), outputs_.end(),
                                  [&](const auto& output) { return output.id == id; });
  if (found != outputs_.end()) return *found;
  GenerationOutput& output = outputs_.emplace_back();
  output.id = id;
  return output;
}

}  // namespace svc
