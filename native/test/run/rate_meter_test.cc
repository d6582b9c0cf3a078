// Tokens per second over the last seconds of work.
#include "engine/run/rate_meter.h"

#include <cmath>

#include "test.h"

namespace svc {
namespace {

TEST(WithoutWorkTheRateIsZero) {
  RateMeter meter;
  EXPECT_EQ(meter.per_second(), 0.0);
  meter.Add(0.5, 20);
  EXPECT_EQ(meter.per_second(), 40.0);
  meter.Clear();
  EXPECT_EQ(meter.per_second(), 0.0);
}

TEST(TheRateFollowsTheLastThreeSeconds) {
  RateMeter meter;
  for (int i = 0; i < 100; ++i) meter.Add(0.25, 1);
  EXPECT(std::abs(meter.per_second() - 4) < 1e-9);
  for (int i = 0; i < 6; ++i) meter.Add(0.25, 10);
  EXPECT(meter.per_second() > 15 && meter.per_second() < 25);  // half of the window is new
  for (int i = 0; i < 7; ++i) meter.Add(0.25, 10);
  EXPECT(std::abs(meter.per_second() - 40) < 1e-9);
}

TEST(AStepThatIsLongerThanTheWindowCountsWhole) {
  RateMeter meter;
  meter.Add(1, 100);
  meter.Add(10, 20);
  EXPECT(std::abs(meter.per_second() - 2) < 1e-9);
  meter.Add(1, 10);
  EXPECT(std::abs(meter.per_second() - 30.0 / 11) < 1e-9);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
