#include "engine/run/loop.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/base/common_length.h"

namespace svc {
namespace {

// A generation joins others in the cache only when each of them can still grow by this many tokens.
// Without it, one that has just been computed would be preempted a few steps later.
constexpr std::uint32_t kGrowthCells = 16;

// Fewer tokens are not taken from the prefix cache, because of a text that is then rounded in
// another way than the first time; and fewer are not waited for.
constexpr std::uint32_t kLeastReuse = 8;
constexpr std::uint32_t kLeastFollowed = 32;

// What text may wait for more: half a frame of a screen.
constexpr double kTogetherMs = 8;

// A character is at most four bytes, and a token at least one.
constexpr std::uint32_t kMostSilentSteps = 3;

// Ids: generations, then the prefix cache, then padding. Without sharing there are generations
// only.
bool HasSpareIds(const Decoder& decoder) {
  return decoder.can_share() && decoder.sequence_ids() > decoder.max_sequences() + kPaddingIds;
}
SequenceId EndOfCacheIds(const Decoder& decoder) {
  return static_cast<SequenceId>(HasSpareIds(decoder) ? decoder.sequence_ids() - kPaddingIds
                                                      : decoder.max_sequences());
}

bool WantsLogits(const Row& row) { return row.wants_logits; }

double SinceEpochMs(Clock::time_point time) { return Milliseconds(time.time_since_epoch()); }

// The tokens that may come from the cache: the last one is computed in any case, for its logits.
std::span<const Token> Reusable(const Generation& generation) {
  if (!generation.reuse_prefix && generation.generated() == 0) return {};
  return std::span(generation.tokens).first(generation.tokens.size() - 1);
}

// Why a sampler that returned `token` drew none.
Status WhyNoToken(Token token) {
  switch (token) {
    case kBrokenLogits:
      return {StatusCode::kInternal,
              "the model computed values that are not numbers (NaN or infinity); try another "
              "quantization of it, or engine.gpu_layers 0 if it runs on a GPU"};
    case kSlowGrammar:
      return {StatusCode::kInvalidRequest,
              "following the grammar takes too long; make it simpler or less ambiguous", "grammar"};
    default:
      return {StatusCode::kInvalidRequest,
              "no token of this model goes on with the text as the grammar wants", "grammar"};
  }
}

}  // namespace

Loop::Loop(std::unique_ptr<Decoder> decoder, LoopOptions options)
    : decoder_(std::move(decoder)),
      targets_(options.targets),
      now_(std::move(options.now)),
      cpu_ms_(std::move(options.cpu_ms)),
      has_spare_ids_(HasSpareIds(*decoder_)),
      cost_(options.cost),
      measure_ms_(options.measure_ms),
      threads_(cpu_ms_ ? decoder_->max_threads() : 1),
      cache_(decoder_.get(), static_cast<SequenceId>(decoder_->max_sequences()),
             EndOfCacheIds(*decoder_), decoder_->max_copied(0)),
      tiers_(decoder_.get(), &cache_, std::move(options.store)),
      prefiller_(decoder_.get()),
      drafter_(std::move(options.drafter)) {
  for (std::uint32_t i = 0; i < decoder_->max_sequences(); ++i) {
    free_sequences_.insert(static_cast<SequenceId>(i));
  }
}

std::unique_ptr<Loop> Loop::Anew(std::unique_ptr<Loop> broken) {
  std::unique_ptr<Decoder> decoder = std::move(broken->decoder_);
  LoopOptions options{.cost = broken->cost_,
                      .targets = broken->targets_,
                      .now = broken->now_,
                      .cpu_ms = broken->cpu_ms_,
                      .store = broken->tiers_.TakeStore()};
  const StepRecord record = broken->record_;
  const EngineStats counts = broken->counts_;
  broken.reset();
  decoder->Clear();
  auto loop = std::make_unique<Loop>(std::move(decoder), std::move(options));
  loop->record_ = record;
  loop->counts_ = counts;
  return loop;
}

void Loop::Measure() {
  if (measure_ms_ <= 0) return;
  cost_ = CostModel::Measure(*decoder_, now_, measure_ms_);
  if (drafter_ == nullptr) return;
  drafter_->Measure();
  plain_ms_ = CostOfDecoding(1);
}

// ---- what callers want --------------------------------------------------------------------------

Generation* Loop::Find(GenerationId id) {
  const auto found = std::find_if(generations_.begin(), generations_.end(),
                                  [&](const auto& g) { return g->id == id && !g->ended; });
  return found == generations_.end() ? nullptr : found->get();
}

void Loop::Add(Submission submission) {
  generations_.push_back(std::make_unique<Generation>(std::move(submission)));
  may_admit_ = true;
  Generation& generation = *generations_.back();
  if (generation.max_tokens == 0) {
    Finish(generation, generation.End(now_(), FinishReason::kLength, ""));
  } else {
    generation.fetching = tiers_.Fetch(generation.id, generation.scope, Reusable(generation));
  }
}

void Loop::SetPaused(GenerationId id, bool paused) {
  Generation* generation = Find(id);
  if (generation == nullptr) return;
  generation->paused = paused;
  may_admit_ = true;
}

void Loop::Cancel(GenerationId id) {
  Generation* generation = Find(id);
  if (generation == nullptr) return;
  Finish(*generation, generation->End(now_(), FinishReason::kCancelled, ""));
}

void Loop::CancelAll() {
  for (const auto& generation : generations_) {
    if (!generation->ended) {
      Finish(*generation, generation->End(now_(), FinishReason::kCancelled, ""));
    }
  }
}

bool Loop::HasWork() const {
  return std::any_of(generations_.begin(), generations_.end(),
                     [](const auto& g) { return !g->paused && !g->ended && !g->fetching; });
}

bool Loop::MayWait() const {
  if (awaited_ || rows_.empty() || counts_.last_step.rows == 0 || !HasWork()) return false;
  // About: rows are cheaper in company, and drafts may join them.
  const double growth = static_cast<double>(rows_.size()) / counts_.last_step.rows;
  const double next_ms = last_step_ms_ * std::max(1.0, growth);
  return Milliseconds(now_() - told_at_) + next_ms <= kTogetherMs;
}

std::vector<GenerationOutput> Loop::TakeOutputs() {
  std::erase_if(generations_, [](const auto& g) { return g->ended; });
  if (generations_.empty()) {
    rate_.Clear();
    prefiller_.Close();
    cache_.SetMaxCopied(decoder_->max_copied(0));
  }
  awaited_ = false;
  return outputs_.Take();
}

EngineStats Loop::stats() const {
  EngineStats stats = counts_;
  const auto alive = std::count_if(generations_.begin(), generations_.end(),
                                   [](const auto& g) { return !g->ended; });
  stats.active = static_cast<std::uint32_t>(std::count_if(
      generations_.begin(), generations_.end(), [](const auto& g) { return g->in_cache(); }));
  stats.waiting = static_cast<std::uint32_t>(alive) - stats.active;
  stats.cells_cached = cache_.evictable();
  stats.cells_used = own_cells_ + cache_.cells() - cache_.evictable();
  stats.cells_total = decoder_->cells_total();
  stats.swapped_tokens = cache_.swapped();
  stats.evicted_cells = cache_.evicted();
  stats.threads = static_cast<std::uint32_t>(threads_.threads());
  stats.tokens_per_second = rate_.per_second();
  return stats;
}

// ---- in what order ------------------------------------------------------------------------------

Demand Loop::DemandOf(const Generation& generation) const {
  const double first_token_ms = generation.timings.first_token_ms;
  return {.rows = generation.pending(),
          .position = generation.computed,
          .plain = generation.IsPlain(),
          .age_ms = first_token_ms < 0 ? 0 : generation.SinceSubmit(now_()) - first_token_ms};
}

double Loop::Remaining(std::uint32_t rows) const {
  const std::uint32_t chunk = kLeastPromptRows;
  return cost_.measured() ? cost_.Predict(chunk, 1) / chunk * rows : rows;
}

double Loop::Deadline(const Generation& generation) const {
  const std::uint32_t cached = generation.in_cache() ? generation.computed : Cached(generation);
  const auto rows = static_cast<std::uint32_t>(generation.tokens.size()) - cached;
  const double seniority = SeniorityOf(SinceEpochMs(generation.submitted_at), generation.priority);
  return std::min(generation.wanted_by_ms, DeadlineOf(seniority, Remaining(rows)));
}

// Of a waiting one's tokens.
std::uint32_t Loop::Cached(const Generation& generation) const {
  const std::uint32_t cached = tiers_.Match(generation.scope, Reusable(generation));
  return cached < kLeastReuse ? 0 : cached;
}

// Those that want to go on, the most urgent first.
std::vector<Generation*> Loop::InOrder(bool in_cache) const {
  std::vector<std::pair<Urgency, Generation*>> order;
  for (const auto& generation : generations_) {
    if (generation->ended || generation->paused || generation->in_cache() != in_cache) continue;
    if (generation->fetching) continue;
    order.emplace_back(UrgencyOf(*generation), generation.get());
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Generation*> generations;
  generations.reserve(order.size());
  for (const auto& [deadline, generation] : order) generations.push_back(generation);
  return generations;
}

// ---- who is in the cache ------------------------------------------------------------------------

// False: that many cannot be had.
bool Loop::FreeCellsFor(std::uint32_t rows) {
  if (const std::uint32_t free = FreeCells(); free < rows) cache_.Evict(rows - free);
  return FreeCells() >= rows;
}

void Loop::Admit() {
  if (!std::exchange(may_admit_, false)) return;
  for (Generation* candidate : InOrder(/*in_cache=*/false)) {
    if (FollowsAnother(*candidate, Cached(*candidate))) continue;
    while (!EnterCache(*candidate)) {
      if (MakeWayOfPaused() || MakeWayOfPrompt(*candidate)) continue;
      if (!MakeWayOfShare(*candidate)) return;
    }
  }
}

// Whether another is about to compute more of the candidate's prompt than is cached.
bool Loop::FollowsAnother(const Generation& candidate, std::uint32_t cached) {
  if (!has_spare_ids_) return false;
  const std::span<const Token> wanted = Reusable(candidate);
  for (const auto& leader : generations_) {
    if (!leader->in_cache() || leader->paused || !leader->reuse_prefix) continue;
    if (leader->pending() == 1 || leader->scope.salt != candidate.scope.salt) continue;
    const std::uint32_t common = CommonLength(wanted, leader->tokens);
    // Of a batch in the lane nothing can be had until all of it is done: on average, half of it.
    const std::uint32_t wait = leader.get() == prefiller_.generation() ? prefiller_.rows() / 2 : 0;
    if (leader->computed >= common || common < cached + std::max(kLeastFollowed, wait)) continue;
    leader->wanted_by_ms = std::min(leader->wanted_by_ms, Deadline(candidate));
    leader->wanted_by_counter =
        std::min(leader->wanted_by_counter, fair_.CounterOf(candidate.scope.owner));
    return true;
  }
  return false;
}

// False: there is no room.
bool Loop::EnterCache(Generation& candidate) {
  if (free_sequences_.empty()) return false;
  // Cells that those in the cache have been promised, and some for them to grow.
  std::uint64_t promised = 0;
  for (const auto& generation : generations_) {
    if (generation->in_cache()) promised += generation->pending() + kGrowthCells;
  }
  // Attention adds up in the order of the cells, wherever they happen to be.
  if (promised == 0 && !candidate.reuse_prefix) cache_.Evict(cache_.evictable());
  const SequenceId sequence = *free_sequences_.begin();
  const auto cached = std::span(candidate.tokens).first(Cached(candidate));
  const std::uint32_t known = tiers_.Known(candidate.scope, Reusable(candidate));
  PrefixCache::Pin pin = cache_.Take(candidate.scope, cached, sequence);
  if (candidate.tokens.size() - pin.length + promised > AvailableCells()) {
    decoder_->RemoveSequence(sequence);
    cache_.Release(pin);
    return false;
  }
  // First, so that the cells that are taken now are near the first one: attention walks over all up
  // to the last.
  if (cache_.evictable() > decoder_->idle_cells()) {
    cache_.Evict(cache_.evictable() - decoder_->idle_cells());
  }
  cache_.SwapIn(cached, sequence, FreeCells(), pin);
  free_sequences_.erase(sequence);
  candidate.sequence = sequence;
  candidate.pin = pin;
  candidate.computed =
      std::max(pin.length, tiers_.Restore(candidate.scope, Reusable(candidate), sequence));
  own_cells_ += candidate.own_cells();
  ++loads_[candidate.scope.owner].sequences;
  if (candidate.timings.started_ms < 0) {
    candidate.timings.started_ms = candidate.SinceSubmit(now_());
    candidate.cached_tokens = std::min(candidate.computed, known);
    counts_.cached_tokens += candidate.computed;
  }
  return true;
}

bool Loop::MakeWayOfPaused() {
  const auto paused = std::find_if(generations_.rbegin(), generations_.rend(),
                                   [](const auto& g) { return g->paused && g->in_cache(); });
  if (paused == generations_.rend()) return false;
  LeaveCache(**paused, /*keep_prefix=*/true);
  return true;
}

// A less urgent prompt that is not yet computed goes back to wait, if that costs it little.
bool Loop::MakeWayOfPrompt(const Generation& candidate) {
  double latest = Deadline(candidate);
  Generation* last = nullptr;
  for (const auto& generation : generations_) {
    if (!generation->in_cache() || generation->generated() > 0) continue;
    const bool found_again = has_spare_ids_ && generation->reuse_prefix;
    if (generation->own_cells() > 0 && !found_again) continue;
    // Between shares it is not a matter of deadlines (MakeWayOfShare).
    if (generation->scope.owner != candidate.scope.owner) continue;
    const double deadline = Deadline(*generation);
    if (deadline <= latest) continue;
    latest = deadline;
    last = generation.get();
  }
  if (last == nullptr) return false;
  if (last->computed > 0) ++counts_.preemptions;
  LeaveCache(*last, /*keep_prefix=*/true);
  return true;
}

void Loop::LeaveCache(Generation& generation, bool keep_prefix) {
  if (!generation.in_cache()) return;
  prefiller_.Drop(generation);
  CountLeaving(generation);
  if (keep_prefix) {
    Publish(generation);
    tiers_.Keep(generation.scope, std::span(generation.tokens).first(generation.computed),
                generation.sequence, /*on_disk=*/generation.reuse_prefix && generation.store);
  }
  own_cells_ -= generation.own_cells();
  decoder_->RemoveSequence(generation.sequence);
  cache_.Release(generation.pin);
  free_sequences_.insert(std::exchange(generation.sequence, -1));
  if (drafter_ != nullptr) drafter_->Release(generation.id);
  if (catching_up_ == generation.id) catching_up_.reset();
  generation.computed = 0;
  generation.wanted_by_ms = std::numeric_limits<double>::infinity();
  generation.wanted_by_counter = std::numeric_limits<double>::infinity();
  may_admit_ = true;
}

// Hands what has been computed to the prefix cache, where others find it.
void Loop::Publish(Generation& generation) {
  own_cells_ -= generation.own_cells();
  cache_.Publish(generation.scope, std::span(generation.tokens).first(generation.computed),
                 generation.sequence, generation.pin);
  own_cells_ += generation.own_cells();
  may_admit_ = true;
}

void Loop::PublishPrompt(Generation& generation) {
  Publish(generation);
  tiers_.PromptComputed(generation.scope,
                        std::span(generation.tokens).first(generation.prompt_size),
                        generation.computed, generation.sequence, generation.store);
}

// Every generation that decodes needs a cell, and a prompt at least one to move on.
void Loop::MakeRoom() {
  const auto needed = [this] {
    const auto decoding = std::count_if(
        generations_.begin(), generations_.end(),
        [](const auto& g) { return g->in_cache() && !g->paused && g->pending() == 1; });
    return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(decoding));
  };
  while (AvailableCells() < needed() && PreemptOne()) {
  }
}

// Never the only one in the cache.
bool Loop::PreemptOne() {
  const auto in_cache = std::count_if(generations_.begin(), generations_.end(),
                                      [](const auto& g) { return g->in_cache(); });
  if (in_cache < 2) return false;
  Generation* junior = JuniorOf(LargestShare());
  Preempt(junior != nullptr ? *junior : *JuniorOf(std::nullopt));
  return true;
}

// ---- the disk tier ------------------------------------------------------------------------------

void Loop::OnStoreChange(std::function<void()> listener) {
  if (tiers_.store() != nullptr) tiers_.store()->OnChange(std::move(listener));
}

void Loop::TakeFetched() {
  for (const GenerationId id : tiers_.TakeFetched(FreeSequence(), own_cells_)) {
    may_admit_ = true;
    if (Generation* generation = Find(id); generation != nullptr) generation->fetching = false;
  }
}

void Loop::SaveOne() { tiers_.SaveOne(FreeSequence(), own_cells_); }

void Loop::SaveUntil(Clock::time_point deadline) {
  if (tiers_.store() == nullptr) return;
  while (tiers_.store()->WaitForWrite(deadline) && WantsToSave() && Clock::now() < deadline) {
    SaveOne();
  }
}

// ---- one step -----------------------------------------------------------------------------------

bool Loop::Plan() {
  CountShares();
  Admit();
  MakeRoom();
  parts_.clear();
  planned_.clear();
  rows_.clear();
  padding_ = 0;

  std::vector<Generation*> candidates = InOrder(/*in_cache=*/true);
  const StepYield yield = YieldTo(&candidates);
  BeginPrefill(candidates);
  candidates = BesidePrefill(candidates);
  std::vector<Demand> demands;
  demands.reserve(candidates.size());
  for (const Generation* generation : candidates) {
    demands.push_back(DemandOf(*generation));
  }
  StepLimits limits = LimitsFor(cost_, record_, targets_, demands, decoder_->max_rows(), yield);
  limits.cells = AvailableCells();
  beside_prefill_ = !demands.empty();
  if (PrefillMayGoOn(demands, limits)) {
    planned_.push_back(prefiller_.generation()->id);
    return true;
  }
  for (const Share& share : PlanStep(demands, limits)) {
    Generation& generation = *candidates[share.index];
    const std::uint32_t rows = RowsToCheckpoint(generation, share.rows);
    for (std::uint32_t i = 0; i < rows; ++i) {
      const std::uint32_t position = generation.computed + i;
      rows_.push_back({.token = generation.tokens[position],
                       .position = static_cast<std::int32_t>(position),
                       .sequence = generation.sequence,
                       .wants_logits = position + 1 == generation.tokens.size()});
    }
    parts_.push_back({.generation = &generation, .rows = rows, .last_row = rows_.size() - 1});
    planned_.push_back(generation.id);
  }
  return !rows_.empty();
}

// Where the memory cannot be cut, a prompt's steps end where its state is to be kept.
std::uint32_t Loop::RowsToCheckpoint(const Generation& generation, std::uint32_t rows) const {
  if (!generation.reuse_prefix || generation.computed >= generation.prompt_size) return rows;
  return tiers_.CutRows(generation.scope,
                        std::span(generation.tokens).first(generation.prompt_size),
                        generation.computed, rows);
}

// With the rows that make a batch of so many cheaper, where there is room for them. If all others
// pass through the matrix of the vocabulary, these do, too: it is a kernel's group there as well.
std::uint32_t Loop::Padded(std::uint32_t rows, bool all_wanted) const {
  if (!has_spare_ids_) return rows;
  std::uint32_t most = std::min(AvailableCells(), decoder_->max_rows());
  if (all_wanted) most = std::min(most, decoder_->max_outputs());
  const std::uint32_t padded = cost_.Padded(rows);
  return padded > most ? rows : padded;
}

void Loop::Pad(bool all_wanted) {
  const auto rows = static_cast<std::uint32_t>(rows_.size());
  const std::uint32_t padded = Padded(rows, all_wanted);
  const bool plain = std::any_of(parts_.begin(), parts_.end(), [](const Part& part) {
    return part.rows > 1 && part.generation->IsPlain();
  });
  if (plain) return;
  const SequenceId first = EndOfCacheIds(*decoder_);
  for (; rows + padding_ < padded; ++padding_) {
    rows_.push_back(
        {.sequence = first + static_cast<SequenceId>(padding_), .wants_logits = all_wanted});
  }
}

// The model's part of a step, its cost, and what follows from that.
DecodeOutcome Loop::Decode(const std::atomic<bool>& abort, StepStats& step) {
  const auto outputs =
      static_cast<std::uint32_t>(std::count_if(rows_.begin(), rows_.end(), WantsLogits));
  step.rows = static_cast<std::uint32_t>(rows_.size());
  step.predicted_ms = cost_.Predict(step.rows, outputs);
  const double cpu_before_ms = cpu_ms_ ? cpu_ms_() : 0;
  const Clock::time_point started_at = now_();
  const DecodeOutcome outcome = decoder_->Decode(rows_, abort);
  step.spent_ms = Milliseconds(now_() - started_at);
  for (std::uint32_t i = 0; i < padding_; ++i) {
    decoder_->RemoveSequence(rows_[rows_.size() - 1 - i].sequence);
  }
  if (outcome == DecodeOutcome::kDone)
    Learn(step, outputs, cpu_ms_ ? cpu_ms_() - cpu_before_ms : 0);
  return outcome;
}

void Loop::Learn(const StepStats& step, std::uint32_t outputs, double cpu_ms) {
  if (!threads_.trying()) cost_.Observe(step.rows, outputs, step.spent_ms);
  if (!cpu_ms_) return;
  const int threads = threads_.threads();
  cost_.Scale(threads_.StepDone(SinceEpochMs(now_()), step.spent_ms, step.predicted_ms, cpu_ms));
  if (threads_.threads() == threads) return;
  decoder_->SetThreads(threads_.threads());
  if (drafter_ != nullptr) drafter_->SetThreads(threads_.threads());
}

void Loop::Count(const StepStats& step) {
  ++counts_.steps;
  counts_.rows += step.rows;
  counts_.prompt_tokens += step.prompt_rows;
  counts_.predicted_ms += step.predicted_ms;
  counts_.spent_ms += step.spent_ms;
  counts_.last_step = step;
}

void Loop::Compute(const std::atomic<bool>& abort) {
  const Clock::time_point started_at = now_();
  const std::uint64_t before = counts_.generated_tokens;
  drafting_ms_ = 0;
  model_drafts_ = 0;
  model_right_ = 0;
  if (rows_.empty()) {  // what was planned is the lane's
    Prefill(abort);
  } else {
    silent_ = false;
    ComputeStep(abort);
    // Who has got a token that is a part of a character need not wait as long for the next.
    silent_steps_ = silent_ && silent_steps_ < kMostSilentSteps ? silent_steps_ + 1 : 0;
    if (silent_steps_ == 0) {
      decoding_since_ = now_();
      due_step_ = counts_.steps + 1;
    }
  }
  last_step_ms_ = Milliseconds(now_() - started_at);
  if (!cost_.measured()) Record(before);
  if (drafter_ != nullptr) SettleDrafts();
  rate_.Add(last_step_ms_ / 1000, static_cast<std::uint32_t>(counts_.generated_tokens - before));
}

// A GPU computes on after a step has returned; only what was sampled says that it is done. So the
// steps since the last sample are recorded as one. `before`: tokens generated before this one.
void Loop::Record(std::uint64_t before) {
  unrecorded_rows_ += counts_.last_step.rows;
  unrecorded_ms_ += last_step_ms_;
  if (counts_.generated_tokens == before) return;
  record_.Add(std::exchange(unrecorded_rows_, 0), std::exchange(unrecorded_ms_, 0));
}

// So many more of its tokens are in the cache.
void Loop::TakeComputed(Generation& generation, std::uint32_t rows) {
  const bool prompt = generation.computed < generation.prompt_size;
  if (prompt) fair_.Charge(generation.scope.owner, rows);
  generation.computed += rows;
  own_cells_ += rows;
  if (rows > 1) may_admit_ = true;  // somebody may follow
  if (prompt && generation.reuse_prefix) PublishPrompt(generation);
}

void Loop::ComputeStep(const std::atomic<bool>& abort) {
  const bool all_wanted = std::all_of(rows_.begin(), rows_.end(), WantsLogits);
  if (all_wanted) Draft(abort);
  Pad(all_wanted);
  (void)FreeCellsFor(static_cast<std::uint32_t>(rows_.size()));
  StepStats step;
  const DecodeOutcome outcome = Decode(abort, step);
  if (outcome == DecodeOutcome::kDone) {
    for (const Part& part : parts_) {
      Generation& generation = *part.generation;
      generation.last_step = counts_.steps + 1;
      if (generation.computed < generation.prompt_size) step.prompt_rows += part.rows;
      TakeComputed(generation, part.rows);
      if (generation.pending() == 0) Advance(part);
    }
  } else {
    Recover(outcome);
  }
  Count(step);
}

void Loop::Recover(DecodeOutcome outcome) {
  for (const Part& part : parts_) {
    Generation& generation = *part.generation;
    if (part.drafts > 0) TakeBack(part, generation.computed);
    own_cells_ -= generation.own_cells();
    // A memory that cannot be cut may have been left between two tokens.
    if (outcome == DecodeOutcome::kAborted && !decoder_->can_share()) {
      decoder_->RemoveSequence(generation.sequence);
    }
    generation.computed = static_cast<std::uint32_t>(decoder_->NextPosition(generation.sequence));
    own_cells_ += generation.own_cells();
  }
  if (outcome == DecodeOutcome::kAborted) return;
  // The model may need more cells than tokens: make room once more, and fail only a generation that
  // has the cache to itself.
  if (outcome == DecodeOutcome::kNoCells) {
    may_draft_ = !HasDrafts();
    if (!may_draft_) return;
    if (cache_.evictable() > 0) {
      cache_.Evict(cache_.evictable());
      return;
    }
    if (PreemptOne()) return;
  }
  for (const Part& part : parts_) {
    Generation& generation = *part.generation;
    const Status status(StatusCode::kInternal, "the model could not compute a step");
    Finish(generation, generation.Fail(now_(), status), /*keep_prefix=*/false);
  }
}

// One token drawn, and those that have to follow it: they are computed with the next step, like a
// prompt.
bool Loop::Sample(Generation& generation, const float* logits, std::string* text) {
  Sampler& sampler = *generation.sampler;
  const Token token = sampler.Sample(logits);
  if (token < 0) {
    EndWithoutToken(generation, token, std::move(*text));
    return true;
  }
  if (generation.timings.first_token_ms < 0) {
    generation.timings.first_token_ms = generation.SinceSubmit(now_());
  }
  const bool speaks = !decoder_->IsEndOfGeneration(token) && !decoder_->Piece(token).empty();
  if (sampler.logprobs() != nullptr && speaks) generation.Tell(*sampler.logprobs());
  std::vector<Token> tokens = sampler.Forced();
  tokens.insert(tokens.begin(), token);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool whole = i + 1 == tokens.size() && sampler.ended();
    if (Take(generation, tokens[i], whole, text)) return true;
  }
  return false;
}

