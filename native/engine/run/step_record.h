// What steps took where their cost was not measured at load: on a GPU, whose driver may not survive
// the measurement, and whose cost grows so little with the rows that a guess would waste most of
// it.
//
// Each step tells an upper bound for others: one of fewer rows takes no longer, one of more rows no
// longer than as many such steps as hold them. The least of these bounds is the prediction. So a
// few steps that decode suffice for a first guess, which is too high, and each larger step that is
// tried corrects it. A step that took long for another reason, as when shaders were compiled, does
// no harm: smaller ones give a lower bound.
#pragma once

#include <array>
#include <cstdint>

namespace svc {

// Not thread-safe.
class StepRecord {
 public:
  // A step whose results have been waited for.
  void Add(std::uint32_t rows, double ms);
  bool empty() const { return steps_ == 0; }

  // 0: no step has been recorded.
  double Predict(std::uint32_t rows) const;
  // The most rows, at most `limit`, whose step takes no longer than `ms`.
  std::uint32_t RowsWithin(double ms, std::uint32_t limit) const;

 private:
  struct Entry {
    std::uint32_t rows = 0;
    double ms = 0;

    // What a step of so many rows takes at most, by this one.
    double BoundOf(std::uint32_t other) const {
      return rows == 0 || other <= rows ? ms : ms * other / rows;
    }
  };
  std::array<Entry, 32> entries_{};  // by the magnitude of the rows
  std::uint64_t steps_ = 0;
};

}  // namespace svc
