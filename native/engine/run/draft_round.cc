#include "engine/run/draft_round.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "engine/model/step_constants.h"

namespace svc {
namespace {

// Weight of one row in a generation's trust, and rate at which distrust is forgotten.
constexpr double kTrustGain = 0.1;
constexpr double kTrustRecovery = 0.01;

// Rows of a piece of prefill for the draft model: while the cost of a row is not known, and at
// least.
constexpr std::uint32_t kRowsToLearn = 32;
constexpr std::uint32_t kLeastRows = 8;

// Weight of the latest step in the moving average unit_ms_.
constexpr double kUnitGain = 0.1;

// A draft of the model that is not made yet.
DraftToken Hypothetical(const Drafter& drafter, double unit_ms) {
  return {.chance = drafter.expected(), .cost = drafter.ms_per_draft() / unit_ms};
}

double FirstChance(const std::vector<DraftToken>& drafts) {
  return drafts.empty() ? -1 : drafts.front().chance;
}

}  // namespace

DraftRound::DraftRound(std::unique_ptr<Drafter> drafter, Decoder* decoder, const StepCosts* costs,
                       const Admission* admission, const Padding* padding)
    : drafter_(std::move(drafter)),
      decoder_(decoder),
      costs_(costs),
      admission_(admission),
      padding_(padding) {}

void DraftRound::Measure() {
  if (drafter_ == nullptr) return;
  drafter_->Measure();
  plain_ms_ = CostOfDecoding(Step{}, 1);
}

void DraftRound::SetThreads(int threads) {
  if (drafter_ != nullptr) drafter_->SetThreads(threads);
}

void DraftRound::Grow(std::uint32_t cells) {
  if (drafter_ != nullptr) drafter_->Grow(cells);
}

void DraftRound::Release(const Generation& generation) {
  if (drafter_ != nullptr) drafter_->Release(generation.id);
  if (catching_up_ == generation.id) catching_up_.reset();
}

void DraftRound::Begin() {
  drafting_ms_ = 0;
  model_drafts_ = 0;
  model_right_ = 0;
}

// Cost of a step that only decodes, with its padding: in milliseconds, or, where the cost is not
// measured, in steps without drafts.
double DraftRound::CostOfDecoding(const Step& step, std::uint32_t rows) const {
  if (!costs_->measured()) {
    return 1 + kUnmeasuredRow * (rows - static_cast<double>(step.parts.size()));
  }
  const std::uint32_t padded = padding_->Padded(rows, /*all_wanted=*/true);
  return costs_->model().Predict(padded, padded);
}

// Number of drafts of each proposal that pay in this step (draft/speculation.h).
std::vector<std::uint32_t> DraftRound::Choose(const Step& step, const DraftLimits& limits,
                                              const std::vector<Proposal>& proposals) const {
  return ChooseDrafts(proposals, limits,
                      [&](std::uint32_t rows) { return CostOfDecoding(step, rows); });
}

// Number of tokens that may be drafted for the generation, at most `most`. None where the text has
// to equal that of a plain loop, and at its very beginning.
std::uint32_t DraftRound::MostDrafts(const Generation& generation, std::uint32_t most) const {
  if (generation.IsPlain() || generation.generated() == 0) return 0;
  // The row itself gives a token, too, and so does the last draft.
  std::uint32_t left =
      decoder_->cells_total() - static_cast<std::uint32_t>(generation.tokens.size());
  if (generation.max_tokens) {
    left = std::min(left, *generation.max_tokens - generation.generated());
  }
  return left < 2 ? 0 : std::min({left - 1, most, kMostDrafts});
}

// Drafts of each part, at most `most` tokens: the known tokens of an answer that is continued, else
// from its own text.
std::vector<Proposal> DraftRound::Proposals(const Step& step, std::uint32_t most) {
  std::vector<Proposal> proposals(step.parts.size());
  for (std::size_t i = 0; i < step.parts.size(); ++i) {
    Generation& generation = *step.parts[i].generation;
    if (generation.IsPlain() || generation.generated() == 0) continue;
    if (const std::span<const Token> known = generation.sampler->Known(); !known.empty()) {
      const std::size_t drafts = std::min<std::size_t>(known.size(), MostDrafts(generation, most));
      for (const Token token : known.first(drafts)) {
        proposals[i].drafts.push_back({.token = token, .chance = 1});
      }
      continue;
    }
    generation.drafting.lookup.Follow(generation.tokens, generation.prompt_size);
    generation.drafting.trust += kTrustRecovery * (1 - generation.drafting.trust);
    proposals[i].trust = generation.drafting.trust;
    if (const std::uint32_t drafts = MostDrafts(generation, most); drafts > 0) {
      std::vector<DraftToken>& found = proposals[i].drafts;
      found = generation.drafting.lookup.Propose(generation.tokens, drafts);
      found.erase(std::ranges::find_if(
                      found, [](const DraftToken& draft) { return IsMediaToken(draft.token); }),
                  found.end());
    }
  }
  return proposals;
}

void DraftRound::Draft(Step* step, const std::atomic<bool>& abort) {
  if (std::exchange(is_skipped_, false)) return;
  if (!decoder_->can_share() || step->parts.empty()) return;
  // A row that was not believed is computed in the batch that it would have had without drafts.
  const auto doubts = [](const StepPart& part) {
    return part.generation->drafting.doubt.has_value();
  };
  if (std::ranges::any_of(step->parts, doubts)) return;
  DraftLimits limits{.rows = std::min({decoder_->max_rows(), decoder_->max_outputs(),
                                       admission_->AvailableCells()}),
                     .ms = std::numeric_limits<double>::infinity()};
  if (limits.rows <= step->size()) return;
  // Other generations should not wait longer for their tokens than they do beside a prompt.
  if (step->parts.size() > 1 && costs_->measured()) limits.ms = costs_->targets().decoding_ms;
  std::vector<Proposal> proposals = Proposals(*step, limits.rows - step->size());
  if (drafter_ != nullptr) AskModel(*step, limits, abort, &proposals);
  const std::vector<std::uint32_t> chosen = Choose(*step, limits, proposals);
  if (std::ranges::all_of(chosen, [](auto count) { return count == 0; })) return;
  AddRows(step, proposals, chosen);
}

// Puts the first chosen[i] drafts of each part behind its row.
void DraftRound::AddRows(Step* step, const std::vector<Proposal>& proposals,
                         const std::vector<std::uint32_t>& chosen) {
  const std::vector<Row> plain = std::exchange(step->rows, {});
  for (std::size_t i = 0; i < step->parts.size(); ++i) {
    StepPart& part = step->parts[i];
    Row row = plain[part.last_row];
    part.last_row = step->rows.size();
    part.drafts = chosen[i];
    part.by_model = proposals[i].by_model;
    if (part.by_model) model_drafts_ += part.drafts;
    step->rows.push_back(row);
    for (std::uint32_t draft = 0; draft < part.drafts; ++draft) {
      row.token = proposals[i].drafts[draft].token;
      ++row.position;
      step->rows.push_back(row);
    }
  }
}

bool DraftRound::Believes(const Step& step, const StepPart& part, std::size_t row) {
  Generation& generation = *part.generation;
  const std::uint32_t cells = decoder_->cells_total() - admission_->FreeCells();
  TieGuard& ties = generation.adapters.empty() ? ties_ : adapter_ties_;
  if (!step.HasDrafts()) {
    if (const auto& doubt = generation.drafting.doubt) {
      const std::optional<float> alone = generation.sampler->Lead(decoder_->Logits(row));
      // An unknown lead says nothing about the rounding.
      if (doubt->lead && alone) ties.Observe(doubt->rows, cells, *doubt->lead, *alone);
    }
    generation.drafting.doubt.reset();
    return true;
  }
  const float margin = ties.Margin(step.rows.size(), cells);
  std::optional<float> lead;
  if (margin > 0) lead = generation.sampler->Lead(decoder_->Logits(row));
  const bool believed = margin == 0 || (lead && *lead >= margin);
  generation.drafting.trust += kTrustGain * ((believed ? 1 : 0) - generation.drafting.trust);
  if (!believed) generation.drafting.doubt = {.rows = step.rows.size(), .lead = lead};
  return believed;
}

void DraftRound::Accepted(const StepPart& part, std::uint32_t right) {
  if (part.by_model) model_right_ += right;
}

// ---- the draft model ----------------------------------------------------------------------------

// Replaces proposals for which the draft model has better ones.
void DraftRound::AskModel(const Step& step, const DraftLimits& limits,
                          const std::atomic<bool>& abort, std::vector<Proposal>* proposals) {
  if (step.parts.size() > Drafter::kPlaces) return;
  // The draft model has no eyes and ears.
  if (std::ranges::any_of(step.parts,
                          [](const StepPart& part) { return !part.generation->media.empty(); })) {
    return;
  }
  const double unit_ms = costs_->measured() ? 1 : unit_ms_;
  const auto sequences = static_cast<std::uint32_t>(step.parts.size());
  plain_ms_ = CostOfDecoding(step, sequences) * unit_ms;
  if (plain_ms_ <= 0) return;

  Request request = MakeRequest(step, limits, *proposals, unit_ms);
  std::vector<std::size_t> asking = PartsToAsk(step, limits, *proposals, abort, &request);
  DraftInTurns(step, limits, abort, std::move(asking), &request);
  for (std::size_t i = 0; i < step.parts.size(); ++i) {
    std::vector<DraftToken>& drafts = request.lines[i].drafts;
    Proposal& proposal = (*proposals)[i];
    if (drafts.empty() || FirstChance(proposal.drafts) >= FirstChance(drafts)) continue;
    proposal.drafts = std::move(drafts);
    proposal.by_model = true;
  }
  drafting_ms_ = drafter_->TakeSpentMs();
  budget_.Add(-drafting_ms_ / plain_ms_);
}

// Hypothetical drafts for each part whose own text does not draft better.
DraftRound::Request DraftRound::MakeRequest(const Step& step, const DraftLimits& limits,
                                            const std::vector<Proposal>& proposals,
                                            double unit_ms) {
  Request request{.hoped = proposals, .most = std::vector<std::uint32_t>(step.parts.size(), 0)};
  for (const StepPart& part : step.parts) {
    const Generation& generation = *part.generation;
    if (drafter_->Follow(generation.id, generation.tokens)) budget_.Encourage();
    request.lines.push_back({.id = generation.id, .tokens = generation.tokens});
  }
  const DraftToken hypothetical = Hypothetical(*drafter_, unit_ms);
  for (std::size_t i = 0; i < step.parts.size(); ++i) {
    std::vector<DraftToken>& drafts = request.hoped[i].drafts;
    if (FirstChance(drafts) >= hypothetical.chance) continue;
    request.most[i] = MostDrafts(*step.parts[i].generation, limits.rows - step.size());
    if (request.most[i] > 0) drafts.assign(request.most[i], hypothetical);
  }
  return request;
}

// Parts that the model can draft for now, and whose cost the budget covers. The others keep their
// own proposals.
std::vector<std::size_t> DraftRound::PartsToAsk(const Step& step, const DraftLimits& limits,
                                                const std::vector<Proposal>& proposals,
                                                const std::atomic<bool>& abort, Request* request) {
  const std::vector<std::uint32_t> wanted = Choose(step, limits, request->hoped);
  std::vector<std::size_t> asking;
  for (std::size_t i = 0; i < step.parts.size(); ++i) {
    if (request->most[i] == 0) continue;
    const Generation& generation = *step.parts[i].generation;
    const std::uint32_t lack = drafter_->Lack(generation.id, generation.tokens);
    if (MayAsk(generation, lack, wanted[i] > 0) && CatchUp(generation, lack, abort)) {
      asking.push_back(i);
    } else {
      request->hoped[i] = proposals[i];
    }
  }
  return asking;
}

// One draft at a time for each part, as long as the next one is expected to pay.
void DraftRound::DraftInTurns(const Step& step, const DraftLimits& limits,
                              const std::atomic<bool>& abort, std::vector<std::size_t> asking,
                              Request* request) {
  while (!asking.empty()) {
    std::vector<Drafter::Line*> asked;
    asked.reserve(asking.size());
    for (const std::size_t i : asking) asked.push_back(&request->lines[i]);
    if (!drafter_->Draft(asked, abort)) return;
    for (const std::size_t i : asking) {
      std::vector<DraftToken>& drafts = request->lines[i].drafts;
      if (decoder_->IsEndOfGeneration(drafts.back().token)) {
        // If it is right, no row is needed behind it.
        drafts.pop_back();
        request->most[i] = static_cast<std::uint32_t>(drafts.size());
        request->hoped[i].drafts.resize(request->most[i]);
      } else {
        request->hoped[i].drafts[drafts.size() - 1] = drafts.back();
      }
    }
    const std::vector<std::uint32_t> wanted = Choose(step, limits, request->hoped);
    std::erase_if(asking, [&](std::size_t i) {
      const std::size_t drafted = request->lines[i].drafts.size();
      return drafted == request->most[i] || wanted[i] <= drafted;
    });
  }
}

// True if the model can draft for a generation of whose text it lacks `lack` rows, and the budget
// covers that. `expected`: drafts are expected to pay; if not, this is a trial.
bool DraftRound::MayAsk(const Generation& generation, std::uint32_t lack, bool expected) {
  if (lack == 0) return false;
  // A text that is prefilled in part is prefilled to its end.
  if (catching_up_ == generation.id) return true;
  double ms = drafter_->ms_per_draft();
  // Prefill without a draft after it would be a waste.
  if (lack > Drafter::kRowsBeside) ms += lack * drafter_->ms_per_row() + plain_ms_;
  return budget_.Affords(ms / plain_ms_) && (expected || budget_.TryNow());
}

// Prefills one piece of the text. True: the model has all but the last few of its tokens.
bool DraftRound::CatchUp(const Generation& generation, std::uint32_t lack,
                         const std::atomic<bool>& abort) {
  std::uint32_t read = 0;
  if (lack > Drafter::kRowsBeside) {
    const double row_ms = drafter_->ms_per_row();
    const double affordable = row_ms > 0 ? plain_ms_ / row_ms : kRowsToLearn;
    const double most = std::min(drafter_->max_rows(), lack - 1);
    read = static_cast<std::uint32_t>(
        std::clamp<double>(affordable, std::min<double>(kLeastRows, most), most));
    catching_up_ = generation.id;
    if (!drafter_->CatchUp(generation.id, generation.tokens, read, abort)) return false;
  }
  const bool done = lack - read <= Drafter::kRowsBeside;
  if (done && catching_up_ == generation.id) catching_up_.reset();
  return done;
}

void DraftRound::Settle(const Step& step, double step_ms) {
  if (drafter_ == nullptr) return;
  step_ms -= drafting_ms_;
  const auto decodes = [](const StepPart& part) { return part.rows == 1; };
  const auto sequences = static_cast<std::uint32_t>(step.parts.size());
  std::uint32_t rows = sequences;
  for (const StepPart& part : step.parts) rows += part.drafts;
  if (!costs_->measured() && sequences > 0 && std::ranges::all_of(step.parts, decodes)) {
    const double unit_ms = step_ms / CostOfDecoding(step, rows);
    unit_ms_ = unit_ms_ > 0 ? unit_ms_ + kUnitGain * (unit_ms - unit_ms_) : unit_ms;
  }
  if (plain_ms_ <= 0) return;
  budget_.Pass(step_ms / plain_ms_);
  if (model_drafts_ == 0) return;
  const double plain = CostOfDecoding(step, sequences);
  const double saved = plain / sequences * model_right_;
  const double spent = CostOfDecoding(step, rows) - CostOfDecoding(step, rows - model_drafts_);
  budget_.Add((saved - spent) / plain);
}

}  // namespace svc
