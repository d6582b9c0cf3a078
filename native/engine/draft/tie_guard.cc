#include "engine/draft/tie_guard.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace svc {
namespace {

// Default margin until kLeastSeen rows are measured: above the differences that the tests have seen
// between a row alone and beside others (0.03 to 0.21, see batch_test.cc).
constexpr float kWaryMargin = 0.3F;
constexpr std::uint32_t kLeastSeen = 3;
// Margin as a multiple of the largest difference seen.
constexpr float kSafety = 4;

}  // namespace

std::size_t TieGuard::IndexOf(std::size_t rows, std::uint32_t cells) {
  return std::min(rows, kMostRows) * kMagnitudes + static_cast<std::size_t>(std::bit_width(cells));
}

float TieGuard::Margin(std::size_t rows, std::uint32_t cells) const {
  const Error& error = errors_[IndexOf(rows, cells)];
  if (error.seen < kLeastSeen) return std::max(kWaryMargin, kSafety * error.largest);
  return kSafety * error.largest;
}

void TieGuard::Observe(std::size_t rows, std::uint32_t cells, float beside, float alone) {
  Error& error = errors_[IndexOf(rows, cells)];
  ++error.seen;
  error.largest = std::max(error.largest, std::abs(beside - alone));
}

}  // namespace svc
