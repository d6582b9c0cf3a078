#include "engine/run/runner.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <utility>

namespace svc {
namespace {

// A step is worth aborting if it still takes so long, and as large a part of all of it.
constexpr double kLeastLeftMs = 30;
constexpr double kLeastLeftPart = 1.0 / 3;

}  // namespace

Runner::Runner(std::unique_ptr<Decoder> decoder, OutputSink sink, LoopOptions options)
    : sink_(std::move(sink)),
      loop_(std::make_unique<Loop>(std::move(decoder), std::move(options))) {
  stats_ = loop_->stats();
  loop_->OnStoreChange([this] {
    {
      const std::lock_guard lock(mutex_);
      store_changed_ = true;
    }
    wake_.notify_one();
  });
  thread_ = std::thread([this] { Run(); });
}

Runner::~Runner() { Close(); }

// ---- any thread ---------------------------------------------------------------------------------

Status Runner::Submit(Submission submission) {
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return {StatusCode::kEngineUnavailable, "the engine is closed"};
    if (stats_.waiting + adding_ + arrivals_.size() >= kMaxWaiting) {
      return {StatusCode::kBusy,
              std::to_string(kMaxWaiting) + " requests are waiting for this model already"};
    }
    if (!alive_.try_emplace(submission.id).second) {
      return {StatusCode::kInvalidRequest,
              "generation " + std::to_string(submission.id) + " is alive already"};
    }
    YieldTo(submission);
    arrivals_.push_back(std::move(submission));
  }
  wake_.notify_one();
  return Status::Ok();
}

// REQUIRES: mutex_ is held.
void Runner::YieldTo(const Submission& submission) {
  const std::int64_t started = step_started_ns_;
  if (started == 0 || in_batch_.empty() || !step_owner_.may_yield || abort_) return;
  const ShareId share = submission.scope.owner;
  const auto& known = step_owner_.known;
  if (std::find(known.begin(), known.end(), share) != known.end()) return;
  const auto age = Clock::now().time_since_epoch() - std::chrono::nanoseconds(started);
  const double left = step_owner_.predicted_ms - Milliseconds(age);
  if (left < kLeastLeftMs || left < kLeastLeftPart * step_owner_.predicted_ms) return;
  yielded_to_ = share;
  abort_ = true;
}

void Runner::Cancel(GenerationId id) { SetWish(id, &Wish::cancelled, true); }
void Runner::Pause(GenerationId id) { SetWish(id, &Wish::paused, true); }
void Runner::Resume(GenerationId id) { SetWish(id, &Wish::paused, false); }

void Runner::SetWish(GenerationId id, bool Wish::*wish, bool value) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = alive_.find(id);
    if (found == alive_.end()) return;
    found->second.*wish = value;
    changed_.push_back(id);
    if (found->second.cancelled && in_batch_.erase(id) > 0 && in_batch_.empty()) abort_ = true;
  }
  wake_.notify_one();
}

void Runner::Hold(bool on) {
  {
    const std::lock_guard lock(mutex_);
    held_ = on;
  }
  wake_.notify_one();
}

EngineStats Runner::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.waiting += static_cast<std::uint32_t>(adding_ + arrivals_.size());
  if (const std::int64_t started = step_started_ns_; started != 0) {
    const auto age = Clock::now().time_since_epoch() - std::chrono::nanoseconds(started);
    stats.step_age_ms = std::max(0.0, Milliseconds(age));
  }
  return stats;
}

void Runner::Close() {
  std::call_once(closed_, [this] {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      abort_ = true;
    }
    wake_.notify_one();
    thread_.join();
    loop_.reset();
  });
}

// ---- the runner thread --------------------------------------------------------------------------

void Runner::Run() {
  for (bool measure = true;; measure = false) {
    try {
      if (measure) loop_->Measure();
      return RunLoop();
    } catch (const std::bad_alloc&) {
      StartAnew({StatusCode::kOutOfMemory,
                 "memory ran out while the model computed; close other programs, or set a smaller "
                 "engine.context_length"});
    } catch (const std::exception& error) {
      StartAnew({StatusCode::kInternal, error.what()});
    }
  }
}

