// The governor uses fewer threads while other programs need the processors and more when they do
// not. The machine is simulated, with step costs as measured on two cores.
#include "engine/run/thread_governor.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/model/cost_model.h"
#include "fake_decoder.h"
#include "test.h"

namespace svc {
namespace {

class Machine {
 public:
  explicit Machine(int cores) : cores_(cores), governor(cores) {
    test::FakeRecord record;
    test::FakeDecoder decoder({.max_rows = 512,
                               .fault =
                                   [this](std::span<const Row>, const std::atomic<bool>&) {
                                     now_ms += StepMs();
                                     return DecodeOutcome::kDone;
                                   }},
                              &record);
    const Now now = [this] {
      return Clock::time_point(std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double, std::milli>(now_ms)));
    };
    cost_ = CostModel::Measure(decoder, now, 2000);
  }

  void Run(double for_ms) {
    const double end = now_ms + for_ms;
    while (now_ms < end) {
      const double ms = StepMs();
      const bool trial = governor.trying();
      const int threads = governor.threads();
      const double predicted = cost_.Predict(1, 1);
      if (threads > 1) ++steps_with_many;
      const double limit = governor.LimitMs(now_ms, predicted);
      if (limit > 0 && ms > limit) {
        now_ms += limit;
        governor.StepStalled(now_ms, limit);
        ++stalls;
        continue;
      }
      now_ms += ms;
      longest_wait_ms = std::max(longest_wait_ms, now_ms - last_end_ms_);
      last_end_ms_ = now_ms;
      const double factor = governor.StepDone(now_ms, ms, predicted, ms * threads * CpuShare());
      if (!trial) cost_.Observe(1, 1, ms);
      if (factor != 1) cost_.Scale(factor);
      if (governor.threads() != threads) ++changes;
      if (trial) tried_ms += ms;
      ++steps;
    }
  }

  double now_ms = 0;
  int busy = 0;       // other programs with one busy thread each
  bool slow = false;  // slow without contention
  int changes = 0;
  int steps = 0;
  double tried_ms = 0;
  bool crowded = false;
  int steps_with_many = 0;
  int stalls = 0;
  double longest_wait_ms = 0;  // from one step that was computed to the next

 private:
  // Part of a processor's time that each thread gets.
  double CpuShare() const {
    return std::min(1.0, static_cast<double>(cores_) / (governor.threads() + busy));
  }
  double StepMs() const {
    const int threads = governor.threads();
    const double share = CpuShare();
    // With contention, several threads also wait for each other.
    const double ms = 66.0 / threads / share;
    const double waiting = crowded ? 50 : 2.5;
    return (slow ? 3 : 1) * (threads > 1 && share < 1 ? ms * waiting : ms);
  }

  const int cores_;
  CostModel cost_;
  double last_end_ms_ = 0;

