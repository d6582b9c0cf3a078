#include "engine/run/embedder.h"

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

namespace svc {
namespace {

constexpr const char* kNoMemory = "no memory to compute these embeddings";

}  // namespace

Embedder::Embedder(std::unique_ptr<Encoder> encoder, OutputSink sink)
    : encoder_(std::move(encoder)), worker_(std::move(sink)) {
  worker_.Start([this] { Run(); });
}

// ---- any thread ---------------------------------------------------------------------------------

Embedder::Jobs::iterator Embedder::Find(GenerationId id) {
  return std::ranges::find_if(jobs_, [&](const Job& job) { return job.submission.id == id; });
}

Status Embedder::Submit(EmbeddingSubmission submission) {
  return worker_.Change([&] {
    const bool in_use = Find(submission.id) != jobs_.end();
    Status status = worker_.Accepts(submission.id, jobs_.size(), in_use);
    if (status.ok()) jobs_.emplace_back().submission = std::move(submission);
    return status;
  });
}

void Embedder::Cancel(GenerationId id) {
  worker_.Change([&] {
    const auto found = Find(id);
    if (found == jobs_.end()) return;
    found->cancelled = has_cancelled_ = true;
    worker_.Cancelled(id);
  });
}

EngineStats Embedder::stats() const {
  const auto lock = worker_.Lock();
  EngineStats stats = stats_;
  stats.active =
      static_cast<std::uint32_t>(std::set<const Job*>(batch_.begin(), batch_.end()).size());
  stats.waiting = static_cast<std::uint32_t>(jobs_.size()) - stats.active;
  stats.step_age_ms = worker_.BatchAgeMs();
  return stats;
}

// ---- the embedder's thread ----------------------------------------------------------------------

void Embedder::Run() {
  for (;;) {
    try {
      return RunJobs();
    } catch (const std::exception&) {
      FailAll(CaughtStatus(kNoMemory));
    }
  }
}

void Embedder::RunJobs() {
  std::vector<float> vectors;
  auto lock = worker_.Lock();
  for (bool last = false; !last;) {
    worker_.Wait(lock, [this] { return has_cancelled_ || MayEncode(); });
    last = worker_.closing();
    has_cancelled_ = false;
    EndIf([&](const Job& job) { return last || job.cancelled; }, FinishReason::kCancelled);
    // Cancelled jobs get their end before the next batch of the others.
    if (outputs_.empty() && MayEncode() && worker_.Claim(PlanBatch())) {
      lock.unlock();
      const Status status = Encode(&vectors);
      lock.lock();
      EndBatch(status, vectors);
    }
    std::vector<GenerationOutput> outputs = outputs_.Take();
    lock.unlock();
    worker_.Deliver(std::move(outputs));
    lock.lock();
  }
}

// After an exception: the vectors of a batch may be half taken, so no job goes on.
void Embedder::FailAll(const Status& status) {
  auto lock = worker_.Lock();
  worker_.EndBatch();
  batch_.clear();
  EndIf([](const Job& /*job*/) { return true; }, FinishReason::kStop, status);
  std::vector<GenerationOutput> outputs = outputs_.Take();
  lock.unlock();
  worker_.Deliver(std::move(outputs));
}

Status Embedder::Encode(std::vector<float>* vectors) {
  try {
    return encoder_->Encode(inputs_, worker_.abort(), vectors);
  } catch (const std::exception&) {
    return CaughtStatus(kNoMemory);
  }
}

std::unordered_set<GenerationId> Embedder::PlanBatch() {
  std::unordered_set<GenerationId> ids;
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
      ids.insert(job.submission.id);
      added = true;
    }
  }
  jobs_.splice(jobs_.end(), jobs_, jobs_.begin());
  return ids;
}

void Embedder::EndBatch(const Status& status, const std::vector<float>& vectors) {
  worker_.EndBatch();
  ++stats_.steps;
  if (status.ok()) {
    TakeVectors(vectors);
  } else if (status.code() != StatusCode::kCancelled) {
    const auto failed = [this](const Job& job) {
      return std::ranges::find(batch_, &job) != batch_.end();
    };
    EndIf(failed, FinishReason::kStop, status);
  }
  batch_.clear();
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
    const auto from = vectors.begin() + static_cast<std::ptrdiff_t>(i * length);
    outputs_.Add({.id = job.submission.id,
                  .embeddings = {from, from + static_cast<std::ptrdiff_t>(length)}});
  }
  const auto complete = [](const Job& job) {
    return !job.cancelled && job.computed == job.submission.inputs.size();
  };
  EndIf(complete, FinishReason::kStop);
}

template <typename F>
void Embedder::EndIf(F ends, FinishReason reason, const Status& status) {
  jobs_.remove_if([&](const Job& job) {
    if (!ends(job)) return false;
    GenerationOutput output{.id = job.submission.id,
                            .done = true,
                            .reason = reason,
                            .status = status,
                            .usage = job.usage,
                            .timings = job.timings};
    output.usage.truncated_tokens = job.submission.truncated_tokens;
    output.timings.finished_ms = job.SinceSubmit();
    outputs_.Add(std::move(output));
    return true;
  });
}

}  // namespace svc