// Whatever the loop was about to do is only half done: nothing of it is used any more.
void Runner::StartAnew(const Status& status) {
  step_started_ns_ = 0;
  loop_ = Loop::Anew(std::move(loop_));
  std::vector<GenerationOutput> outputs;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, wish] : alive_) {
      GenerationOutput output;
      output.id = id;
      output.done = true;
      output.status = status;
      outputs.push_back(std::move(output));
    }
    alive_.clear();
    arrivals_.clear();
    changed_.clear();
    in_batch_.clear();
    adding_ = 0;
    stats_ = loop_->stats();
  }
  if (!outputs.empty()) sink_(std::move(outputs));
}

void Runner::RunLoop() {
  while (TakeInbox()) {
    if (may_fetch_) loop_->TakeFetched();
    if (may_step_ && loop_->HasWork()) {
      Step();
    } else if (loop_->WantsToSave()) {
      loop_->SaveOne();
    }
    Deliver();
  }
  loop_->CancelAll();
  Deliver();
  loop_->SaveUntil(Clock::now() + kSaveTime);
}

// Sleeps until there is something to do. The loop is told without the lock: it copies states and
// searches prefixes for that, and callers of Submit, Cancel and stats wait for the lock.
bool Runner::TakeInbox() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] {
    return closing_ || !changed_.empty() || !arrivals_.empty() || store_changed_ ||
           (!held_ && loop_->HasWork()) || loop_->WantsToSave();
  });
  may_fetch_ = std::exchange(store_changed_, false);
  may_step_ = !held_;
  std::vector<Submission> arrivals = std::exchange(arrivals_, {});
  adding_ = arrivals.size();
  std::vector<std::pair<GenerationId, Wish>> wishes;
  for (const GenerationId id : std::exchange(changed_, {})) {
    const auto found = alive_.find(id);
    if (found != alive_.end()) wishes.emplace_back(id, found->second);
  }
  lock.unlock();
  for (Submission& submission : arrivals) loop_->Add(std::move(submission));
  for (const auto& [id, wish] : wishes) {
    loop_->SetPaused(id, wish.paused);
    if (wish.cancelled) loop_->Cancel(id);
  }
  lock.lock();
  adding_ = 0;
  stats_ = loop_->stats();
  return !closing_;
}

void Runner::Step() {
  if (!loop_->Plan()) return;
  Deliver();
  if (!ClaimBatch()) return;
  step_started_ns_ = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  loop_->Compute(abort_);
  step_started_ns_ = 0;
  const std::lock_guard lock(mutex_);
  if (yielded_to_) loop_->Charge(*yielded_to_, step_owner_.rows);
}

// From here on, a Cancel that leaves the batch without a wanted generation aborts it.
bool Runner::ClaimBatch() {
  const std::lock_guard lock(mutex_);
  if (closing_) return false;
  abort_ = false;
  step_owner_ = loop_->step_owner();
  // Not twice in a row.
  if (std::exchange(yielded_to_, std::nullopt)) step_owner_.may_yield = false;
  in_batch_.clear();
  for (const GenerationId id : loop_->planned()) {
    if (!alive_.at(id).cancelled) in_batch_.insert(id);
  }
  stats_ = loop_->stats();
  return !in_batch_.empty();
}

// One sink call for all that happened since the last one, but not yet where more comes soon.
void Runner::Deliver() {
  std::vector<GenerationOutput> outputs;
  if (!loop_->MayWait()) outputs = loop_->TakeOutputs();
  {
    const std::lock_guard lock(mutex_);
    in_batch_.clear();
    for (const GenerationOutput& output : outputs) {
      if (output.done) alive_.erase(output.id);
    }
    stats_ = loop_->stats();
  }
  if (!outputs.empty()) sink_(std::move(outputs));
}

}  // namespace svc
