// The number of draft tokens per step, and the margin within which drafts are not believed.
#include "engine/draft/speculation.h"

#include <cmath>

#include "engine/draft/tie_guard.h"
#include "test.h"

namespace svc {
namespace {

using Counts = std::vector<std::uint32_t>;

constexpr double kNoLimit = 1e9;

Proposal Sure(std::size_t count, double chance, double trust = 1) {
  return {.drafts = std::vector<DraftToken>(count, DraftToken{.token = 1, .chance = chance}),
          .trust = trust};
}

// Milliseconds of a step: quantized kernels compute rows in groups of four.
double Groups(std::uint32_t rows) {
  return 20 + 10 * std::ceil(rows / 4.0) + (rows % 4 == 3 ? 8 : 0);
}
double Lines(std::uint32_t rows) { return 20 + 10.0 * rows; }

Counts Choose(const std::vector<Proposal>& proposals, std::uint32_t rows, double ms = kNoLimit,
              double (*cost)(std::uint32_t) = Groups) {
  return ChooseDrafts(proposals, {.rows = rows, .ms = ms}, cost);
}

TEST(DraftsFillTheGroupThatIsPaidFor) {
  EXPECT(Choose({Sure(15, 0.6)}, 16) == Counts({3}));
  EXPECT(Choose({Sure(2, 1)}, 16)[0] > 0);
  EXPECT(Choose({Sure(15, 0.99)}, 16) == Counts({15}));
  EXPECT(Choose({Sure(15, 0.99)}, 9) == Counts({7}));
}

TEST(WhatGainsNothingIsNotComputed) {
  EXPECT(Choose({Sure(15, 0.04)}, 16) == Counts({0}));
  EXPECT(Choose({Sure(15, 0.3)}, 16, kNoLimit, Lines) == Counts({0}));
  EXPECT(Choose({Sure(15, 0.9)}, 16, kNoLimit, Lines)[0] > 2);
  EXPECT(Choose({Sure(0, 1)}, 16) == Counts({0}));
  EXPECT(Choose({Sure(15, 1)}, 1) == Counts({0}));
  // Rows whose results are often discarded.
  EXPECT(Choose({Sure(15, 1, 0.5)}, 16, kNoLimit, Lines) == Counts({0}));
}

TEST(TheLikelierDraftGoesFirst) {
  const Counts chosen = Choose({Sure(15, 0.3), Sure(15, 0.95), Sure(15, 0.2)}, 8);
  EXPECT_EQ(chosen[0] + chosen[1] + chosen[2], 5U);
  EXPECT(chosen[1] >= 4);
}

TEST(OthersDoNotWaitLongerThanTheLimit) {
  EXPECT(Choose({Sure(15, 1), Sure(15, 1)}, 32, 40) == Counts({3, 3}));
  // Even without drafts the step takes longer than the limit: drafts that cost no time still join.
  EXPECT(Choose({Sure(15, 1), Sure(15, 1)}, 32, 10) == Counts({1, 1}));
}

TEST(TheMarginIsWaryUntilItIsMeasured) {
  TieGuard guard;
  EXPECT(guard.Margin(4, 100) > 0.1F);
  for (int i = 0; i < 3; ++i) guard.Observe(4, 100, 1.5F, 1.5F);
  EXPECT_EQ(guard.Margin(4, 120), 0.0F);
  EXPECT(guard.Margin(4, 1000) > 0.1F);
  EXPECT(guard.Margin(5, 100) > 0.1F);
  guard.Observe(4, 100, 1.5F, 1.6F);
  EXPECT(guard.Margin(4, 100) > 0.3F);
  for (int i = 0; i < 3; ++i) guard.Observe(200, 100, 1.5F, 1.501F);
  EXPECT(guard.Margin(16, 100) < 0.01F && guard.Margin(16, 100) > 0.003F);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
