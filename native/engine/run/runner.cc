#include "engine/run/runner.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "engine/model/step_constants.h"

namespace svc {

Runner::Runner(std::unique_ptr<Decoder> decoder, OutputSink sink, LoopOptions options,
               std::shared_ptr<MediaTurns> turns)
    : turns_(std::move(turns)),
      loop_(std::make_unique<Loop>(std::move(decoder), std::move(options))),
      worker_(std::move(sink)) {
  stats_ = loop_->stats();
  loop_->OnStoreChange([this] { worker_.Change([this] { store_changed_ = true; }); });
  worker_.Start([this] { Run(); });
}

// ---- any thread ---------------------------------------------------------------------------------

Status Runner::Submit(Submission submission) {
  return worker_.Change([&] {
    Status status = worker_.Accepts(submission.id, stats_.waiting + adding_ + arrivals_.size(),
                                    alive_.contains(submission.id));
    if (!status.ok()) return status;
    alive_.try_emplace(submission.id);
    YieldTo(submission);
    arrivals_.push_back(std::move(submission));
    return status;
  });
}

// REQUIRES: the lock is held.
void Runner::YieldTo(const Submission& submission) {
  const double age_ms = worker_.BatchAgeMs();
  if (age_ms == 0 || !step_owner_.may_yield || worker_.abort()) return;
  const ShareId share = submission.scope.owner;
  const auto& known = step_owner_.known;
  if (std::ranges::find(known, share) != known.end()) return;
  const double left = step_owner_.predicted_ms - age_ms;
  if (left < kLeastYieldMs || left < kLeastYieldPart * step_owner_.predicted_ms) return;
  yielded_to_ = share;
  worker_.Abort();
}

void Runner::GrantCells(std::uint32_t cells, std::string refusal) {
  worker_.Change([&] { grant_ = {.cells = cells, .refusal = std::move(refusal)}; });
}

void Runner::SetWish(GenerationId id, bool Wish::*wish, bool value) {
  worker_.Change([&] {
    const auto found = alive_.find(id);
    if (found == alive_.end()) return;
    found->second.*wish = value;
    changed_.push_back(id);
    if (found->second.cancelled) worker_.Cancelled(id);
  });
}

EngineStats Runner::stats() const {
  const auto lock = worker_.Lock();
  EngineStats stats = stats_;
  stats.waiting += static_cast<std::uint32_t>(adding_ + arrivals_.size());
  stats.step_age_ms = worker_.BatchAgeMs();
  return stats;
}

// ---- the runner thread --------------------------------------------------------------------------

void Runner::Run() {
  for (bool measure = true;; measure = false) {
    try {
      if (measure) Measure();
      return RunLoop();
    } catch (const std::exception&) {
      StartAnew(
          CaughtStatus("memory ran out while the model computed; close other programs, or set a "
                       "smaller engine.context_length"));
    }
  }
}

void Runner::Measure() {
  const MediaTurns::Step turn(turns_.get());
  loop_->Measure();
}

// After an exception. The loop's state may be half changed, so none of it is reused.
void Runner::StartAnew(const Status& status) {
  loop_ = Loop::Anew(std::move(loop_));
  std::vector<GenerationOutput> outputs;
  {
    const auto lock = worker_.Lock();
    worker_.EndBatch();
    for (const auto& [id, wish] : alive_) {
      outputs.push_back({.id = id, .done = true, .status = status});
    }
    alive_.clear();
    arrivals_.clear();
    changed_.clear();
    adding_ = 0;
    // The old loop may have failed before it took a piece that the disk tier has read.
    store_changed_ = true;
    stats_ = loop_->stats();
  }
  worker_.Deliver(std::move(outputs));
}

void Runner::RunLoop() {
  while (TakeInbox()) {
    if (may_fetch_) loop_->TakeFetched();
    if (may_step_ && loop_->HasWork()) {
      Step();
      last_step_ = Clock::now();
    } else if (may_save_) {
      loop_->SaveOne();
    }
    Deliver();
  }
  if (turns_ != nullptr) turns_->Rest();
  loop_->CancelAll();
  Deliver();
  loop_->SaveUntil(Clock::now() + kSaveTime);
}

// Sleeps until there is work. Hands the inbox to the loop without holding the lock: the loop copies
// states and searches prefixes meanwhile, and callers of Submit, Cancel and stats need the lock.
// False: the engine closes, and the inbox stays empty.
bool Runner::TakeInbox() {
  auto lock = worker_.Lock();
  const auto has_work = [this] {
    return !changed_.empty() || !arrivals_.empty() || store_changed_ || grant_ ||
           (!worker_.held() && loop_->HasWork());
  };
  if (turns_ != nullptr && !has_work()) turns_->Rest();
  const bool wants_to_save = loop_->WantsToSave();
  const Clock::duration idle = loop_->MayLoseUnsaved() ? Clock::duration() : kIdleBeforeSave;
  may_save_ = wants_to_save && !worker_.WaitUntil(lock, last_step_ + idle, has_work);
  if (!wants_to_save) worker_.Wait(lock, has_work);
  may_fetch_ = std::exchange(store_changed_, false);
  may_step_ = !worker_.held();
  // Read here, not at the end: a request submitted in between would stay in the inbox.
  const bool closes = worker_.closing();
  std::vector<std::pair<GenerationId, Wish>> wishes;
  for (const GenerationId id : std::exchange(changed_, {})) {
    const auto found = alive_.find(id);
    if (found != alive_.end()) wishes.emplace_back(id, found->second);
  }
  // Last, because a grant is sent only once: above, memory may run out.
  std::optional<CellGrant> grant = std::exchange(grant_, std::nullopt);
  std::vector<Submission> arrivals = std::exchange(arrivals_, {});
  adding_ = arrivals.size();
  lock.unlock();
  if (grant) loop_->GrantCells(grant->cells, std::move(grant->refusal));
  for (Submission& submission : arrivals) loop_->Add(std::move(submission));
  for (const auto& [id, wish] : wishes) {
    loop_->SetPaused(id, wish.paused);
    if (wish.cancelled) loop_->Cancel(id);
  }
  lock.lock();
  adding_ = 0;
  stats_ = loop_->stats();
  return !closes;
}

void Runner::Step() {
  MediaTurns::Step turn(turns_.get());
  if (!loop_->Plan(turns_ != nullptr && turns_->has_media())) return;
  Deliver();
  if (!ClaimBatch()) return;
  loop_->Compute(worker_.abort());
  turn.SetSilent(loop_->was_silent());
  const auto lock = worker_.Lock();
  worker_.EndBatch();
  if (yielded_to_) loop_->Charge(*yielded_to_, step_owner_.rows);
}

bool Runner::ClaimBatch() {
  const auto lock = worker_.Lock();
  step_owner_ = loop_->step_owner();
  // Not twice in a row.
  if (std::exchange(yielded_to_, std::nullopt)) step_owner_.may_yield = false;
  stats_ = loop_->stats();
  std::unordered_set<GenerationId> wanted;
  for (const GenerationId id : loop_->planned()) {
    if (!alive_.at(id).cancelled) wanted.insert(id);
  }
  return worker_.Claim(std::move(wanted));
}

// One sink call for all that happened since the last one, but not yet where more comes soon.
void Runner::Deliver() {
  std::vector<GenerationOutput> outputs;
  const bool may_pause = turns_ != nullptr && turns_->has_media();
  if (may_pause || !loop_->MayWait()) outputs = loop_->TakeOutputs();
  {
    const auto lock = worker_.Lock();
    for (const GenerationOutput& output : outputs) {
      if (output.done) alive_.erase(output.id);
    }
    stats_ = loop_->stats();
  }
  worker_.Deliver(std::move(outputs));
}

}  // namespace svc
