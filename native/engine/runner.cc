#include "engine/runner.h"

#include <algorithm>
#include <utility>

namespace svc {
namespace {

// A generation joins others in the cache only when each of them can still grow by this many tokens.
// Without it, one that has just been computed would be preempted a few steps later.
constexpr std::uint32_t kGrowthCells = 16;

}  // namespace

Runner::Runner(std::unique_ptr<Decoder> decoder, OutputSink sink)
    : decoder_(std::move(decoder)), sink_(std::move(sink)) {
  for (std::uint32_t i = 0; i < decoder_->max_sequences(); ++i) {
    free_sequences_.insert(static_cast<SequenceId>(i));
  }
  stats_.cells_total = decoder_->cells_total();
  thread_ = std::thread([this] { Run(); });
}

Runner::~Runner() { Close(); }

// ---- any thread ---------------------------------------------------------------------------------

Status Runner::Submit(Submission submission) {
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return {StatusCode::kEngineUnavailable, "the engine is closed"};
    if (stats_.waiting + arrivals_.size() >= kMaxWaiting) {
      return {StatusCode::kBusy,
              std::to_string(kMaxWaiting) + " requests are waiting for this model already"};
    }
    if (!alive_.try_emplace(submission.id).second) {
      return {StatusCode::kInvalidRequest,
              "generation " + std::to_string(submission.id) + " is alive already"};
    }
    arrivals_.push_back(std::move(submission));
  }
  wake_.notify_one();
  return Status::Ok();
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
    wishes_changed_ = true;
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
  stats.waiting += static_cast<std::uint32_t>(arrivals_.size());
  stats.tokens_per_second = rate_.per_second();
  if (const std::int64_t started = step_started_ns_; started != 0) {
    const auto age = Clock::now().time_since_epoch() - std::chrono::nanoseconds(started);
    stats.step_age_ms = std::max(0.0, std::chrono::duration<double, std::milli>(age).count());
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
    decoder_.reset();
  });
}

// ---- the runner thread --------------------------------------------------------------------------

void Runner::Run() {
  while (TakeInbox()) {
    if (may_step_ && HasWork()) Step();
    Deliver();
  }
  for (auto& generation : generations_) {
    if (!generation->ended) Finish(*generation, generation->End(FinishReason::kCancelled, ""));
  }
  Deliver();
}

bool Runner::HasWork() const {
  return std::any_of(generations_.begin(), generations_.end(),
                     [](const auto& g) { return !g->paused && !g->ended; });
}

// Sleeps until there is something to do.
bool Runner::TakeInbox() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] {
    return closing_ || wishes_changed_ || !arrivals_.empty() || (!held_ && HasWork());
  });
  for (Submission& submission : std::exchange(arrivals_, {})) {
    generations_.push_back(std::make_unique<Generation>(std::move(submission)));
    Generation& generation = *generations_.back();
    if (generation.max_tokens == 0) Finish(generation, generation.End(FinishReason::kLength, ""));
    wishes_changed_ = true;  // it may have been changed while it lay in the inbox
  }
  if (std::exchange(wishes_changed_, false)) {
    for (auto& generation : generations_) {
      if (generation->ended) continue;
      const Wish wish = alive_.at(generation->id);
      generation->paused = wish.paused;
      if (wish.cancelled) Finish(*generation, generation->End(FinishReason::kCancelled, ""));
    }
  }
  PublishCounts();
  may_step_ = !held_;
  return !closing_;
}

void Runner::Step() {
  Admit();
  MakeRoom();
  Plan();
  if (rows_.empty() || !ClaimBatch()) return;

  const Clock::time_point started_at = Clock::now();
  step_started_ns_ = std::chrono::nanoseconds(started_at.time_since_epoch()).count();
  const DecodeOutcome outcome = decoder_->Decode(rows_, abort_);

  std::uint32_t prompt_rows = 0;
  std::uint32_t generated = 0;
  if (outcome == DecodeOutcome::kDone) {
    for (const BatchEntry& entry : batch_) {
      Generation& generation = *entry.generation;
      if (generation.computed < generation.prompt_size) prompt_rows += entry.rows;
      generation.computed += entry.rows;
      cells_used_ += entry.rows;
      if (generation.pending() > 0) continue;
      const std::uint32_t before = generation.generated();
      Sample(generation, entry.last_row);
      generated += generation.generated() - before;
    }
  } else {
    Recover(outcome);
  }

  step_started_ns_ = 0;
  const std::chrono::duration<double> elapsed = Clock::now() - started_at;
  const std::lock_guard lock(mutex_);
  in_batch_.clear();
  ++stats_.steps;
  stats_.prompt_tokens += prompt_rows;
  stats_.generated_tokens += generated;
  rate_.Add(elapsed.count(), generated);
}

