// The Loop's part in the lane: whose prompt is computed there, when it goes on, and what follows
// when a batch of it is done.
#include <algorithm>
#include <utility>

#include "engine/run/loop.h"

namespace svc {
namespace {

// Of a batch while somebody decodes: a few percent dearer than larger ones, but a stop is near.
constexpr std::uint32_t kRowsBeside = 256;

}  // namespace

// The most urgent prompt that the lane takes, if nothing is computed there.
void Loop::BeginPrefill(const std::vector<Generation*>& candidates) {
  if (const Generation* generation = prefiller_.generation()) {
    if (!generation->paused) return;
    prefiller_.Drop(*generation);
  }
  const auto most_urgent =
      std::find_if(candidates.begin(), candidates.end(),
                   [this](const Generation* g) { return prefiller_.Takes(*g); });
  if (most_urgent == candidates.end()) return;
  // Before the lane grows, so that both together never take more.
  const auto tokens = static_cast<std::uint32_t>((*most_urgent)->tokens.size());
  cache_.SetMaxCopied(decoder_->max_copied(tokens));
  if (!prefiller_.Open(**most_urgent)) return;
  Generation& generation = **most_urgent;
  const bool beside = std::any_of(candidates.begin(), candidates.end(),
                                  [](const Generation* g) { return g->pending() == 1; });
  const std::uint32_t most = prefiller_.max_rows();
  const std::uint32_t rows =
      RowsOfBatch(DemandOf(generation), beside ? std::min(most, kRowsBeside) : most);
  prefill_ms_ = 0;
  prefill_cpu_ms_ = 0;
  const std::uint32_t padded = generation.IsPlain() ? rows : cost_.Padded(rows);
  if (prefiller_.Begin(generation, rows, padded)) return;
  const Status status(StatusCode::kInternal, "the model could not take up a prompt");
  Finish(generation, generation.Fail(now_(), status), /*keep_prefix=*/false);
}

// Those who decode, and prompts that are to pass the one in the lane. The lane's own are left for
// it.
std::vector<Generation*> Loop::BesidePrefill(const std::vector<Generation*>& candidates) const {
  const Generation* prefilled = prefiller_.generation();
  std::vector<Generation*> beside;
  std::vector<Generation*> decoding;
  bool less_urgent = false;
  for (Generation* generation : candidates) {
    if (generation == prefilled) less_urgent = true;
    if (generation->ended || generation == prefilled) continue;
    if (generation->pending() == 1) {
      decoding.push_back(generation);
    } else if (!less_urgent && !prefiller_.Takes(*generation)) {
      beside.push_back(generation);
    }
  }
  std::stable_sort(decoding.begin(), decoding.end(), [](const Generation* a, const Generation* b) {
    return a->last_step < b->last_step;
  });
  OrderDecoding(&decoding);
  beside.insert(beside.end(), decoding.begin(), decoding.end());
  return beside;
}

bool Loop::PrefillMayGoOn(const std::vector<Demand>& demands, const StepLimits& limits) const {
  if (prefiller_.generation() == nullptr) return false;
  if (demands.empty()) return true;
  if (demands.front().rows > 1) return false;
  const auto rows =
      std::min(static_cast<std::uint32_t>(demands.size()), std::max(limits.decoding_rows, 1U));
  return !IsStepDue(Milliseconds(now_() - decoding_since_), cost_.Predict(rows, rows), targets_);
}

// The next stretch of the batch in the lane: a short one while somebody decodes beside it.
void Loop::Prefill(const std::atomic<bool>& abort) {
  const double cpu_before_ms = cpu_ms_ ? cpu_ms_() : 0;
  const Clock::time_point started_at = now_();
  StepStats step{.rows = prefiller_.rows()};
  const PrefillLane::Progress progress = prefiller_.Advance(
      beside_prefill_ ? PrefillLane::Stretch::kPartOfLayer : PrefillLane::Stretch::kLayer, abort);
  prefill_ms_ += Milliseconds(now_() - started_at);
  if (cpu_ms_) prefill_cpu_ms_ += cpu_ms_() - cpu_before_ms;
  if (progress == PrefillLane::Progress::kMore) return;
  EndPrefill(progress, step);
  Count(step);
}

void Loop::EndPrefill(PrefillLane::Progress progress, StepStats& step) {
  Generation& generation = *Find(planned_.front());
  step.spent_ms = prefill_ms_;
  step.predicted_ms = cost_.Predict(step.rows, 0);
  if (progress == PrefillLane::Progress::kAborted) return;
  bool has_room = false;
  if (progress == PrefillLane::Progress::kDone) {
    // As if it had been computed by the threads of a step.
    Learn(step, 0, prefill_cpu_ms_ * threads_.threads() / prefiller_.threads());
    while (!(has_room = FreeCellsFor(step.rows)) && PreemptOne()) {
      if (prefiller_.generation() == nullptr) return;  // it was the one
    }
  }
  if (!has_room || !prefiller_.HandOver()) {
    const Status status(StatusCode::kInternal, "the model could not compute a step");
    Finish(generation, generation.Fail(now_(), status), /*keep_prefix=*/false);
    return;
  }
  step.prompt_rows = step.rows;
  TakeComputed(generation, step.rows);
  if (generation.pending() > 0) return;
  std::string text;
  if (!Sample(generation, prefiller_.Logits(), &text)) Say(generation, std::move(text));
}

}  // namespace svc
