// The loop's part in speculation: which rows a step gets for drafts, and what becomes of them.
#include <algorithm>
#include <limits>
#include <utility>

#include "engine/run/loop.h"

namespace svc {
namespace {

// Where the cost of steps is not measured: what a row more costs, as a part of the step without
// drafts. On a GPU it is less.
constexpr double kUnmeasuredRow = 0.2;

// How much one row tells of those that follow, and how fast distrust is forgotten.
constexpr double kTrustGain = 0.1;
constexpr double kTrustRecovery = 0.01;

}  // namespace

// Of a step that decodes only; as it will be, padding included.
double Loop::CostOfDecoding(std::uint32_t rows) const {
  if (!cost_.measured()) {
    return 1 + kUnmeasuredRow * (rows - static_cast<double>(parts_.size()));
  }
  const std::uint32_t padded = Padded(rows, /*all_wanted=*/true);
  return cost_.Predict(padded, padded);
}

// Tokens that may be drafted for it, at most so many. None where the text is to be that of a plain
// loop, and at its very beginning.
std::uint32_t Loop::MostDrafts(const Generation& generation, std::uint32_t most) const {
  if (generation.IsPlain() || generation.generated() == 0) return 0;
  // The row itself gives a token, too, and so does the last draft.
  std::uint32_t left =
      decoder_->cells_total() - static_cast<std::uint32_t>(generation.tokens.size());
  if (generation.max_tokens) {
    left = std::min(left, *generation.max_tokens - generation.generated());
  }
  return left < 2 ? 0 : std::min({left - 1, most, kMostDrafts});
}

// What each part may say next by its own text, at most so many tokens.
std::vector<Proposal> Loop::Proposals(std::uint32_t most) {
  std::vector<Proposal> proposals(parts_.size());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Generation& generation = *parts_[i].generation;
    if (generation.IsPlain() || generation.generated() == 0) continue;
    generation.lookup.Follow(generation.tokens, generation.prompt_size);
    generation.trust += kTrustRecovery * (1 - generation.trust);
    proposals[i].trust = generation.trust;
    if (const std::uint32_t drafts = MostDrafts(generation, most); drafts > 0) {
      proposals[i].drafts = generation.lookup.Propose(generation.tokens, drafts);
    }
  }
  return proposals;
}

// Puts drafts behind the rows of a step in which all parts decode. They may use cells that are
// free or can be evicted, and give back what they do not need after the step.
void Loop::Draft(const std::atomic<bool>& abort) {
  if (!std::exchange(may_draft_, true) || !decoder_->can_share() || parts_.empty()) return;
  // A row that was not believed is computed in the company that it would have had without drafts.
  const auto doubts = [](const Part& part) { return part.generation->doubt.has_value(); };
  if (std::any_of(parts_.begin(), parts_.end(), doubts)) return;
  const auto rows = static_cast<std::uint32_t>(rows_.size());
  DraftLimits limits{
      .rows = std::min({decoder_->max_rows(), decoder_->max_outputs(), AvailableCells()}),
      .ms = std::numeric_limits<double>::infinity()};
  if (limits.rows <= rows) return;
  // Others should not wait longer for their tokens than they do beside a prompt.
  if (parts_.size() > 1 && cost_.measured()) limits.ms = targets_.decoding_ms;
  std::vector<Proposal> proposals = Proposals(limits.rows - rows);
  if (drafter_ != nullptr) AskDrafter(limits, abort, &proposals);
  const std::vector<std::uint32_t> chosen = ChooseDrafts(
      proposals, limits, [this](std::uint32_t count) { return CostOfDecoding(count); });
  if (std::all_of(chosen.begin(), chosen.end(), [](auto count) { return count == 0; })) return;

  const std::vector<Row> plain = std::exchange(rows_, {});
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    Row row = plain[part.last_row];
    part.last_row = rows_.size();
    part.drafts = chosen[i];
    part.by_model = proposals[i].by_model;
    if (part.by_model) model_drafts_ += part.drafts;
    rows_.push_back(row);
    for (std::uint32_t draft = 0; draft < part.drafts; ++draft) {
      row.token = proposals[i].drafts[draft].token;
      ++row.position;
      rows_.push_back(row);
    }
  }
}

// Samples at the last row of a part and, for as long as the drafts behind it have said what is
// said, at those.
void Loop::Advance(const Part& part) {
  Generation& generation = *part.generation;
  std::uint32_t right = 0;
  std::string text;
  while (generation.pending() == 0) {
    const std::size_t row = part.last_row + right;
    if (!Believes(part, row)) {
      --generation.computed;
      --own_cells_;
      break;
    }
    if (Sample(generation, decoder_->Logits(row), &text)) break;
    while (right < part.drafts && generation.pending() > 0 &&
           rows_[part.last_row + right + 1].token == generation.tokens[generation.computed]) {
      ++right;
      ++generation.computed;
      ++own_cells_;
    }
  }
  counts_.drafted_tokens += part.drafts;
  counts_.accepted_tokens += right;
  if (part.by_model) model_right_ += right;
  if (HasDrafts() && !generation.ended) TakeBack(part, generation.computed);
  if (!generation.ended) Say(generation, std::move(text));
}

// Whether a row that was computed beside drafts draws what it would draw alone; see tie_guard.h.
bool Loop::Believes(const Part& part, std::size_t row) {
  Generation& generation = *part.generation;
  const std::uint32_t cells = decoder_->cells_total() - FreeCells();
  if (!HasDrafts()) {
    if (generation.doubt) {
      ties_.Observe(generation.doubt->rows, cells, generation.doubt->lead,
                    generation.sampler->Lead(decoder_->Logits(row)));
    }
    generation.doubt.reset();
    return true;
  }
  const float margin = ties_.Margin(rows_.size(), cells);
  const float lead = margin > 0 ? generation.sampler->Lead(decoder_->Logits(row)) : 0;
  const bool believed = lead >= margin;
  generation.trust += kTrustGain * ((believed ? 1 : 0) - generation.trust);
  if (!believed) generation.doubt = {.rows = rows_.size(), .lead = lead};
  return believed;
}

// Removes what the part's rows have left in the cache behind the first `length` tokens.
void Loop::TakeBack(const Part& part, std::uint32_t length) {
  const SequenceId sequence = part.generation->sequence;
  const auto end = static_cast<std::uint32_t>(decoder_->NextPosition(sequence));
  if (length < end) decoder_->RemoveCells(sequence, length, end);
}

}  // namespace svc
