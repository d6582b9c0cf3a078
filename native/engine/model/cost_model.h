// Cost model: the predicted duration of a step in ms, by its number of rows.
//
// The curve is not a straight line. Up to some tens of rows a step is bound by reading the weights,
// so extra rows are nearly free; above that it is bound by arithmetic. Quantized kernels process
// rows in groups, so three rows may cost more than four. The curve depends on the model, its
// quantization, the processor or GPU, and other load on the machine. So it is measured when a model
// loads and corrected after every step.
//
//   cost = body(rows) + head * outputs
//
// An output is a row whose logits are wanted: it is multiplied with the vocabulary matrix, which in
// a small model is a quarter of all weights. `body` is a table over a few row counts, linear in
// between. After each step the two entries around its row count and the head move far towards the
// measured time, each by its part of the step; all others move a little. So the curve keeps its
// shape while the whole machine becomes slower or faster, because of other programs or a growing
// context. The first measured step replaces an interpolated entry.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace svc {

class Decoder;

using Clock = std::chrono::steady_clock;
using Now = std::function<Clock::time_point()>;

inline double Milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// Not thread-safe.
class CostModel {
 public:
  // A model without measurements: it learns nothing and predicts 0.
  CostModel() = default;

  // Times steps of several sizes on the empty cache and leaves it empty. The most informative sizes
  // come first. Stops after about `budget_ms`, but always runs at least one step. Not measured() if
  // a step fails.
  static CostModel Measure(Decoder& decoder, const Now& now, double budget_ms);

  bool measured() const { return known_[0]; }

  // Predicted duration of a step, in ms. REQUIRES: rows > 0, outputs <= rows.
  double Predict(std::uint32_t rows, std::uint32_t outputs) const;
  // Corrects the model with a step that took `ms`.
  void Observe(std::uint32_t rows, std::uint32_t outputs, double ms);
  // Multiplies every cost by `factor`, when the number of compute threads changes.
  void Scale(double factor);

  // Largest row count, at most `limit`, whose step is predicted to take at most `ms`; 0: none.
  std::uint32_t RowsWithin(double ms, std::uint32_t outputs, std::uint32_t limit) const;
  // Row count, at most `rows`, with the lowest cost per row if every row has an output: `rows`
  // itself unless fewer are clearly cheaper.
  std::uint32_t Cheapest(std::uint32_t rows) const;
  // Row count >= `rows` to compute, padding included: more than `rows` only if that is clearly
  // cheaper.
  std::uint32_t Padded(std::uint32_t rows) const;

 private:
  static constexpr std::array<std::uint32_t, 17> kRows = {1,  2,  3,  4,  5,   6,   7,   8,  12,
                                                          16, 24, 32, 64, 128, 256, 384, 512};
  // The table entries around a row count; `share`: its position between them, 0 (lower) to 1
  // (upper).
  struct Place {
    std::size_t lower;
    std::size_t upper;
    double share;
  };
  static Place PlaceOf(std::uint32_t rows);

  double Body(std::uint32_t rows) const;
  // The body of a step that took `ms`.
  double BodyOf(double ms, std::uint32_t outputs) const;
  void FillGaps();
  void Bound(std::size_t by);

  std::array<double, kRows.size()> body_{};
  std::array<bool, kRows.size()> known_{};  // measured or observed; other entries are interpolated
  double head_ = 0;
};

}  // namespace svc
