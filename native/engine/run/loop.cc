#include "engine/run/loop.h"

#include <algorithm>
#include <utility>

#include "engine/run/no_token.h"

namespace svc {

Loop::Loop(std::unique_ptr<Decoder> decoder, LoopOptions options)
    : decoder_(std::move(decoder)),
      now_(std::move(options.now)),
      measure_ms_(options.measure_ms),
      costs_(options.cost, options.targets, now_, std::move(options.cpu_ms),
             decoder_->max_threads()),
      shares_(decoder_.get()),
      prefiller_(decoder_.get(), &costs_),
      admission_({.decoder = decoder_.get(),
                  .generations = &generations_,
                  .shares = &shares_,
                  .prefiller = &prefiller_,
                  .costs = &costs_,
                  .counts = &counts_,
                  .now = now_,
                  .on_leave =
                      [this](const Generation& generation) {
                        prefiller_.Drop(generation);
                        drafts_.Release(generation);
                      }},
                 std::move(options.store)),
      growth_(decoder_.get(), &generations_, &admission_),
      padding_(decoder_.get(), &costs_, &admission_),
      drafts_(std::move(options.drafter), decoder_.get(), &costs_, &admission_, &padding_),
      lane_turns_(now_),
      adapter_turns_(now_),
      outbox_(now_) {}

std::unique_ptr<Loop> Loop::Anew(std::unique_ptr<Loop> broken) {
  std::unique_ptr<Decoder> decoder = std::move(broken->decoder_);
  broken->costs_.ShareTargets(1);
  LoopOptions options{.cost = broken->costs_.model(),
                      .targets = broken->costs_.targets(),
                      .now = broken->now_,
                      .cpu_ms = broken->costs_.cpu_clock(),
                      .store = broken->admission_.TakeStore()};
  const StepRecord record = broken->costs_.record();
  const EngineStats counts = broken->counts_;
  std::optional<GenerationId> asking = broken->growth_.asking();
  for (const GenerationOutput& output : broken->outbox_.Take()) {
    if (output.cells) asking.reset();  // its demand was never sent
  }
  broken.reset();
  decoder->Clear();
  auto loop = std::make_unique<Loop>(std::move(decoder), std::move(options));
  loop->growth_.SetAsking(asking);
  loop->costs_.SetRecord(record);
  loop->counts_ = counts;
  return loop;
}

void Loop::Measure() {
  if (measure_ms_ <= 0) return;
  costs_.Measure(*decoder_, measure_ms_);
  drafts_.Measure();
}

// ---- what callers want --------------------------------------------------------------------------

Generation* Loop::Find(GenerationId id) {
  const auto found =
      std::ranges::find_if(generations_, [&](const auto& g) { return g->id == id && !g->ended; });
  return found == generations_.end() ? nullptr : found->get();
}

void Loop::Add(Submission submission) {
  may_plan_ = true;
  generations_.push_back(std::make_unique<Generation>(std::move(submission)));
  Generation& generation = *generations_.back();
  if (generation.max_tokens == 0) {
    Finish(generation, generation.End(now_(), FinishReason::kLength, ""));
  } else if (growth_.Fits(generation)) {
    admission_.Arrived(generation);
  }
}

void Loop::SetPaused(GenerationId id, bool paused) {
  Generation* generation = Find(id);
  if (generation == nullptr) return;
  generation->paused = paused;
  // The next plan decides anew: Growth requests no cells for a paused generation.
  generation->outgrown = false;
  may_plan_ = true;
  admission_.Changed();
}

void Loop::Cancel(GenerationId id) {
  if (Generation* generation = Find(id)) Cancel(*generation);
}

void Loop::CancelAll() {
  for (const auto& generation : generations_) {
    if (!generation->ended) Cancel(*generation);
  }
}

void Loop::Cancel(Generation& generation) {
  Finish(generation, generation.End(now_(), FinishReason::kCancelled, ""));
}

void Loop::GrantCells(std::uint32_t cells, std::string refusal) {
  growth_.Grant(cells, std::move(refusal));
  may_plan_ = true;
  admission_.Changed();
}

bool Loop::HasWork() const {
  return may_plan_ &&
         std::ranges::any_of(generations_, [](const auto& g) { return g->may_go_on(); });
}

bool Loop::MayWait() const {
  if (step_.rows.empty() || counts_.last_step.rows == 0 || !HasWork()) return false;
  // An estimate: a row in a larger step is cheaper, and drafts may join it.
  const double growth = static_cast<double>(step_.size()) / counts_.last_step.rows;
  return outbox_.MayWait(last_step_ms_ * std::max(1.0, growth));
}

std::vector<GenerationOutput> Loop::TakeOutputs() {
  std::erase_if(generations_, [](const auto& g) { return g->ended; });
  if (generations_.empty()) {
    rate_.Clear();
    prefiller_.Close();
    admission_.SetLane(0);
  }
  return outbox_.Take();
}

EngineStats Loop::stats() const {
  EngineStats stats = counts_;
  const auto alive = std::ranges::count_if(generations_, [](const auto& g) { return !g->ended; });
  stats.active = static_cast<std::uint32_t>(
      std::ranges::count_if(generations_, [](const auto& g) { return g->in_cache(); }));
  stats.waiting = static_cast<std::uint32_t>(alive) - stats.active;
  admission_.AddTo(&stats);
  stats.threads = static_cast<std::uint32_t>(costs_.threads());
  stats.tokens_per_second = rate_.per_second();
  return stats;
}

StepOwner Loop::step_owner() const {
  if (step_.rows.empty() || !decoder_->can_share()) return {};
  const std::uint32_t rows = step_.size();
  return {.may_yield = true,
          .predicted_ms = costs_.measured() ? costs_.model().Predict(rows, step_.outputs()) : 0,
          .rows = rows,
          .known = shares_.Known()};
}

// ---- the disk tier ------------------------------------------------------------------------------

void Loop::TakeFetched() {
  may_plan_ = true;
  for (const GenerationId id : admission_.TakeFetched()) {
    if (Generation* generation = Find(id); generation != nullptr) generation->fetching = false;
  }
}

// ---- planning -----------------------------------------------------------------------------------

Demand Loop::DemandOf(const Generation& generation) const {
  const double first_token_ms = generation.timings.first_token_ms;
  return {.rows = generation.pending(),
          .position = generation.computed,
          .plain = generation.IsPlain(),
          .age_ms = first_token_ms < 0 ? 0 : generation.SinceSubmit(now_()) - first_token_ms};
}

bool Loop::Plan(bool beside_media) {
  may_plan_ = false;
  const bool grown = Grow();
  shares_.Count(generations_);
  admission_.Admit();
  // What was swapped out for the growth is back, so the bound on copies holds again.
  if (grown) admission_.SetLane(0);
  admission_.MakeRoom();
  step_.Clear();

  StepYield yield;
  const std::vector<Generation*> candidates = Candidates(&yield);
  std::vector<Demand> demands;
  demands.reserve(candidates.size());
  for (const Generation* generation : candidates) demands.push_back(DemandOf(*generation));
  beside_media = beside_media && CountDecoding(demands) > 0;
  if (beside_media) costs_.ShareTargets(costs_.targets().turns + 1);
  StepLimits limits = costs_.Limits(demands, decoder_->max_rows(), yield);
  limits.cells = admission_.AvailableCells();
  if (beside_media && was_silent() && limits.decoding_rows > 0) limits.prompt_rows = 0;
  is_beside_lane_ = !demands.empty();
  if (prefiller_.generation() != nullptr && lane_turns_.MayGoOn(demands, limits, costs_)) {
    step_.planned.push_back(prefiller_.generation()->id);
    may_plan_ = true;
    return true;
  }
  for (const Share& share : PlanStep(demands, limits)) {
    Generation& generation = *candidates[share.index];
    step_.Add(generation,
              generation.OfOneKind(admission_.RowsToCheckpoint(generation, share.rows)));
  }
  // A generation without rows in this step may get some in a later one.
  may_plan_ = may_plan_ || !demands.empty();
  return !step_.rows.empty();
}

// Generations that may take part in the step, which leaves `yield` to some of them. A long prompt
// goes to the lane instead.
std::vector<Generation*> Loop::Candidates(StepYield* yield) {
  std::vector<Generation*> candidates = admission_.InOrder(/*in_cache=*/true);
  *yield = shares_.YieldTo(&candidates);
  PlanLane(candidates);
  candidates = prefiller_.Beside(candidates, shares_);
  costs_.ShareTargets(1);
  const std::uint32_t turns =
      adapter_turns_.Keep(&candidates, counts_.steps, costs_.targets().decoding_ms);
  if (turns > 1) {
    costs_.ShareTargets(turns);
    // Those that it was for may wait for their turn.
    *yield = shares_.YieldTo(&candidates);
  }
  return candidates;
}

// Lets generations that have outgrown the cache wait, and replaces the cache once there is memory
// for them. True: it was emptied for that.
bool Loop::Grow() {
  for (Generation* refused : growth_.Collect()) Finish(*refused, growth_.EndOf(*refused, now_()));
  const bool due = growth_.Due();
  if (due) {
    if (growth_.Replace()) drafts_.Grow(decoder_->cells_total());
    prefiller_.Close();
    for (Generation* refused : growth_.Collect()) Finish(*refused, growth_.EndOf(*refused, now_()));
    admission_.Grown();
  }
  if (std::optional<GenerationOutput> demand = growth_.Ask()) {
    const GenerationId id = demand->id;
    outbox_.Add(std::move(*demand), /*urgent=*/true);
    growth_.SetAsking(id);
  }
  return due;
}

// Begins a batch of the most urgent prompt that the lane takes, if it computes none.
void Loop::PlanLane(const std::vector<Generation*>& candidates) {
  const auto decoding = static_cast<std::uint32_t>(
      std::ranges::count_if(candidates, [](const Generation* g) { return g->pending() == 1; }));
  prefiller_.SetDecoding(decoding);
  if (const Generation* generation = prefiller_.generation()) {
    if (!generation->paused) return;
    prefiller_.Drop(*generation);
  }
  const auto most_urgent = std::ranges::find_if(
      candidates, [this](const Generation* g) { return prefiller_.Takes(*g); });
  if (most_urgent == candidates.end()) return;
  Generation& generation = **most_urgent;
  // Before the lane grows, so that lane and swapped-out prefixes never take more together.
  admission_.SetLane(static_cast<std::uint32_t>(generation.tokens.size()));
  if (!prefiller_.Open(generation)) return;
  if (!prefiller_.Begin(generation, DemandOf(generation), /*beside=*/decoding > 0)) {
    Fail(generation, "the model could not take up a prompt");
  }
}

// ---- computing ----------------------------------------------------------------------------------

void Loop::Compute(const std::atomic<bool>& abort) {
  const Clock::time_point started_at = now_();
  const std::uint64_t before = counts_.generated_tokens;
  drafts_.Begin();
  if (step_.rows.empty()) {
    ComputeLane(abort);
  } else {
    lane_turns_.StepBegins();
    ComputeStep(abort);
    lane_turns_.StepEnds(counts_.steps);
  }
  last_step_ms_ = Milliseconds(now_() - started_at);
  const std::uint64_t generated = counts_.generated_tokens - before;
  costs_.Record(counts_.last_step.rows, last_step_ms_, /*sampled=*/generated > 0);
  drafts_.Settle(step_, last_step_ms_);
  rate_.Add(last_step_ms_ / 1000, static_cast<std::uint32_t>(generated));
}

void Loop::ComputeStep(const std::atomic<bool>& abort) {
  const bool all_wanted = step_.outputs() == step_.size();
  if (all_wanted) drafts_.Draft(&step_, abort);
  padding_.Add(&step_, all_wanted);
  (void)admission_.FreeCellsFor(step_.size());
  StepStats stats;
  const DecodeOutcome outcome = Decode(abort, stats);
  if (outcome == DecodeOutcome::kDone) {
    for (const StepPart& part : step_.parts) {
      Generation& generation = *part.generation;
      generation.last_step = counts_.steps + 1;
      if (generation.computed < generation.prompt_size) stats.prompt_rows += part.rows;
      admission_.Computed(generation, part.rows);
      if (generation.pending() == 0) Advance(part);
    }
  } else {
    if (outcome == DecodeOutcome::kAborted) lane_turns_.StepAborted();
    Recover(outcome);
  }
  Count(stats);
}

// The model's part of a step, and what its time teaches.
DecodeOutcome Loop::Decode(const std::atomic<bool>& abort, StepStats& stats) {
  const std::uint32_t outputs = step_.outputs();
  stats.rows = step_.size();
  stats.predicted_ms = costs_.model().Predict(stats.rows, outputs);
  const double cpu_before_ms = costs_.CpuMs();
  const Clock::time_point started_at = now_();
  decoder_->SetAdapters(step_.parts.front().generation->adapters);
  const double limit_ms = MayBeRepeated() ? costs_.LimitMs(stats.predicted_ms) : 0;
  decoder_->SetStepLimit(limit_ms);
  const DecodeOutcome outcome = decoder_->Decode(step_.rows, abort);
  stats.spent_ms = Milliseconds(now_() - started_at);
  padding_.Remove(step_);
  if (outcome == DecodeOutcome::kDone) Learn(stats, outputs, costs_.CpuMs() - cpu_before_ms);
  if (outcome == DecodeOutcome::kAborted && limit_ms > 0 && !abort) {
    costs_.Stalled(stats.spent_ms);
    UseThreads();
  }
  return outcome;
}

// Where a memory cannot be cut, an aborted step costs a sequence all of it; and the time of
// pictures and sounds is not predicted.
bool Loop::MayBeRepeated() const { return decoder_->can_share() && !step_.HasMedia(); }

void Loop::Learn(const StepStats& stats, std::uint32_t outputs, double cpu_ms) {
  // Pictures and sounds are computed apart from the tokens, so their time teaches nothing.
  if (!step_.HasMedia() && costs_.Learn(stats, outputs, cpu_ms)) UseThreads();
}

void Loop::UseThreads() {
  decoder_->SetThreads(costs_.threads());
  drafts_.SetThreads(costs_.threads());
}

void Loop::Count(const StepStats& stats) {
  ++counts_.steps;
  counts_.rows += stats.rows;
  counts_.prompt_tokens += stats.prompt_rows;
  counts_.predicted_ms += stats.predicted_ms;
  counts_.spent_ms += stats.spent_ms;
  counts_.last_step = stats;
}

void Loop::Recover(DecodeOutcome outcome) {
  for (const StepPart& part : step_.parts) {
    Generation& generation = *part.generation;
    if (part.drafts > 0) RemoveRows(part);
    // A memory that cannot be cut may have been left between two tokens.
    if (outcome == DecodeOutcome::kAborted && !decoder_->can_share()) {
      decoder_->RemoveSequence(generation.sequence);
    }
    admission_.Recount(generation);
  }
  if (outcome == DecodeOutcome::kAborted) return;
  // The model may need more cells than tokens: make room once more, and fail only a generation that
  // has the cache to itself.
  if (outcome == DecodeOutcome::kNoCells) {
    if (step_.HasDrafts()) {
      drafts_.SkipNext();
      return;
    }
    if (admission_.EvictAll() || admission_.PreemptOne()) return;
  }
  for (const StepPart& part : step_.parts) {
    Fail(*part.generation, "the model could not compute a step");
  }
}

// Removes what the part's rows have left in the cache behind the tokens that count as computed.
void Loop::RemoveRows(const StepPart& part) {
  const SequenceId sequence = part.generation->sequence;
  const std::uint32_t begin = part.generation->computed;
  const auto end = static_cast<std::uint32_t>(decoder_->NextPosition(sequence));
  if (begin < end) decoder_->RemoveCells(sequence, begin, end);
}

// The next stretch of the batch in the lane.
void Loop::ComputeLane(const std::atomic<bool>& abort) {
  StepStats stats{.rows = prefiller_.rows()};
  const PrefillLane::Progress progress = prefiller_.Advance(is_beside_lane_, now_, abort);
  if (progress == PrefillLane::Progress::kMore) return;
  EndLaneBatch(progress, stats);
  Count(stats);
}

void Loop::EndLaneBatch(PrefillLane::Progress progress, StepStats& stats) {
  Generation& generation = *Find(step_.planned.front());
  stats.spent_ms = prefiller_.spent_ms();
  stats.predicted_ms = costs_.model().Predict(stats.rows, 0);
  if (progress == PrefillLane::Progress::kAborted) return;
  bool has_room = false;
  if (progress == PrefillLane::Progress::kDone) {
    // As if the threads of a step had computed it.
    Learn(stats, 0, prefiller_.cpu_ms() * costs_.threads() / prefiller_.threads());
    while (!(has_room = admission_.FreeCellsFor(stats.rows)) && admission_.PreemptOne()) {
      if (prefiller_.generation() == nullptr) return;  // this generation was preempted
    }
  }
  if (!has_room || !prefiller_.HandOver()) {
    Fail(generation, "the model could not compute a step");
    return;
  }
  stats.prompt_rows = stats.rows;
  admission_.Computed(generation, stats.rows);
  if (generation.pending() > 0) return;
  std::string text;
  if (!Sample(generation, prefiller_.Logits(), &text)) Emit(generation, std::move(text));
}

// ---- tokens and text ----------------------------------------------------------------------------

// Samples at the last row of a part, and at the rows of its drafts for as long as each draft equals
// the token that was sampled before it.
void Loop::Advance(const StepPart& part) {
  Generation& generation = *part.generation;
  std::uint32_t accepted = 0;
  std::string text;
  while (generation.pending() == 0) {
    const std::size_t row = part.last_row + accepted;
    if (!drafts_.Believes(step_, part, row)) {
      admission_.Reject(generation);
      break;
    }
    if (Sample(generation, decoder_->Logits(row), &text)) break;
    while (accepted < part.drafts && generation.pending() > 0 &&
           step_.rows[part.last_row + accepted + 1].token ==
               generation.tokens[generation.computed]) {
      ++accepted;
      admission_.Accept(generation);
    }
  }
  counts_.drafted_tokens += part.drafts;
  counts_.accepted_tokens += accepted;
  drafts_.Accepted(part, accepted);
  if (step_.HasDrafts() && !generation.ended) RemoveRows(part);
  if (!generation.ended) Emit(generation, std::move(text));
}

// Samples one token and appends it, with the tokens that the grammar forces after it: they are
// computed with the next step, like a prompt. Appends to *text. True: the generation has ended.
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
  const bool has_text =
      !decoder_->IsEndOfGeneration(token) && !generation.Piece(*decoder_, token).empty();
  if (sampler.logprobs() != nullptr && has_text) generation.answer.Tell(*sampler.logprobs());
  std::vector<Token> tokens = sampler.Forced();
  tokens.insert(tokens.begin(), token);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool whole = i + 1 == tokens.size() && sampler.ended();
    if (Append(generation, tokens[i], whole, text)) return true;
  }
  return false;
}

