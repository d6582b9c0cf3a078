#include "engine/model/media_turns.h"

#include <algorithm>

namespace svc {

MediaTurns::Step::Step(MediaTurns* turns) : turns_(turns) {
  if (turns_ == nullptr) return;
  std::unique_lock lock(turns_->mutex_);
  turns_->step_waits_ = true;
  turns_->given_.wait(lock, [this] { return turns_->owner_ != Owner::kMedia; });
  turns_->step_waits_ = false;
  turns_->owner_ = Owner::kStep;
  turns_->step_began_at_ = Clock::now();
}

MediaTurns::Step::~Step() {
  if (turns_ == nullptr) return;
  const std::lock_guard lock(turns_->mutex_);
  turns_->step_ms_ = Milliseconds(Clock::now() - turns_->step_began_at_);
  turns_->Give(turns_->media_waits_ && !is_silent_ ? Owner::kMedia : Owner::kNone);
}

MediaTurns::Media::Media(MediaTurns* turns) : turns_(turns) {
  turns_->has_media_ = true;
  std::unique_lock lock(turns_->mutex_);
  if (turns_->owner_ == Owner::kNone) turns_->owner_ = Owner::kMedia;
  turns_->TakeForMedia(lock);
}

MediaTurns::Media::~Media() {
  turns_->has_media_ = false;
  const std::lock_guard lock(turns_->mutex_);
  turns_->Give(Owner::kNone);
}

void MediaTurns::Media::Yield() {
  std::unique_lock lock(turns_->mutex_);
  if (!turns_->step_waits_) return;
  turns_->Give(Owner::kStep);
  turns_->TakeForMedia(lock);
}

void MediaTurns::Rest() {
  const std::lock_guard lock(mutex_);
  if (owner_ == Owner::kNone && media_waits_) Give(Owner::kMedia);
}

bool MediaTurns::step_waits() const {
  const std::lock_guard lock(mutex_);
  return step_waits_;
}

bool MediaTurns::media_waits() const {
  const std::lock_guard lock(mutex_);
  return media_waits_;
}

double MediaTurns::part_ms() const {
  const std::lock_guard lock(mutex_);
  return std::max(decoding_ms_ - step_ms_, std::min(kMediaShare * step_ms_, kLongestWaitMs));
}

// REQUIRES the lock, as below.
void MediaTurns::Give(Owner owner) {
  owner_ = owner;
  given_.notify_all();
}

// Waits for the end of the step that has the turn.
void MediaTurns::TakeForMedia(std::unique_lock<std::mutex>& lock) {
  media_waits_ = true;
  given_.wait(lock, [this] { return owner_ == Owner::kMedia; });
  media_waits_ = false;
}

}  // namespace svc