 public:
  ThreadGovernor governor;
};

TEST(AQuietMachineKeepsItsThreads) {
  Machine machine(2);
  machine.Run(60'000);
  EXPECT_EQ(machine.governor.threads(), 2);
  EXPECT_EQ(machine.changes, 0);
}

TEST(ThreadsAreGivenUpBesideBusyPrograms) {
  Machine machine(2);
  machine.Run(5000);
  machine.busy = 2;
  machine.Run(5000);
  EXPECT_EQ(machine.governor.threads(), 1);
  // No more threads are tried while the other programs are busy.
  machine.tried_ms = 0;
  machine.Run(120'000);
  EXPECT_EQ(machine.governor.threads(), 1);
  EXPECT_EQ(machine.tried_ms, 0);
}

// A trial that just failed is repeated at once if steps stall.
TEST(AStandstillIsNotWaitedOut) {
  ThreadGovernor governor(2);
  double now_ms = 0;
  const auto step = [&](double spent_ms, double cpu_ms) {
    now_ms += spent_ms;
    (void)governor.StepDone(now_ms, spent_ms, /*predicted_ms=*/30, cpu_ms);
  };
  for (int i = 0; i < 4; ++i) step(50, 60);
  EXPECT(governor.trying());
  step(100, 60);  // worse
  EXPECT_EQ(governor.threads(), 2);
  for (int i = 0; i < 8; ++i) step(50, 60);
  EXPECT_EQ(governor.threads(), 2);
  step(2800, 2900);
  EXPECT_EQ(governor.threads(), 1);
}

TEST(ThreadsAreTakenBackWhenItIsOver) {
  Machine machine(2);
  machine.Run(5000);
  for (int round = 0; round < 3; ++round) {
    machine.busy = 2;
    machine.Run(30'000);
    EXPECT_EQ(machine.governor.threads(), 1);
    machine.busy = 0;
    machine.Run(30'000);
    EXPECT_EQ(machine.governor.threads(), 2);
  }
}

// If a step with two threads takes half a minute, there are few such steps, and none is waited for.
TEST(OnACrowdedMachineFewStepsAreWasted) {
  Machine machine(2);
  machine.Run(2000);
  EXPECT_EQ(machine.stalls, 0);
  machine.steps_with_many = 0;
  machine.busy = 40;
  machine.crowded = true;
  machine.Run(300'000);
  EXPECT_EQ(machine.governor.threads(), 1);
  EXPECT_EQ(machine.steps_with_many, machine.stalls);
  EXPECT(machine.stalls > 0 && machine.stalls <= 2);
  // With one thread a step takes 1,353 ms; before it, the one that stalled.
  EXPECT(machine.longest_wait_ms < 1353 + 150);
}

TEST(ATrialOfMoreThreadsThatStallsEndsAtOnce) {
  Machine machine(2);
  machine.Run(2000);
  machine.busy = 2;
  machine.Run(5000);
  EXPECT_EQ(machine.governor.threads(), 1);
  machine.busy = 0;
  while (!machine.governor.trying()) machine.Run(1);
  machine.busy = 40;
  machine.crowded = true;
  machine.longest_wait_ms = 0;
  const int before = machine.stalls;
  machine.Run(5000);
  EXPECT_EQ(machine.stalls, before + 1);
  EXPECT_EQ(machine.governor.threads(), 1);
  EXPECT(machine.longest_wait_ms < 1353 + 400);
}

TEST(ThreadsAreHalvedUntilAStepEnds) {
  ThreadGovernor governor(16);
  double now_ms = 0;
  for (const int threads : {8, 4, 2}) {
    const double limit = governor.LimitMs(now_ms, /*predicted_ms=*/50);
    EXPECT(limit >= 150 && limit <= 300);
    governor.StepStalled(now_ms += limit, limit);
    EXPECT_EQ(governor.threads(), threads);
    EXPECT(governor.trying());
  }
  // Here steps end, however slow they are: that is their cost with so few threads.
  double cost = 1;
  for (int i = 0; i < 4; ++i) cost = governor.StepDone(now_ms += 400, 400, 50, 800);
  EXPECT_EQ(cost, 8.0);
  EXPECT(!governor.trying());
  EXPECT_EQ(governor.threads(), 2);
  // In the pause behind a trial only steps that hardly run are aborted.
  EXPECT_EQ(governor.LimitMs(now_ms, 50), 400.0);
  EXPECT_EQ(governor.LimitMs(now_ms + 1e9, 50), 150.0);
  EXPECT_EQ(governor.LimitMs(now_ms + 1e9, 1), 100.0);
  EXPECT_EQ(governor.LimitMs(now_ms, /*predicted_ms=*/0), 0.0);
  EXPECT_EQ(ThreadGovernor(1).LimitMs(now_ms, 50), 0.0);
}

TEST(ManyThreadsAreHalvedAsOftenAsItHelps) {
  Machine machine(16);
  machine.Run(5000);
  machine.busy = 12;
  machine.Run(60'000);
  EXPECT(machine.governor.threads() <= 4);
  machine.busy = 0;
  machine.Run(60'000);
  EXPECT_EQ(machine.governor.threads(), 16);
}

TEST(StepsThatAreSlowForOtherReasonsKeepTheirThreads) {
  Machine machine(2);
  machine.Run(5000);
  machine.slow = true;
  machine.Run(30'000);
  EXPECT_EQ(machine.governor.threads(), 2);
  EXPECT_EQ(machine.changes, 0);
}

TEST(OneThreadHasNoChoice) {
  Machine machine(1);
  machine.busy = 3;
  machine.Run(30'000);
  EXPECT_EQ(machine.governor.threads(), 1);
  EXPECT_EQ(machine.changes, 0);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