// `token`: why the sampler drew none, kNoToken and below.
void Loop::EndWithoutToken(Generation& generation, Token token, std::string text) {
  const bool broken = token == kBrokenLogits;
  GenerationOutput failed = generation.Fail(now_(), WhyNoToken(token));
  failed.text = std::move(text);
  Finish(generation, std::move(failed), /*keep_prefix=*/!broken);
  // The cells may hold such values, too: the next request would take them from the prefix cache.
  if (broken) cache_.Discard(generation.scope, generation.tokens);
}

// What it has said and not yet told.
void Loop::Say(Generation& generation, std::string text) {
  if (text.empty()) {
    if (generation.last_text_step < due_step_) silent_ = true;
    return;
  }
  const bool first = std::exchange(generation.last_text_step, counts_.steps + 1) == 0;
  GenerationOutput output;
  output.id = generation.id;
  output.text = std::move(text);
  output.logprobs = generation.TakeLogprobs();
  Tell(std::move(output), /*awaited=*/first);
}

bool Loop::Take(Generation& generation, Token token, bool whole, std::string* text) {
  generation.tokens.push_back(token);
  ++counts_.generated_tokens;
  fair_.Charge(generation.scope.owner, kOutputWeight);
  FinishReason reason = FinishReason::kStop;
  if (!decoder_->IsEndOfGeneration(token)) {
    if (generation.Say(decoder_->Piece(token), text)) {
      Finish(generation, generation.End(now_(), FinishReason::kStop, std::move(*text)));
      return true;
    }
    const bool full = generation.generated() == generation.max_tokens ||
                      generation.tokens.size() >= decoder_->cells_total();
    if (!full && !whole) return false;
    if (!whole) reason = FinishReason::kLength;
  }
  generation.stream.Finish(text);
  Finish(generation, generation.End(now_(), reason, std::move(*text)));
  return true;
}

void Loop::Finish(Generation& generation, GenerationOutput output, bool keep_prefix) {
  LeaveCache(generation, keep_prefix);
  Tell(std::move(output), /*awaited=*/true);
}

void Loop::Tell(GenerationOutput output, bool awaited) {
  if (outputs_.empty()) told_at_ = now_();
  awaited_ |= awaited;
  outputs_.Add(std::move(output));
}

}  // namespace svc