// One sink call for all that happened since the last one.
void Runner::Deliver() {
  std::erase_if(generations_, [](const auto& g) { return g->ended; });
  {
    const std::lock_guard lock(mutex_);
    for (const GenerationOutput& output : outputs_) {
      if (output.done) alive_.erase(output.id);
    }
    PublishCounts();
  }
  if (!outputs_.empty()) sink_(std::exchange(outputs_, {}));
}

void Runner::PublishCounts() {
  stats_.active = static_cast<std::uint32_t>(std::count_if(
      generations_.begin(), generations_.end(), [](const auto& g) { return g->in_cache(); }));
  stats_.waiting = static_cast<std::uint32_t>(generations_.size()) - stats_.active;
  stats_.cells_used = cells_used_;
  if (generations_.empty()) rate_.Clear();
}

// ---- who is in the cache ------------------------------------------------------------------------

// In order of arrival, until one does not fit. Paused ones make way for it.
void Runner::Admit() {
  for (auto& generation : generations_) {
    if (generation->ended || generation->paused || generation->in_cache()) continue;
    while (!Fits(*generation)) {
      const auto paused = std::find_if(generations_.rbegin(), generations_.rend(),
                                       [](auto& g) { return g->paused && g->in_cache(); });
      if (paused == generations_.rend()) return;
      LeaveCache(**paused);
    }
    generation->sequence = free_sequences_.extract(free_sequences_.begin()).value();
    if (generation->timings.started_ms < 0) {
      generation->timings.started_ms = generation->SinceSubmit();
    }
  }
}

bool Runner::Fits(const Generation& candidate) const {
  if (free_sequences_.empty()) return false;
  // Cells that those in the cache have been promised, and some for them to grow.
  std::uint64_t promised = 0;
  for (const auto& generation : generations_) {
    if (generation->in_cache()) promised += generation->pending() + kGrowthCells;
  }
  return candidate.tokens.size() + promised <= FreeCells();
}

// Every generation that decodes needs a cell, and a prompt at least one to move on.
void Runner::MakeRoom() {
  const auto needed = [this] {
    const auto decoding = std::count_if(
        generations_.begin(), generations_.end(),
        [](const auto& g) { return g->in_cache() && !g->paused && g->pending() == 1; });
    return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(decoding));
  };
  while (FreeCells() < needed() && PreemptOne()) {
  }
}

// Frees the cells of the newest paused generation, or else of the newest; never of the only one.
bool Runner::PreemptOne() {
  Generation* newest = nullptr;
  Generation* newest_paused = nullptr;
  int in_cache = 0;
  for (const auto& generation : generations_) {
    if (!generation->in_cache()) continue;
    ++in_cache;
    newest = generation.get();
    if (generation->paused) newest_paused = generation.get();
  }
  if (in_cache < 2) return false;
  LeaveCache(newest_paused != nullptr ? *newest_paused : *newest);
  return true;
}

void Runner::LeaveCache(Generation& generation) {
  if (!generation.in_cache()) return;
  decoder_->RemoveSequence(generation.sequence);
  free_sequences_.insert(std::exchange(generation.sequence, -1));
  cells_used_ -= std::exchange(generation.computed, 0);
}

// ---- one batch ----------------------------------------------------------------------------------

