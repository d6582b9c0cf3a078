// What a step costs, in milliseconds, by its number of rows.
//
// The curve is no straight line. Up to some tens of rows a step is bound by the weights it reads,
// so that rows are nearly free; then by arithmetic; and quantised kernels take rows in groups, so
// that three may cost more than four. Nobody knows it beforehand: it follows from the model, its
// quantisation, the processor or GPU, and what else runs there. So it is measured when a model
// loads and corrected by every step after that.
//
//   cost = body(rows) + head * outputs
//
// An output is a row whose logits are wanted: it passes through the matrix of the vocabulary, which
// in a small model is a quarter of all weights. `body` is a table at a few row counts, with
// straight lines between them. A step that took longer or shorter than predicted moves the entries
// beside its row count much and all others a little: the shape of the curve is kept while the
// machine as a whole becomes slower or faster, be it by other programs or by a context that grows.
// What was but guessed gives way to the first step that tells.
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
  // Knows nothing, learns nothing and predicts 0.
  CostModel() = default;

  // Runs steps of these sizes on an empty cache, and leaves it empty: the telling ones first, for
  // as long as the budget lasts but never fewer than one.
  static CostModel Measure(Decoder& decoder, const Now& now, double budget_ms);

  bool measured() const { return known_[0]; }

  // REQUIRES: rows > 0, outputs <= rows.
  double Predict(std::uint32_t rows, std::uint32_t outputs) const;
  void Observe(std::uint32_t rows, std::uint32_t outputs, double ms);
  // All of it, as when compute threads come and go.
  void Scale(double factor);

  // The most rows, at most `limit`, whose step takes no longer than `ms`; 0: none.
  std::uint32_t RowsWithin(double ms, std::uint32_t outputs, std::uint32_t limit) const;
  // How many of `rows`, an output each, to compute in one step so that each of them costs least:
  // all, unless fewer are clearly cheaper.
  std::uint32_t Cheapest(std::uint32_t rows) const;
  // How many rows to compute where `rows` are wanted: more of them, if that is cheaper.
  std::uint32_t Padded(std::uint32_t rows) const;

 private:
  static constexpr std::array<std::uint32_t, 17> kRows = {1,  2,  3,  4,  5,   6,   7,   8,  12,
                                                          16, 24, 32, 64, 128, 256, 384, 512};
  // Between which entries a row count lies, and how near to the upper one (0..1).
  struct Place {
    std::size_t lower;
    std::size_t upper;
    double share;
  };
  static Place PlaceOf(std::uint32_t rows);

  double Body(std::uint32_t rows) const;
  double BodyOf(double ms, std::uint32_t outputs) const;
  void FillGaps();
  void Bound(std::size_t by);

  std::array<double, kRows.size()> body_{};
  std::array<bool, kRows.size()>
      known_{};  // measured or observed; the others are guessed from them
  double head_ = 0;
};

}  // namespace svc
