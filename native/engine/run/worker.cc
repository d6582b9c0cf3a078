#include "engine/run/worker.h"

#include <algorithm>
#include <string>
#include <utility>

namespace svc {

void Worker::Close(const std::function<void()>& free) {
  std::call_once(closed_, [&] {
    Change([&] { closing_ = abort_ = true; });
    if (thread_.joinable()) thread_.join();
    free();
  });
}

Status Worker::Accepts(GenerationId id, std::size_t waiting, bool in_use) const {
  if (closing_) return {StatusCode::kEngineUnavailable, "the engine is closed"};
  if (waiting >= kMaxWaiting) {
    return {StatusCode::kBusy,
            std::to_string(kMaxWaiting) + " requests are waiting for this model already"};
  }
  if (in_use) {
    return {StatusCode::kInvalidRequest, "request " + std::to_string(id) + " is alive already"};
  }
  return Status::Ok();
}

void Worker::Cancelled(GenerationId id) {
  if (in_batch_.erase(id) > 0 && in_batch_.empty()) abort_ = true;
}

double Worker::BatchAgeMs() const {
  return batch_started_at_ ? std::max(0.0, Milliseconds(Clock::now() - *batch_started_at_)) : 0;
}

bool Worker::Claim(std::unordered_set<GenerationId> wanted) {
  if (closing_ || wanted.empty()) return false;
  abort_ = false;
  in_batch_ = std::move(wanted);
  batch_started_at_ = Clock::now();
  return true;
}

void Worker::EndBatch() {
  in_batch_.clear();
  batch_started_at_.reset();
}

}  // namespace svc
