// The worker without a model: refusals, the abort flag, waking, holding and closing.
#include "engine/run/worker.h"

#include <chrono>
#include <thread>
#include <vector>

#include "test.h"

namespace svc {
namespace {

using namespace std::chrono_literals;

// A worker whose thread counts down `work`, a unit at a time.
class Counter {
 public:
  Counter() {
    worker.Start([this] {
      auto lock = worker.Lock();
      for (;;) {
        worker.Wait(lock, [this] { return !worker.held() && work_ > 0; });
        if (worker.closing()) return;
        --work_;
        ++done_;
      }
    });
  }

  void Add(int count) {
    worker.Change([&] { work_ += count; });
  }
  int done() {
    const auto lock = worker.Lock();
    return done_;
  }
  // False if that many were not done within 10 s.
  bool WaitFor(int count) {
    const auto deadline = Clock::now() + 10s;
    while (done() < count && Clock::now() < deadline) std::this_thread::sleep_for(1ms);
    return done() == count;
  }

 private:
  int work_ = 0;
  int done_ = 0;

 public:
  Worker worker{[](auto) {}};
};

TEST(AChangeWakesTheThread) {
  Counter counter;
  for (int i = 1; i <= 20; ++i) {
    counter.Add(1);
    EXPECT(counter.WaitFor(i));
  }
}

TEST(AHeldWorkerDoesNothingUntilItIsReleased) {
  Counter counter;
  counter.worker.Hold(true);
  counter.Add(3);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(counter.done(), 0);
  counter.worker.Hold(false);
  EXPECT(counter.WaitFor(3));
}

TEST(CloseFreesOnceAfterTheThreadHasEnded) {
  for (int round = 0; round < 50; ++round) {
    Counter counter;
    counter.worker.Hold(true);
    counter.Add(1);
    std::atomic<int> freed = 0;
    std::vector<std::thread> closers;
    for (int i = 0; i < 3; ++i) {
      closers.emplace_back([&] {
        counter.worker.Close([&] { ++freed; });
        EXPECT_EQ(freed.load(), 1);  // by one of the three
      });
    }
    for (std::thread& closer : closers) closer.join();
    EXPECT_EQ(freed.load(), 1);
    EXPECT_EQ(counter.done(), 0);
    EXPECT(counter.worker.abort());
    const auto lock = counter.worker.Lock();
    EXPECT(counter.worker.closing());
    EXPECT(!counter.worker.Claim({1}));
  }
}

TEST(RequestsAreRefusedWithTheirReason) {
  Worker worker([](auto) {});
  const auto code = [&](std::size_t waiting, bool in_use) {
    const auto lock = worker.Lock();
    return worker.Accepts(7, waiting, in_use).code();
  };
  EXPECT_EQ(code(Worker::kMaxWaiting - 1, false), StatusCode::kOk);
  EXPECT_EQ(code(0, true), StatusCode::kInvalidRequest);
  EXPECT_EQ(code(Worker::kMaxWaiting, true), StatusCode::kBusy);
  worker.Close();
  EXPECT_EQ(code(Worker::kMaxWaiting, true), StatusCode::kEngineUnavailable);
}

TEST(TheLastCancelAbortsTheBatch) {
  Worker worker([](auto) {});
  const auto lock = worker.Lock();
  EXPECT(!worker.Claim({}));
  REQUIRE(worker.Claim({1, 2}));
  worker.Cancelled(3);  // is not in the batch
  worker.Cancelled(1);
  worker.Cancelled(1);
  EXPECT(!worker.abort());
  worker.Cancelled(2);
  EXPECT(worker.abort());
  worker.EndBatch();
  // The next batch begins anew, and a cancel between batches aborts nothing.
  REQUIRE(worker.Claim({4}));
  EXPECT(!worker.abort());
  worker.EndBatch();
  worker.Cancelled(4);
  EXPECT(!worker.abort());
}

TEST(ABatchHasAnAgeWhileItRuns) {
  Worker worker([](auto) {});
  const auto lock = worker.Lock();
  EXPECT_EQ(worker.BatchAgeMs(), 0.0);
  REQUIRE(worker.Claim({1}));
  std::this_thread::sleep_for(2ms);
  EXPECT(worker.BatchAgeMs() >= 2);
  worker.Cancelled(1);  // it still runs
  EXPECT(worker.BatchAgeMs() >= 2);
  worker.EndBatch();
  EXPECT_EQ(worker.BatchAgeMs(), 0.0);
}

TEST(TheSinkIsNotCalledForNothing) {
  std::vector<std::size_t> calls;
  const Worker worker(
      [&](std::vector<GenerationOutput> outputs) { calls.push_back(outputs.size()); });
  worker.Deliver({});
  worker.Deliver(std::vector<GenerationOutput>(2));
  EXPECT(calls == std::vector<std::size_t>({2}));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
