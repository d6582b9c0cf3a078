#include "engine/model/cost_model.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "engine/model/decoder.h"

namespace svc {
namespace {

// How far a step that went otherwise than predicted moves the entries beside it, and the others.
constexpr double kNear = 0.2;
constexpr double kFar = 0.02;
// One step tells this much at most: the machine may just have been away.
constexpr double kFastest = 0.5;
constexpr double kSlowest = 2.0;

// So far the table has an entry for every row count.
constexpr std::uint32_t kSingleRows = 8;
// Quantised kernels take rows in groups of so many, where they take them in groups.
constexpr std::uint32_t kGroup = 4;
// Another number of rows must gain more than a measurement errs.
constexpr double kGain = 0.9;

// One step of `rows`, the last `outputs` of them decoding a sequence each. Nothing if it failed.
std::optional<double> TimeStep(Decoder& decoder, const Now& now, std::uint32_t rows,
                               std::uint32_t outputs) {
  std::vector<Row> batch(rows);
  const std::uint32_t prompt = rows - outputs;
  for (std::uint32_t i = 0; i < rows; ++i) {
    // Different tokens, because a mixture of experts sends equal ones to the same few; neighbours,
    // because each brings a page of the file to memory, and the system those around it.
    batch[i].token = static_cast<Token>(i % decoder.vocabulary());
    batch[i].sequence = static_cast<SequenceId>(i < prompt ? 0 : i - prompt);
    batch[i].position = static_cast<std::int32_t>(i <= prompt ? i : 0);
    batch[i].wants_logits = i >= prompt;
  }
  static const std::atomic<bool> kNever = false;
  const Clock::time_point start = now();
  const bool done = decoder.Decode(batch, kNever) == DecodeOutcome::kDone;
  // A GPU computes on; who asks for what came of it waits for it.
  if (done && outputs > 0) (void)decoder.Logits(rows - 1);
  const double ms = Milliseconds(now() - start);
  for (std::uint32_t i = 0; i < std::max(1U, outputs); ++i) {
    decoder.RemoveSequence(static_cast<SequenceId>(i));
  }
  if (!done) return std::nullopt;
  return ms;
}

}  // namespace

CostModel CostModel::Measure(Decoder& decoder, const Now& now, double budget_ms) {
  struct Size {
    std::uint32_t rows;
    std::uint32_t outputs;
    double best_ms = 0;  // 0: not yet
  };
  std::vector<Size> sizes = {{1, 1}, {4, 4}, {16, 1}, {8, 8},  {8, 1},  {3, 3},  {2, 2},
                             {5, 5}, {6, 6}, {7, 7},  {64, 1}, {32, 1}, {128, 1}};
  std::erase_if(sizes, [&](const Size& size) {
    return size.rows > std::min(decoder.max_rows(), decoder.cells_total()) ||
           size.outputs > decoder.max_sequences();
  });
  (void)TimeStep(decoder, now, 1, 1);  // the first step reads the weights from the disk

  const Clock::time_point start = now();
  for (int round = 0; round < 2; ++round) {
    for (Size& size : sizes) {
      const double expected = size.best_ms > 0 ? size.best_ms : sizes[0].best_ms * size.rows / 2;
      if (Milliseconds(now() - start) + expected > budget_ms) continue;
      const std::optional<double> ms = TimeStep(decoder, now, size.rows, size.outputs);
      if (!ms) return {};
      // The shorter time is the one in which nobody else interfered.
      size.best_ms = size.best_ms > 0 ? std::min(size.best_ms, *ms) : *ms;
    }
  }

  CostModel model;
  const auto time = [&](std::uint32_t rows, std::uint32_t outputs) {
    const auto found = std::find_if(sizes.begin(), sizes.end(), [&](const Size& size) {
      return size.rows == rows && size.outputs == outputs;
    });
    return found == sizes.end() ? 0.0 : found->best_ms;
  };
  if (time(8, 8) > 0 && time(8, 1) > 0) {
    model.head_ = std::max(0.0, (time(8, 8) - time(8, 1)) / 7);
  }
  for (const Size& size : sizes) {
    if (size.best_ms <= 0 || (size.rows == 8 && size.outputs == 1)) continue;
    const std::size_t at = PlaceOf(size.rows).lower;
    model.body_[at] = model.BodyOf(size.best_ms, size.outputs);
    model.known_[at] = true;
  }
  model.FillGaps();
  return model;
}

// Of a step that took so long.
double CostModel::BodyOf(double ms, std::uint32_t outputs) const {
  // Outputs are cheaper in company, so that the rest may seem to be next to nothing.
  return std::max(ms - head_ * outputs, ms / 4);
}

// Straight lines between what is known; above that, the last known cost of a row.
void CostModel::FillGaps() {
  if (!measured()) return;
  for (std::size_t i = 1; i < kRows.size(); ++i) {
    if (known_[i]) continue;
    std::size_t below = i - 1;
    while (!known_[below]) --below;
    std::size_t above = i + 1;
    while (above < kRows.size() && !known_[above]) ++above;
    const double rows = kRows[i];
    if (above == kRows.size()) {
      body_[i] = body_[below] * rows / kRows[below];
    } else {
      const double share = (rows - kRows[below]) / (kRows[above] - kRows[below]);
      body_[i] = body_[below] + share * (body_[above] - body_[below]);
    }
  }
}

CostModel::Place CostModel::PlaceOf(std::uint32_t rows) {
  const auto above = std::lower_bound(kRows.begin(), kRows.end(), rows);
  const auto upper = std::min<std::size_t>(above - kRows.begin(), kRows.size() - 1);
  if (upper == 0 || kRows[upper] <= rows) return {upper, upper, 0};
  const double gap = kRows[upper] - kRows[upper - 1];
  return {upper - 1, upper, (rows - kRows[upper - 1]) / gap};
}

double CostModel::Body(std::uint32_t rows) const {
  const auto [lower, upper, share] = PlaceOf(rows);
  if (rows > kRows.back()) return body_.back() * rows / kRows.back();
  return body_[lower] + share * (body_[upper] - body_[lower]);
}

double CostModel::Predict(std::uint32_t rows, std::uint32_t outputs) const {
  return Body(rows) + head_ * outputs;
}

void CostModel::Observe(std::uint32_t rows, std::uint32_t outputs, double ms) {
  if (!measured()) return;
  const double predicted = Predict(rows, outputs);
  const double off = std::clamp(ms / predicted, kFastest, kSlowest) - 1;
  const auto [lower, upper, share] = PlaceOf(rows);
  if (lower == upper && !std::exchange(known_[lower], true)) {
    body_[lower] = BodyOf(predicted * (1 + off), outputs);
    return Bound(lower);
  }
  for (std::size_t i = 0; i < body_.size(); ++i) {
    double nearness = 0;
    if (i == lower) nearness = 1 - share;
    if (i == upper && upper != lower) nearness = share;
    body_[i] *= 1 + off * std::max(kFar, kNear * nearness);
  }
  head_ *= 1 + off * kFar;
  Bound(lower);
}

// No step is dearer than several of fewer rows that hold as many. It would never be tried, so what
// was measured while something else kept the machine busy would never be corrected.
void CostModel::Bound(std::size_t by) {
  for (std::size_t i = by + 1; i < body_.size(); ++i) {
    const std::uint32_t steps = (kRows[i] + kRows[by] - 1) / kRows[by];
    body_[i] = std::min(body_[i], steps * body_[by]);
  }
}

void CostModel::Scale(double factor) {
  for (double& body : body_) body *= factor;
  head_ *= factor;
}

std::uint32_t CostModel::RowsWithin(double ms, std::uint32_t outputs, std::uint32_t limit) const {
  std::uint32_t rows = limit;
  while (rows > 0 && Predict(rows, std::min(outputs, rows)) > ms) --rows;
  return rows;
}

std::uint32_t CostModel::Cheapest(std::uint32_t rows) const {
  if (!measured()) return rows;
  const auto each = [this](std::uint32_t count) {
    const std::uint32_t padded = Padded(count);
    return Predict(padded, padded) / count;
  };
  std::uint32_t best = rows;
  double least = kGain * each(rows);
  for (std::size_t i = 0; i < kRows.size() && kRows[i] < rows; ++i) {
    if (!known_[i] || each(kRows[i]) >= least) continue;
    least = each(kRows[i]);
    best = kRows[i];
  }
  return best;
}

std::uint32_t CostModel::Padded(std::uint32_t rows) const {
  // Beyond those that are measured one by one: what a kernel's last group lacks it lacks there,
  // too.
  if (rows > kSingleRows) {
    const std::uint32_t rest = rows % kGroup;
    return rest == 0 ? rows : rows + Padded(rest) - rest;
  }
  // One row alone always takes the path that a plain loop takes, so that its text is the same.
  if (!measured() || rows < 2 || !known_[rows - 1]) return rows;
  std::uint32_t best = rows;
  double least = kGain * Predict(rows, rows);
  for (std::uint32_t more = rows + 1; more <= std::min(kSingleRows, rows + kPaddingIds); ++more) {
    if (!known_[more - 1] || Predict(more, more) >= least) continue;
    least = Predict(more, more);
    best = more;
  }
  return best;
}

}  // namespace svc
