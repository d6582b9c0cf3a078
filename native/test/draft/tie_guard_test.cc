// Margins of the tie guard: cautious at first, then learned for each kind of step apart.
#include "engine/draft/tie_guard.h"

#include "test.h"

namespace svc {
namespace {

constexpr float kWary = 0.3F;

TEST(TheMarginIsCautiousUntilSomeRowsAreMeasured) {
  TieGuard guard;
  EXPECT_EQ(guard.Margin(2, 100), kWary);
  guard.Observe(2, 100, 1, 1);
  guard.Observe(2, 100, 2, 2);
  EXPECT_EQ(guard.Margin(2, 100), kWary);
  guard.Observe(2, 100, 3, 3);
  EXPECT_EQ(guard.Margin(2, 100), 0.0F);
}

TEST(TheMarginIsFourTimesTheLargestDifference) {
  TieGuard guard;
  guard.Observe(3, 100, 1, 1.5F);  // more than cautious at once
  EXPECT_EQ(guard.Margin(3, 100), 2.0F);
  guard.Observe(3, 100, 1, 0.75F);
  guard.Observe(3, 100, 1, 1);
  EXPECT_EQ(guard.Margin(3, 100), 2.0F);
  TieGuard precise;
  for (int i = 0; i < 3; ++i) precise.Observe(3, 100, 0.125F, 0);
  EXPECT_EQ(precise.Margin(3, 100), 0.5F);
}

TEST(EachNumberOfRowsAndMagnitudeOfTheCacheIsLearnedApart) {
  TieGuard guard;
  for (int i = 0; i < 3; ++i) guard.Observe(4, 100, 1, 1);
  EXPECT_EQ(guard.Margin(4, 64), 0.0F);
  EXPECT_EQ(guard.Margin(4, 127), 0.0F);
  EXPECT_EQ(guard.Margin(4, 63), kWary);
  EXPECT_EQ(guard.Margin(4, 128), kWary);
  EXPECT_EQ(guard.Margin(3, 100), kWary);
  EXPECT_EQ(guard.Margin(5, 100), kWary);
  // Nine rows and more are one kind.
  for (int i = 0; i < 3; ++i) guard.Observe(9, 100, 1, 1);
  EXPECT_EQ(guard.Margin(512, 100), 0.0F);
  EXPECT_EQ(guard.Margin(8, 100), kWary);
  EXPECT_EQ(guard.Margin(9, 0), kWary);
  EXPECT_EQ(guard.Margin(9, ~0U), kWary);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
