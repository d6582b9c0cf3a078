// The loop's part in the draft model: when it is asked, for how many tokens, and what that was
// worth.
//
// It is asked like this. Each generation that decodes, but for those whose own text drafts better,
// is given as many drafts as could be used, with the chance that is expected of them and what they
// cost; if some of these would be taken (ChooseDrafts), the drafter makes the first one. Then its
// real chance is known, its cost is spent, and the question is asked anew, until no further draft
// would be taken. So a sure text is drafted far, and an open one hardly at all.
//
// Before that the drafter has to have read the text. That is done in pieces that take no longer
// than a step does, so whoever decodes beside it is twice as slow for a while at most; and it is
// begun only where the account (draft_budget.h) has what the whole of it costs.
#include <algorithm>

#include "engine/run/loop.h"

namespace svc {
namespace {

// Where it is not known what a row costs the drafter, and what a piece has at least.
constexpr std::uint32_t kRowsToLearn = 32;
constexpr std::uint32_t kLeastRows = 8;

// Of the mean of what a unit of cost is, what the latest step says.
constexpr double kUnitGain = 0.1;

// Of drafts about which no more is known; they are yet to be made.
DraftToken Unknown(const Drafter& drafter, double unit_ms) {
  return {.chance = drafter.expected(), .cost = drafter.ms_per_draft() / unit_ms};
}

}  // namespace

// Replaces those of the proposals that it has better ones for.
void Loop::AskDrafter(const DraftLimits& limits, const std::atomic<bool>& abort,
                      std::vector<Proposal>* proposals) {
  if (parts_.size() > Drafter::kPlaces) return;
  const auto cost = [this](std::uint32_t rows) { return CostOfDecoding(rows); };
  const double unit_ms = cost_.measured() ? 1 : unit_ms_;
  plain_ms_ = cost(static_cast<std::uint32_t>(parts_.size())) * unit_ms;
  if (plain_ms_ <= 0) return;

  std::vector<Drafter::Line> lines;
  for (const Part& part : parts_) {
    const Generation& generation = *part.generation;
    if (drafter_->Follow(generation.id, generation.tokens)) budget_.Encourage();
    lines.push_back({.id = generation.id, .tokens = generation.tokens});
  }
  std::vector<Proposal> hoped = *proposals;
  std::vector<std::uint32_t> most(parts_.size(), 0);
  const DraftToken unknown = Unknown(*drafter_, unit_ms);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    std::vector<DraftToken>& drafts = hoped[i].drafts;
    if (!drafts.empty() && drafts.front().chance >= unknown.chance) continue;
    const auto rows = static_cast<std::uint32_t>(rows_.size());
    most[i] = MostDrafts(*parts_[i].generation, limits.rows - rows);
    if (most[i] > 0) drafts.assign(most[i], unknown);
  }

  std::vector<std::uint32_t> wanted = ChooseDrafts(hoped, limits, cost);
  std::vector<std::size_t> asking;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (most[i] == 0) continue;
    const Generation& generation = *parts_[i].generation;
    const std::uint32_t lack = drafter_->Lack(generation.id, generation.tokens);
    if (MayAskDrafter(generation, lack, wanted[i] > 0) && CatchUp(generation, lack, abort)) {
      asking.push_back(i);
    } else {
      hoped[i] = (*proposals)[i];
    }
  }
  while (!asking.empty()) {
    std::vector<Drafter::Line*> asked;
    asked.reserve(asking.size());
    for (const std::size_t i : asking) asked.push_back(&lines[i]);
    if (!drafter_->Draft(asked, abort)) break;
    for (const std::size_t i : asking) {
      std::vector<DraftToken>& drafts = lines[i].drafts;
      if (decoder_->IsEndOfGeneration(drafts.back().token)) {
        // If it is right, no row is needed behind it.
        drafts.pop_back();
        most[i] = static_cast<std::uint32_t>(drafts.size());
        hoped[i].drafts.resize(most[i]);
      } else {
        hoped[i].drafts[drafts.size() - 1] = drafts.back();
      }
    }
    wanted = ChooseDrafts(hoped, limits, cost);
    std::erase_if(asking, [&](std::size_t i) {
      const std::size_t drafted = lines[i].drafts.size();
      return drafted == most[i] || wanted[i] <= drafted;
    });
  }

  for (std::size_t i = 0; i < parts_.size(); ++i) {
    std::vector<DraftToken>& drafts = lines[i].drafts;
    Proposal& proposal = (*proposals)[i];
    if (drafts.empty()) continue;
    if (!proposal.drafts.empty() && proposal.drafts.front().chance >= drafts.front().chance) {
      continue;
    }
    proposal.drafts = std::move(drafts);
    proposal.by_model = true;
  }
  drafting_ms_ = drafter_->TakeSpentMs();
  budget_.Add(-drafting_ms_ / plain_ms_);
}

// Whether it can draft for a generation of which it lacks so many rows, and that can be afforded.
// `expected`: to pay; if not, this is a trial.
bool Loop::MayAskDrafter(const Generation& generation, std::uint32_t lack, bool expected) {
  if (lack == 0) return false;
  // What has been read in part is read to its end.
  if (catching_up_ == generation.id) return true;
  double ms = drafter_->ms_per_draft();
  // To read it and then to have nothing left for a draft would be a waste.
  if (lack > Drafter::kRowsBeside) ms += lack * drafter_->ms_per_row() + plain_ms_;
  return budget_.Affords(ms / plain_ms_) && (expected || budget_.TryNow());
}

// True: the drafter has read all but the last few of its tokens.
bool Loop::CatchUp(const Generation& generation, std::uint32_t lack,
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

// What the step cost and what the drafter's drafts saved of it, for the account.
void Loop::SettleDrafts() {
  const double step_ms = last_step_ms_ - drafting_ms_;
  const auto decodes = [](const Part& part) { return part.rows == 1; };
  const auto sequences = static_cast<std::uint32_t>(parts_.size());
  std::uint32_t rows = sequences;
  for (const Part& part : parts_) rows += part.drafts;
  if (!cost_.measured() && sequences > 0 && std::all_of(parts_.begin(), parts_.end(), decodes)) {
    const double unit_ms = step_ms / CostOfDecoding(rows);
    unit_ms_ = unit_ms_ > 0 ? unit_ms_ + kUnitGain * (unit_ms - unit_ms_) : unit_ms;
  }
  if (plain_ms_ <= 0) return;
  budget_.Pass(step_ms / plain_ms_);
  if (model_drafts_ == 0) return;
  const double plain = CostOfDecoding(sequences);
  const double spared = plain / sequences * model_right_;
  const double spent = CostOfDecoding(rows) - CostOfDecoding(rows - model_drafts_);
  budget_.Add((spared - spent) / plain);
}

}  // namespace svc
