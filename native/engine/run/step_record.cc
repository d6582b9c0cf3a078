#include "engine/run/step_record.h"

#include <algorithm>
#include <bit>

#include "engine/model/step_constants.h"

namespace svc {

void StepRecord::Add(std::uint32_t rows, double ms) {
  if (rows == 0 || ms <= 0) return;
  ++steps_;
  for (Entry& entry : entries_) {
    const double bound = entry.BoundOf(rows);
    if (entry.rows == 0 || bound >= ms) continue;
    entry.ms *= 1 + kRecordCorrection * (std::min(ms / bound, kSlowestStep) - 1);
  }
  Entry& entry = entries_[static_cast<std::size_t>(std::bit_width(rows)) - 1];
  if (entry.rows == 0 || entry.BoundOf(rows) >= ms) entry = {rows, ms};
}

std::uint32_t StepRecord::RowsWithin(double ms, std::uint32_t limit) const {
  std::uint32_t rows = 0;
  for (const Entry& entry : entries_) {
    if (entry.rows == 0 || entry.ms > ms) continue;
    rows = std::max(
        rows, static_cast<std::uint32_t>(std::min<double>(limit, entry.rows * (ms / entry.ms))));
  }
  return rows;
}

}  // namespace svc
