#include "engine/draft/drafter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/common_length.h"
#include "engine/draft/speculation.h"
#include "engine/model/largest_logits.h"

namespace svc {
namespace {

constexpr std::array<double, 5> kClassEnds = {1.0 / 3, 0.5, 0.7, 0.85, 0.95};

// Weight of the draft model's own probability in the estimate, in drafts; and decay of a record
// with each new draft.
constexpr double kProbabilityWeight = 1;
constexpr double kDraftFade = 0.95;

// Prior for expected(), and its weight in drafts: optimistic, so that drafting is tried.
constexpr double kFirstExpected = 0.7;
constexpr double kFirstWeight = 2;

// Weight of the latest measurement in the average.
constexpr double kGain = 0.1;

// Logits this far below the largest are ignored: exp(-20) is about 2e-9.
constexpr float kNegligible = 20;

constexpr std::uint32_t kMeasuredRows = 16;
constexpr int kMeasuredDrafts = 3;

void Learn(double& mean, double value) { mean = mean > 0 ? mean + kGain * (value - mean) : value; }

}  // namespace

Drafter::Drafter(std::unique_ptr<Decoder> decoder, std::uint32_t vocabulary, Now now)
    : decoder_(std::move(decoder)),
      vocabulary_(std::min(vocabulary, decoder_->vocabulary())),
      now_(std::move(now)) {}

void Drafter::Measure() {
  const std::atomic<bool> never = false;
  const std::uint32_t rows = std::min(kMeasuredRows, decoder_->max_rows());
  Place& place = places_.front();
  // The first run of each is slower (warm-up).
  for (const bool first : {true, false}) {
    Cut(place, 0);
    for (std::uint32_t i = 0; i < rows; ++i) AddRow(place, 0, i, /*wants_logits=*/false);
    const double before_ms = spent_ms_;
    if (!Compute(never)) return;
    if (!first) ms_per_row_ = (spent_ms_ - before_ms) / rows;
  }
  for (int i = 0; i <= kMeasuredDrafts; ++i) {
    AddRow(place, 0, place.computed.size(), /*wants_logits=*/true);
    const double before_ms = spent_ms_;
    if (!Compute(never)) return;
    (void)Likeliest(0, place);
    if (i > 0) Learn(ms_per_draft_, spent_ms_ - before_ms);
  }
  Cut(place, 0);
  place.drafted.clear();
  spent_ms_ = 0;
}

void Drafter::SetThreads(int threads) {
  decoder_->SetThreads(std::min(threads, decoder_->max_threads()));
}

void Drafter::Grow(std::uint32_t cells) {
  cells = std::min(cells, decoder_->max_cells());
  if (cells <= decoder_->cells_total()) return;
  for (Place& place : places_) Cut(place, 0);
  // If it fails, texts beyond the old size get no drafts.
  (void)decoder_->Grow(cells);
}

// ---- what its drafts are worth ------------------------------------------------------------------

std::size_t Drafter::ClassOf(double probability) {
  const auto* const end = std::ranges::upper_bound(kClassEnds, probability);
  return static_cast<std::size_t>(end - kClassEnds.begin());
}

double Drafter::Chance(double probability) const {
  return records_[ClassOf(probability)].Chance(probability, kProbabilityWeight);
}

double Drafter::expected() const { return lately_.Chance(kFirstExpected, kFirstWeight); }

bool Drafter::Follow(GenerationId id, std::span<const Token> tokens) {
  Place* const place = Find(id);
  if (place == nullptr || tokens.size() <= place->drafted_at) return false;
  const std::vector<Unjudged> drafted = std::exchange(place->drafted, {});
  std::size_t right = 0;
  for (const Unjudged& draft : drafted) {
    const std::size_t at = place->drafted_at + right;
    if (at == tokens.size()) break;
    const bool is_right = tokens[at] == draft.token;
    records_[ClassOf(draft.probability)].Add(is_right, kDraftFade);
    lately_.Add(is_right, kDraftFade);
    if (!is_right) break;
    ++right;
  }
  return right > 0;
}

// ---- places -------------------------------------------------------------------------------------

Drafter::Place* Drafter::Find(GenerationId id) {
  const auto found = std::ranges::find_if(places_, [id](const Place& p) { return p.owner == id; });
  return found == places_.end() ? nullptr : &*found;
}

// Place for a generation: its own; else the free one with the longest common beginning (of equal
// ones, the least recently used); else the least recently used one, taken from its generation.
Drafter::Place& Drafter::PlaceFor(GenerationId id, std::span<const Token> tokens) {
  Place* best = Find(id);
  if (best == nullptr) {
    std::size_t longest = 0;
    for (Place& place : places_) {
      if (place.owner) continue;
      const std::size_t common = CommonLength(place.computed, tokens);
      if (best != nullptr && common < longest) continue;
      if (best != nullptr && common == longest && place.used >= best->used) continue;
      best = &place;
      longest = common;
    }
    if (best == nullptr) {
      best = &*std::ranges::min_element(places_, {}, &Place::used);
    }
    best->owner = id;
    best->drafted.clear();
  }
  best->used = ++uses_;
  return *best;
}

void Drafter::Release(GenerationId id) {
  Place* const place = Find(id);
  if (place == nullptr) return;
  place->owner.reset();
  place->reserved = 0;
  place->drafted.clear();
}

void Drafter::Cut(Place& place, std::size_t length) {
  if (place.computed.size() <= length) return;
  decoder_->RemoveCells(IdOf(place), static_cast<std::uint32_t>(length),
                        static_cast<std::uint32_t>(place.computed.size()));
  place.computed.resize(length);
}

// Reserves `cells` cells for the place; if necessary, empties places without an owner. False: those
// of the others leave too few.
bool Drafter::Reserve(Place* place, std::size_t cells) {
  place->reserved = 0;
  const auto fits = [&] {
    std::size_t taken = cells;
    for (const Place& other : places_) {
      if (&other != place) taken += std::max(other.computed.size(), other.reserved);
    }
    return taken <= decoder_->cells_total();
  };
  for (Place& other : places_) {
    if (!fits() && &other != place && !other.owner) Cut(other, 0);
  }
  if (!fits()) return false;
  place->reserved = cells;
  return true;
}

std::uint32_t Drafter::Lack(GenerationId id, std::span<const Token> tokens) {
  if (failed_ || tokens.size() + kMostDrafts > decoder_->cells_total()) return 0;
  Place& place = PlaceFor(id, tokens);
  // The last token is always computed again: its row gives the logits of the next token.
  Cut(place, std::min<std::size_t>(CommonLength(place.computed, tokens), tokens.size() - 1));
  const std::span<const Token> lacking = tokens.subspan(place.computed.size());
  const auto is_known = [this](Token token) {
    return static_cast<std::uint32_t>(token) < vocabulary_;
  };
  if (!std::ranges::all_of(lacking, is_known)) return 0;
  if (!Reserve(&place, tokens.size() + kMostDrafts)) return 0;
  return static_cast<std::uint32_t>(lacking.size());
}

// ---- computing ----------------------------------------------------------------------------------

void Drafter::AddRow(const Place& place, Token token, std::size_t position, bool wants_logits) {
  rows_.push_back({.token = token,
                   .position = static_cast<std::int32_t>(position),
                   .sequence = IdOf(place),
                   .wants_logits = wants_logits});
}

// Computes the rows that AddRow collected. False: aborted or failed.
bool Drafter::Compute(const std::atomic<bool>& abort) {
  const std::vector<Row> rows = std::exchange(rows_, {});
  const Clock::time_point started_at = now_();
  const DecodeOutcome outcome = decoder_->Decode(rows, abort);
  spent_ms_ += Milliseconds(now_() - started_at);
  for (const Row& row : rows) {
    places_[static_cast<std::size_t>(row.sequence)].computed.push_back(row.token);
  }
  if (outcome == DecodeOutcome::kDone) return true;
  for (Place& place : places_) {
    const auto left = static_cast<std::size_t>(decoder_->NextPosition(IdOf(place)));
    place.computed.resize(std::min(place.computed.size(), left));
  }
  // Lack has reserved the cells, so kNoCells counts as a failure, too.
  failed_ = outcome != DecodeOutcome::kAborted;
  return false;
}

bool Drafter::CatchUp(GenerationId id, std::span<const Token> tokens, std::uint32_t rows,
                      const std::atomic<bool>& abort) {
  const Place& place = *Find(id);
  for (std::uint32_t i = 0; i < rows; ++i) {
    const std::size_t at = place.computed.size() + i;
    AddRow(place, tokens[at], at, /*wants_logits=*/false);
  }
  const double before_ms = spent_ms_;
  if (!Compute(abort)) return false;
  Learn(ms_per_row_, (spent_ms_ - before_ms) / rows);
  return true;
}

bool Drafter::Draft(std::span<Line* const> lines, const std::atomic<bool>& abort) {
  std::vector<std::size_t> last_rows;
  for (const Line* line : lines) {
    Place& place = *Find(line->id);
    if (line->drafts.empty()) {
      place.drafted.clear();
      place.drafted_at = line->tokens.size();
    }
    const std::size_t end = line->tokens.size() + line->drafts.size();
    for (std::size_t at = place.computed.size(); at < end; ++at) {
      const bool drafted = at >= line->tokens.size();
      AddRow(place, drafted ? line->drafts[at - line->tokens.size()].token : line->tokens[at], at,
             /*wants_logits=*/at + 1 == end);
    }
    last_rows.push_back(rows_.size() - 1);
  }
  const double before_ms = spent_ms_;
  if (!Compute(abort)) return false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    lines[i]->drafts.push_back(Likeliest(last_rows[i], *Find(lines[i]->id)));
  }
  Learn(ms_per_draft_, (spent_ms_ - before_ms) / static_cast<double>(lines.size()));
  return true;
}

// Most likely token after a row, with the estimated probability that it is accepted.
DraftToken Drafter::Likeliest(std::size_t row, Place& place) {
  const Clock::time_point started_at = now_();
  const std::span<const float> logits(decoder_->Logits(row), vocabulary_);
  const Token token = std::max(LargestLogit(logits, nullptr), Token{0});
  const float largest = logits[static_cast<std::size_t>(token)];
  // Softmax probability of the largest logit: 1 / sum(exp(logit - largest)).
  double sum = 0;
  for (const float logit : logits) {
    if (logit > largest - kNegligible) sum += std::exp(static_cast<double>(logit - largest));
  }
  spent_ms_ += Milliseconds(now_() - started_at);  // includes waiting for a GPU
  // Broken logits (NaN): estimate 0, so that the draft is not used.
  const double probability = sum >= 1 ? 1 / sum : 0;
  place.drafted.push_back({.token = token, .probability = probability});
  return {.token = token, .chance = sum >= 1 ? Chance(probability) : 0};
}

double Drafter::TakeSpentMs() { return std::exchange(spent_ms_, 0); }

}  // namespace svc