void Runner::Plan() {
  std::vector<Generation*> candidates;
  std::vector<Demand> demands;
  for (const auto& generation : generations_) {
    if (!generation->in_cache() || generation->paused) continue;
    candidates.push_back(generation.get());
    demands.push_back({.rows = generation->pending()});
  }
  batch_.clear();
  rows_.clear();
  const StepLimits limits{.rows = decoder_->max_rows(), .cells = FreeCells()};
  for (const Share& share : PlanStep(demands, limits)) {
    Generation& generation = *candidates[share.index];
    for (std::uint32_t i = 0; i < share.rows; ++i) {
      const std::uint32_t position = generation.computed + i;
      rows_.push_back({.token = generation.tokens[position],
                       .position = static_cast<std::int32_t>(position),
                       .sequence = generation.sequence,
                       .wants_logits = position + 1 == generation.tokens.size()});
    }
    batch_.push_back({.generation = &generation, .rows = share.rows, .last_row = rows_.size() - 1});
  }
}

// From here on, a Cancel that leaves the batch without a wanted generation aborts it.
bool Runner::ClaimBatch() {
  const std::lock_guard lock(mutex_);
  if (closing_) return false;
  abort_ = false;
  in_batch_.clear();
  for (const BatchEntry& entry : batch_) {
    const GenerationId id = entry.generation->id;
    if (!alive_.at(id).cancelled) in_batch_.insert(id);
  }
  PublishCounts();
  return !in_batch_.empty();
}

void Runner::Recover(DecodeOutcome outcome) {
  for (const BatchEntry& entry : batch_) {
    Generation& generation = *entry.generation;
    const auto computed = static_cast<std::uint32_t>(decoder_->NextPosition(generation.sequence));
    cells_used_ = cells_used_ - generation.computed + computed;
    generation.computed = computed;
  }
  if (outcome == DecodeOutcome::kAborted) return;
  // The model may need more cells than tokens: make room once more, and fail only a generation that
  // has the cache to itself.
  if (outcome == DecodeOutcome::kNoCells && PreemptOne()) return;
  for (const BatchEntry& entry : batch_) {
    Generation& generation = *entry.generation;
    Finish(generation,
           generation.Fail({StatusCode::kInternal, "the model could not compute a step"}));
  }
}

// One token drawn, and those that have to follow it: they are computed with the next step, like a
// prompt.
void Runner::Sample(Generation& generation, std::size_t row) {
  Sampler& sampler = *generation.sampler;
  const Token token = sampler.Sample(decoder_->Logits(row));
  if (token == kNoToken) {
    Finish(generation,
           generation.Fail({StatusCode::kInvalidRequest,
                            "no token of this model goes on with the text as the grammar wants",
                            "grammar"}));
    return;
  }
  if (generation.timings.first_token_ms < 0) {
    generation.timings.first_token_ms = generation.SinceSubmit();
  }
  const bool speaks = !decoder_->IsEndOfGeneration(token) && !decoder_->Piece(token).empty();
  if (sampler.logprobs() != nullptr && speaks) generation.Tell(*sampler.logprobs());
  std::vector<Token> tokens = sampler.Forced();
  tokens.insert(tokens.begin(), token);
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool whole = i + 1 == tokens.size() && sampler.ended();
    if (Take(generation, tokens[i], whole, &text)) return;
  }
  if (!text.empty()) {
    GenerationOutput& output = outputs_.emplace_back();
    output.id = generation.id;
    output.text = std::move(text);
    output.logprobs = generation.TakeLogprobs();
  }
}

bool Runner::Take(Generation& generation, Token token, bool whole, std::string* text) {
  generation.tokens.push_back(token);
  FinishReason reason = FinishReason::kStop;
  if (!decoder_->IsEndOfGeneration(token)) {
    if (generation.Say(decoder_->Piece(token), text)) {
      Finish(generation, generation.End(FinishReason::kStop, std::move(*text)));
      return true;
    }
    const bool full = generation.generated() == generation.max_tokens ||
                      generation.tokens.size() >= decoder_->cells_total();
    if (!full && !whole) return false;
    if (!whole) reason = FinishReason::kLength;
  }
  generation.stream.Finish(text);
  Finish(generation, generation.End(reason, std::move(*text)));
  return true;
}

void Runner::Finish(Generation& generation, GenerationOutput output) {
  LeaveCache(generation);
  outputs_.push_back(std::move(output));
}

}  // namespace svc
