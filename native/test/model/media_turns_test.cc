// Turns of steps and pictures: never at once, and a step that is due goes first.
#include "engine/model/media_turns.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "test.h"

namespace svc {
namespace {

TEST(AloneNobodyWaits) {
  MediaTurns turns;
  {
    MediaTurns::Media media(&turns);
    EXPECT(turns.has_media());
    media.Yield();
  }
  EXPECT(!turns.has_media());
  { const MediaTurns::Step step(&turns); }
  { const MediaTurns::Step step(&turns); }
  const MediaTurns::Step without(nullptr);
}

TEST(APictureWaitsForTheStepAndGetsTheNextTurn) {
  MediaTurns turns;
  std::atomic<bool> computes = false;
  std::thread projector;
  {
    const MediaTurns::Step step(&turns);
    projector = std::thread([&] {
      const MediaTurns::Media media(&turns);
      computes = true;
    });
    while (!turns.has_media()) std::this_thread::yield();
    EXPECT(!computes);
  }
  projector.join();
  EXPECT(computes);
}

TEST(NeverAtOnce) {
  constexpr int kSteps = 2000;
  MediaTurns turns;
  std::atomic<bool> ends = false;
  std::atomic<int> computing = 0;
  std::atomic<int> parts = 0;
  const auto compute = [&] {
    EXPECT_EQ(computing.fetch_add(1), 0);
    --computing;
  };
  std::thread projector([&] {
    while (!ends) {
      MediaTurns::Media media(&turns);
      for (int part = 0; part < 5; ++part) {
        compute();
        ++parts;
        media.Yield();
      }
    }
  });
  while (parts == 0) std::this_thread::yield();
  for (int i = 0; i < kSteps; ++i) {
    const MediaTurns::Step step(&turns);
    compute();
  }
  ends = true;
  projector.join();
}

TEST(AStepThatWaitsIsNext) {
  MediaTurns turns;
  std::vector<int> order;  // under the turns
  std::thread runner;
  {
    MediaTurns::Media media(&turns);
    runner = std::thread([&] {
      const MediaTurns::Step step(&turns);
      order.push_back(2);
    });
    while (!turns.step_waits()) std::this_thread::yield();
    order.push_back(1);
    media.Yield();
    order.push_back(3);
  }
  runner.join();
  EXPECT(order == std::vector<int>({1, 2, 3}));
}

// After a step that gave a reader no text, the next turn is a step's, too.
TEST(ASilentStepIsFollowedByAStep) {
  MediaTurns turns;
  std::atomic<bool> computes = false;
  std::thread projector;
  {
    MediaTurns::Step step(&turns);
    projector = std::thread([&] {
      const MediaTurns::Media media(&turns);
      computes = true;
    });
    while (!turns.media_waits()) std::this_thread::yield();
    step.SetSilent(true);
  }
  {
    const MediaTurns::Step step(&turns);
    EXPECT(!computes);
  }
  projector.join();
  EXPECT(computes);
}

// A generation may end, or be paused, after a token without text.
TEST(WithoutANextStepAPictureGoesOn) {
  MediaTurns turns;
  std::thread projector;
  {
    MediaTurns::Step step(&turns);
    projector = std::thread([&] { const MediaTurns::Media media(&turns); });
    while (!turns.media_waits()) std::this_thread::yield();
    step.SetSilent(true);
  }
  EXPECT(turns.media_waits());
  turns.Rest();
  projector.join();
  turns.Rest();
  const MediaTurns::Step step(&turns);
}

// Milliseconds of a part after a step of 5 ms or more, and those of the step from outside.
std::pair<double, double> PartAfterStep(double decoding_ms) {
  MediaTurns turns(decoding_ms);
  const Clock::time_point began = Clock::now();
  {
    const MediaTurns::Step step(&turns);
    while (Milliseconds(Clock::now() - began) < 5) std::this_thread::yield();
  }
  return {turns.part_ms(), Milliseconds(Clock::now() - began)};
}

TEST(APartTakesNoLongerThanTheStepBeforeIt) {
  const auto [part, step] = PartAfterStep(0);
  EXPECT(part > 0);
  EXPECT(part <= kMediaShare * step);
}

TEST(AShortStepLeavesTheRestOfTheTimeToTheNextToken) {
  constexpr double kLong = 1e6;
  const auto [part, step] = PartAfterStep(kLong);
  EXPECT(part < kLong);
  EXPECT(part + step >= kLong);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
