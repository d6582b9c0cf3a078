// Record of step times, used where the cost was not measured at load: on a GPU. Its driver may
// crash in the measurement, and its cost grows so little with the rows that a guess would waste
// most of it.
//
// Each step gives an upper bound for others: a step with fewer rows takes no longer, and one with
// more rows no longer than the number of such steps that hold them. The prediction is the least of
// these bounds. So a few steps that decode suffice for a first guess, which is too high, and each
// larger step that is tried corrects it. A step that took long for another reason, as when shaders
// were compiled, does no harm: the bounds of smaller steps are tighter.
#pragma once

#include <array>
#include <cstdint>

namespace svc {

// Not thread-safe.
class StepRecord {
 public:
  // Adds a step whose results are complete.
  void Add(std::uint32_t rows, double ms);
  bool empty() const { return steps_ == 0; }

  // The most rows, at most `limit`, whose step takes no longer than `ms`.
  std::uint32_t RowsWithin(double ms, std::uint32_t limit) const;

 private:
  struct Entry {
    std::uint32_t rows = 0;
    double ms = 0;

    // Upper bound, by this entry, of the time of a step with `other` rows.
    double BoundOf(std::uint32_t other) const {
      return rows == 0 || other <= rows ? ms : ms * other / rows;
    }
  };
  std::array<Entry, 32> entries_{};  // by the magnitude of the rows
  std::uint64_t steps_ = 0;
};

}  // namespace svc