// Appends the token to the generation and its text to *text. `whole`: with it the grammar is
// complete. True: the generation has ended.
bool Loop::Append(Generation& generation, Token token, bool whole, std::string* text) {
  generation.tokens.push_back(token);
  ++counts_.generated_tokens;
  shares_.Charge(generation.scope.owner, kOutputWeight);
  FinishReason reason = FinishReason::kStop;
  const bool ends = decoder_->IsEndOfGeneration(token);
  if (!ends || generation.spelled.contains(token)) {
    if (generation.Say(generation.Piece(*decoder_, token), text)) {
      Finish(generation, generation.End(now_(), FinishReason::kStop, std::move(*text)));
      return true;
    }
  }
  if (!ends) {
    const bool full = generation.guard.Add(token) || generation.IsFull(decoder_->max_cells());
    if (!full && !whole) return false;
    if (!whole) reason = FinishReason::kLength;
  }
  generation.answer.Finish(text);
  Finish(generation, generation.End(now_(), reason, std::move(*text)));
  return true;
}

// `token`: why the sampler drew none, kNoToken or below.
void Loop::EndWithoutToken(Generation& generation, Token token, std::string text) {
  const bool broken = token == kBrokenLogits;
  GenerationOutput failed = generation.Fail(now_(), WhyNoToken(token), std::move(text));
  Finish(generation, std::move(failed), /*keep_prefix=*/!broken);
  // The cells may hold such values, too: the next request would get them from the prefix cache.
  if (broken) admission_.Discard(generation);
}

// Puts the text of a step into the outbox.
void Loop::Emit(Generation& generation, std::string text) {
  if (text.empty()) {
    lane_turns_.NoText(generation);
    return;
  }
  const bool first = std::exchange(generation.last_text_step, counts_.steps + 1) == 0;
  GenerationOutput output{.id = generation.id};
  generation.Write(std::move(text), /*last=*/false, &output);
  if (!output.has_content() && output.tokens.empty()) return;
  outbox_.Add(std::move(output), /*urgent=*/first);
}

void Loop::Finish(Generation& generation, GenerationOutput output, bool keep_prefix) {
  admission_.Leave(generation, keep_prefix);
  may_plan_ = true;
  outbox_.Add(std::move(output), /*urgent=*/true);
}

void Loop::Fail(Generation& generation, const char* why) {
  Finish(generation, generation.Fail(now_(), {StatusCode::kInternal, why}), /*keep_prefix=*/false);
}

}  // namespace svc
