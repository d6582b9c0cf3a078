// Turns of steps and pictures: never at once, and a step that is due goes first.
#include "engine/run/media_turns.h"

#include <atomic>
#include <thread>
#include <vector>

#include "test.h"

namespace svc {
namespace {

constexpr StepTargets kAlwaysDue = {.decoding_ms = 0};
constexpr StepTargets kNeverDue = {.decoding_ms = 1e9};

TEST(AloneNobodyWaits) {
  MediaTurns turns;
  EXPECT(!turns.has_steps());
  {
    MediaTurns::Media media(&turns);
    EXPECT(turns.has_media());
    media.Yield();
    EXPECT(!turns.has_steps());
  }
  EXPECT(!turns.has_media());
  { const MediaTurns::Step step(&turns); }
  { const MediaTurns::Step step(&turns); }
  EXPECT(turns.has_steps());
  const MediaTurns::Step without(nullptr);
}

TEST(APictureWaitsForTheStepAndGetsTheNextTurn) {
  MediaTurns turns(kAlwaysDue);
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
  MediaTurns turns(kAlwaysDue);
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

TEST(AStepThatIsNotDueWaitsForThePicture) {
  MediaTurns turns(kNeverDue);
  std::vector<int> order;  // under the turns
  std::thread runner;
  {
    MediaTurns::Media media(&turns);
    runner = std::thread([&] {
      const MediaTurns::Step step(&turns);
      order.push_back(2);
    });
    while (!turns.has_steps()) std::this_thread::yield();
    media.Yield();
    order.push_back(1);
  }
  runner.join();
  EXPECT(order == std::vector<int>({1, 2}));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
