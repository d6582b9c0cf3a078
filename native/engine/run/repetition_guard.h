// Detects an answer that repeats itself without end: the last tokens are the same short cycle many
// times over. Models that have lost the thread do this until their context is full.
//
// For each period p up to kMaxPeriod it counts how many of the last tokens equal the token p before
// them. A token costs kMaxPeriod comparisons at any length of the answer, and the memory is fixed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "engine/base/ids.h"
#include "engine/types/output.h"
#include "engine/types/request.h"

namespace svc {

class RepetitionGuard {
 public:
  // A cycle of up to kMaxPeriod tokens ...
  static constexpr std::uint32_t kMaxPeriod = 64;
  // ... that is there at least kMinTimes ...
  static constexpr std::uint32_t kMinTimes = 8;
  // ... and is at least kMinTokens long, all of its repetitions together.
  static constexpr std::uint32_t kMinTokens = 128;

  explicit RepetitionGuard(RepetitionMode mode) : mode_(mode) {}

  // The next token of the answer. True: the answer is to end, with this token.
  bool Add(Token token);
  // What was found first, and how long it has become since. Absent: nothing, or the guard is off.
  const std::optional<Repetition>& found() const { return found_; }

 private:
  RepetitionMode mode_;
  std::uint32_t size_ = 0;                // tokens so far
  std::array<Token, kMaxPeriod> last_{};  // the last ones, by their index modulo kMaxPeriod
  std::array<std::uint32_t, kMaxPeriod> equal_{};  // by period - 1: equal tokens in a row
  std::optional<Repetition> found_;
};

}  // namespace svc
