#include "engine/model/cost_model.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "engine/model/decoder.h"

namespace svc {
namespace {

// Times a step of `rows` rows, the last `outputs` of which decode one sequence each. Absent: it
// failed.
std::optional<double> TimeStep(Decoder& decoder, const Now& now, std::uint32_t rows,
                               std::uint32_t outputs) {
  std::vector<Row> batch(rows);
  const std::uint32_t prompt = rows - outputs;
  for (std::uint32_t i = 0; i < rows; ++i) {
    // Different tokens, because a mixture-of-experts model routes equal tokens to the same few
    // experts. Neighbouring ones, because each lookup reads a page of the file and the system reads
    // ahead around it.
    batch[i].token = static_cast<Token>(i % decoder.vocabulary());
    batch[i].sequence = static_cast<SequenceId>(i < prompt ? 0 : i - prompt);
    batch[i].position = static_cast<std::int32_t>(i <= prompt ? i : 0);
    batch[i].wants_logits = i >= prompt;
  }
  static const std::atomic<bool> kNever = false;
  const Clock::time_point start = now();
  const bool done = decoder.Decode(batch, kNever) == DecodeOutcome::kDone;
  // A GPU computes asynchronously: reading the logits waits for it.
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
    double best_ms = 0;  // 0: not measured
  };
  std::vector<Size> sizes = {{1, 1}, {4, 4}, {16, 1}, {8, 8},  {8, 1},  {3, 3},  {2, 2},
                             {5, 5}, {6, 6}, {7, 7},  {64, 1}, {32, 1}, {128, 1}};
  std::erase_if(sizes, [&](const Size& size) {
    return size.rows > std::min(decoder.max_rows(), decoder.cells_total()) ||
           size.outputs > decoder.max_sequences();
  });
  (void)TimeStep(decoder, now, 1, 1);  // warm-up: reads the weights from the disk

  const Clock::time_point start = now();
  for (int round = 0; round < 2; ++round) {
    for (Size& size : sizes) {
      const double expected = size.best_ms > 0 ? size.best_ms : sizes[0].best_ms * size.rows / 2;
      if (Milliseconds(now() - start) + expected > budget_ms) continue;
      const std::optional<double> ms = TimeStep(decoder, now, size.rows, size.outputs);
      if (!ms) return {};
      // Interference only adds time, so the minimum is the best estimate.
      size.best_ms = size.best_ms > 0 ? std::min(size.best_ms, *ms) : *ms;
    }
  }

  CostModel model;
  const auto time = [&](std::uint32_t rows, std::uint32_t outputs) {
    const auto found = std::ranges::find_if(
        sizes, [&](const Size& size) { return size.rows == rows && size.outputs == outputs; });
    return found == sizes.end() ? 0.0 : found->best_ms;
  };
  // The two sizes differ only by 7 outputs.
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

double CostModel::BodyOf(double ms, std::uint32_t outputs) const {
  // Many outputs cost less than head_ each. The lower clamp keeps the body from becoming almost
  // nothing.
  return std::max(ms - head_ * outputs, ms / 4);
}

// Fills unknown entries: linear interpolation between known ones; above the last one, its cost per
// row.
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
  const auto above = std::ranges::lower_bound(kRows, rows);
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
  const double off = std::clamp(ms / predicted, kFastestStep, kSlowestStep) - 1;  // relative error
  const auto [lower, upper, share] = PlaceOf(rows);
  // The first measurement of an interpolated entry replaces it.
  if (lower == upper && !std::exchange(known_[lower], true)) {
    body_[lower] = BodyOf(predicted * (1 + off), outputs);
    return Bound(lower);
  }
  // Each entry moves by a part of the error, weighted by how close it is, and the outputs by one
  // weighted by their part of the step. If they were measured too dear, an entry would otherwise
  // pay for it until nothing is left of it, nor of all larger steps, which are bounded by it.
  const double outputs_part = head_ * outputs / predicted;
  for (std::size_t i = 0; i < body_.size(); ++i) {
    double nearness = 0;
    if (i == lower) nearness = 1 - share;
    if (i == upper && upper != lower) nearness = share;
    body_[i] *= 1 + off * std::max(kFarCorrection, kNearCorrection * nearness * (1 - outputs_part));
  }
  head_ *= 1 + off * std::max(kFarCorrection, kNearCorrection * outputs_part);
  Bound(lower);
}

// Clamps larger steps: rows[i] rows never cost more than ceil(rows[i] / rows[by]) steps of rows[by]
// rows. An overestimate (measured while another program kept the machine busy) would keep that size
// from ever being tried again, so it would never be corrected.
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
  // Cost per wanted row, padding included.
  const auto each = [this](std::uint32_t count) {
    const std::uint32_t padded = Padded(count);
    return Predict(padded, padded) / count;
  };
  std::uint32_t best = rows;
  double least = kCheaperWithoutSome * each(rows);
  for (std::size_t i = 0; i < kRows.size() && kRows[i] < rows; ++i) {
    if (!known_[i] || each(kRows[i]) >= least) continue;
    least = each(kRows[i]);
    best = kRows[i];
  }
  return best;
}

std::uint32_t CostModel::Padded(std::uint32_t rows) const {
  // Larger counts have no entries of their own: pad their last group as if it were a step by
  // itself.
  if (rows > kSingleRows) {
    const std::uint32_t rest = rows % kGroupRows;
    return rest == 0 ? rows : rows + Padded(rest) - rest;
  }
  // One row is never padded: it takes the same kernels as a plain llama.cpp loop, so its text is
  // the same.
  if (!measured() || rows < 2 || !known_[rows - 1]) return rows;
  std::uint32_t best = rows;
  double least = kCheaper * Predict(rows, rows);
  for (std::uint32_t more = rows + 1; more <= std::min(kSingleRows, rows + kPaddingIds); ++more) {
    if (!known_[more - 1] || Predict(more, more) >= least) continue;
    least = Predict(more, more);
    best = more;
  }
  return best;
}

}  // namespace svc
