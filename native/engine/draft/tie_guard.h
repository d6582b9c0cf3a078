// Tie guard: keeps greedy texts the same with and without drafts.
//
// The logits of a row depend slightly on the other rows of its batch: kernels for one row add up in
// another order than kernels for several, and with a long context the attention of a single row is
// split among threads. The logits differ in their last digits. If the two best logits are closer
// than that error, another token wins.
//
// So a greedy generation accepts a row that was computed beside drafts, its own or another's, only
// if the best logit leads by a margin. Otherwise the row is discarded and recomputed in a step
// without drafts. The recomputation also measures the error. The margin is learned separately for
// each number of rows and each magnitude of the cache (bit width of the cells in use), because
// kernels are chosen by both. Until a few rows have been measured the margin is a cautious default;
// if all were equal to the last bit, it is 0.
//
// Limits: accepted rows stay in the cache with their rounding, and later rows attend to them, as
// they do to a cached prefix that was computed in another batch. So a tie may still resolve
// differently later. A request that needs a bit-identical text sets a seed and gets no drafts.
// Random draws need no guard: their distribution is unchanged.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace svc {

// Owner and thread: the Loop.
class TieGuard {
 public:
  // Minimum lead of the best logit in a step of `rows` rows with `cells` cells in use.
  float Margin(std::size_t rows, std::uint32_t cells) const {
    const Error& error = errors_[IndexOf(rows, cells)];
    if (error.seen < kLeastSeen) return std::max(kWaryMargin, kSafety * error.largest);
    return kSafety * error.largest;
  }
  // Learns from the lead of one row: computed in such a step (`beside`), and then alone.
  void Observe(std::size_t rows, std::uint32_t cells, float beside, float alone) {
    Error& error = errors_[IndexOf(rows, cells)];
    ++error.seen;
    error.largest = std::max(error.largest, std::abs(beside - alone));
  }

 private:
  // Default margin until kLeastSeen rows are measured: above the differences that the tests have
  // seen between a row alone and beside others (0.03 to 0.21, see batch_test.cc).
  static constexpr float kWaryMargin = 0.3F;
  static constexpr std::uint32_t kLeastSeen = 3;
  // Margin as a multiple of the largest difference seen.
  static constexpr float kSafety = 4;
  static constexpr std::size_t kMostRows = 9;  // this many and more
  static constexpr std::size_t kMagnitudes = 33;

  struct Error {
    std::uint32_t seen = 0;  // measured rows
    float largest = 0;       // largest difference of the two leads
  };
  static std::size_t IndexOf(std::size_t rows, std::uint32_t cells) {
    return std::min(rows, kMostRows) * kMagnitudes +
           static_cast<std::size_t>(std::bit_width(cells));
  }

  std::array<Error, (kMostRows + 1) * kMagnitudes> errors_{};
};

}  // namespace svc
