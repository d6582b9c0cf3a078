// The runner's inbox and its thread.
#include "engine/run/runner.h"

#include <chrono>
#include <filesystem>
#include <future>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

#include "bench.h"
#include "prefix_folder.h"
#include "test.h"

namespace svc {
namespace {

using namespace test;
using namespace std::chrono_literals;

TEST(OneGenerationSaysWhatItSaysAlone) {
  Bench bench;
  const Want want{.id = 1, .prompt = {5, 6, 7}, .max_tokens = 40, .seed = 11};
  REQUIRE(bench.Submit(want).ok());
  REQUIRE(bench.WaitFor(1));
  bench.ExpectAsAlone(want);
  const GenerationTimings timings = bench.End(1).timings;
  EXPECT(timings.started_ms >= 0 && timings.first_token_ms >= timings.started_ms);
  EXPECT(timings.finished_ms >= timings.first_token_ms);
}

TEST(ManyAtOnceShareSteps) {
  Bench bench({.cells = 4096, .max_sequences = 16});
  std::mt19937 random(1);
  std::vector<Want> wants;
  for (GenerationId id = 0; id < 16; ++id) {
    wants.push_back(RandomWant(id, random, 30));
    wants.back().max_tokens = 50;
    wants.back().adapters.clear();  // generations with different sets share no step
  }
  bench.runner.Hold(true);
  for (const Want& want : wants) REQUIRE(bench.Submit(want).ok());
  bench.runner.Hold(false);
  for (const Want& want : wants) {
    REQUIRE(bench.WaitFor(want.id));
    bench.ExpectAsAlone(want);
  }
  EXPECT(bench.record.largest_batch >= 12U);
  EXPECT(bench.record.steps < 150U);
  EXPECT(bench.sink_calls() <= bench.record.steps);
  bench.ExpectNothingHeld();
}

TEST(TextOfShortStepsIsHeardTogether) {
  Bench bench;
  Want want{.id = 1, .prompt = {5, 6}, .max_tokens = 300, .seed = 1};
  while (Alone(want, 1024).output_tokens < 100) ++want.seed;
  REQUIRE(bench.Submit(want).ok());
  REQUIRE(bench.WaitFor(1));
  bench.ExpectAsAlone(want);
  EXPECT(bench.sink_calls() < bench.End(1).usage.output_tokens / 2);
}

TEST(NoTokensAskedForIsNoWork) {
  Bench bench;
  REQUIRE(bench.Submit({.id = 1, .prompt = {5}, .max_tokens = 0}).ok());
  REQUIRE(bench.WaitFor(1));
  EXPECT_EQ(bench.End(1).reason, FinishReason::kLength);
  EXPECT_EQ(bench.record.steps.load(), 0U);
}

TEST(AnIdIsTakenUntilItsGenerationEnds) {
  Bench bench;
  bench.runner.Hold(true);
  const Want want{.id = 9, .prompt = {5, 6}, .max_tokens = 5, .seed = 4};
  REQUIRE(bench.Submit(want).ok());
  EXPECT_EQ(bench.Submit(want).code(), StatusCode::kInvalidRequest);
  bench.runner.Hold(false);
  REQUIRE(bench.WaitFor(9));
  bench.ExpectAsAlone(want);
}

TEST(TheQueueIsBounded) {
  Bench bench;
  bench.runner.Hold(true);
  for (GenerationId id = 0; id < Worker::kMaxWaiting; ++id) {
    REQUIRE(bench.Submit({.id = id, .prompt = {1}, .max_tokens = 1}).ok());
  }
  EXPECT_EQ(bench.Submit({.id = 5000, .prompt = {1}}).code(), StatusCode::kBusy);
  EXPECT_EQ(bench.runner.stats().waiting, Worker::kMaxWaiting);
  bench.runner.Hold(false);
  for (GenerationId id = 0; id < Worker::kMaxWaiting; ++id) REQUIRE(bench.WaitFor(id));
  EXPECT(!bench.Ended(5000));
}

// Work of the loop for a cancelled generation, here copying its state, may take long; it must not
// block callers.
TEST(NobodyWaitsForWhatTheLoopDoesWithTheInbox) {
  Gate step;
  Gate copy;
  Bench bench({.can_share = false, .fault = step.AtStep(4), .before_save = [&] { copy.Pass(); }});
  const Want want{.id = 1, .prompt = std::vector<Token>(70, 5), .seed = 1};
  REQUIRE(bench.Submit(want).ok());
  step.WaitUntilReached();
  bench.runner.Cancel(1);
  step.Open();
  copy.WaitUntilReached();
  std::future<void> callers = std::async(std::launch::async, [&] {
    (void)bench.runner.stats();
    EXPECT(bench.Submit({.id = 2, .prompt = {5}, .max_tokens = 1}).ok());
    bench.runner.Pause(2);
    bench.runner.Resume(2);
    bench.runner.Cancel(77);
  });
  EXPECT(callers.wait_for(10s) == std::future_status::ready);
  copy.Open();
  callers.wait();
  REQUIRE(bench.WaitFor(1));
  REQUIRE(bench.WaitFor(2));
  bench.ExpectNothingHeld();
}

// Out of memory in a step is reported, and the engine continues.
TEST(WithoutMemoryForAStepGenerationsEndAndTheNextOneIsComputed) {
  int step = 0;
  Bench bench({.fault = [&](std::span<const Row>, const std::atomic<bool>&) {
    if (++step == 3) throw std::bad_alloc();
    if (step == 9) throw std::runtime_error("an exception of a library");
    return DecodeOutcome::kDone;
  }});
  const Want want{.id = 1, .prompt = {5, 6}, .max_tokens = 40, .seed = 11};
  REQUIRE(Alone(want, 1024).output_tokens > 10);
  REQUIRE(bench.Submit(want).ok());
  REQUIRE(bench.WaitFor(1));
  EXPECT_EQ(bench.End(1).status.code(), StatusCode::kOutOfMemory);
  Want second = want;
  second.id = 2;
  REQUIRE(bench.Submit(second).ok());
  REQUIRE(bench.WaitFor(2));
  EXPECT_EQ(bench.End(2).status.code(), StatusCode::kInternal);
  Want third = want;
  third.id = 3;
  REQUIRE(bench.Submit(third).ok());
  REQUIRE(bench.WaitFor(3));
  bench.ExpectAsAlone(third);
  EXPECT(bench.runner.stats().steps >= 10);
  bench.ExpectNothingHeld();
}

TEST(WithoutMemoryForAPrefixGenerationsEndAndTheNextOneIsComputed) {
  bool fails = true;
  Bench bench({.can_share = false, .before_save = [&] {
                 if (std::exchange(fails, false)) throw std::bad_alloc();
               }});
  const Want want{.id = 1, .prompt = std::vector<Token>(200, 5), .max_tokens = 3, .seed = 1};
  REQUIRE(bench.Submit(want).ok());
  REQUIRE(bench.WaitFor(1));
  EXPECT_EQ(bench.End(1).status.code(), StatusCode::kOutOfMemory);
  Want again = want;
  again.id = 2;
  REQUIRE(bench.Submit(again).ok());
  REQUIRE(bench.WaitFor(2));
  bench.ExpectAsAlone(again);
}

// A reader that runs out of memory at the end.
class FailingReader final : public AnswerReader {
 public:
  void Read(const std::string& /*text*/, bool last, GenerationOutput* /*output*/) override {
    if (last) throw std::bad_alloc();
  }
  bool BeginsInContent(const std::string& /*unread*/, const std::string& /*stop*/) const override {
    return true;
  }
  bool has_called() const override { return false; }
};

// The disk tier reads the next piece only after the last one was taken.
TEST(WithoutMemoryForTheInboxWhatTheDiskHasReadIsTaken) {
  const test::Folder folder;
  const Want saved{.id = 1, .prompt = std::vector<Token>(200, 5), .max_tokens = 3, .seed = 1};
  {
    Bench bench({}, test::On(folder));
    REQUIRE(bench.Submit(saved).ok());
    REQUIRE(bench.WaitFor(1));
    bench.runner.Close();
  }
  REQUIRE(folder.Files().size() == 1);
  const auto file = folder.Files().front();
  constexpr std::filesystem::file_time_type kUnused;
  std::filesystem::last_write_time(file, kUnused);
  Gate first;
  Gate second;
  const auto at_first = first.AtStep(1);
  const auto at_second = second.AtStep(2);
  Bench bench({.fault =
                   [&](std::span<const Row> rows, const std::atomic<bool>& abort) {
                     (void)at_first(rows, abort);
                     return at_second(rows, abort);
                   }},
              test::On(folder));
  Submission broken = SubmissionOf({.id = 2, .prompt = {5, 6, 7}, .seed = 1, .period = 3});
  broken.reader = std::make_unique<FailingReader>();
  REQUIRE(bench.runner.Submit(std::move(broken)).ok());
  first.WaitUntilReached();
  Want waiting = saved;
  waiting.id = 3;
  REQUIRE(bench.Submit(waiting).ok());
  first.Open();
  second.WaitUntilReached();
  EXPECT(test::Eventually([&] { return std::filesystem::last_write_time(file) != kUnused; }));
  bench.runner.Cancel(2);
  second.Open();
  REQUIRE(bench.WaitFor(3));
  EXPECT_EQ(bench.End(3).status.code(), StatusCode::kOutOfMemory);
  Want next = saved;
  next.id = 4;
  REQUIRE(bench.Submit(next).ok());
  REQUIRE(bench.WaitFor(4));
  bench.ExpectAsAlone(next);
}

TEST(CancelEndsWaitingAndRunningOnes) {
  Gate gate;
  Bench bench({.max_sequences = 1, .fault = gate.AtStep(5)});
  Want running{.id = 1, .prompt = {5, 6}, .seed = 1};
  while (Alone(running, 1024).output_tokens < 20) ++running.seed;
  REQUIRE(bench.Submit(running).ok());
  gate.WaitUntilReached();
  REQUIRE(bench.Submit({.id = 2, .prompt = {5}}).ok());
  bench.runner.Cancel(2);
  bench.runner.Cancel(1);
  bench.runner.Cancel(777);  // unknown id
  gate.Open();
  REQUIRE(bench.WaitFor(1));
  REQUIRE(bench.WaitFor(2));
  EXPECT_EQ(bench.End(1).reason, FinishReason::kCancelled);
  EXPECT_EQ(bench.End(2).reason, FinishReason::kCancelled);
  EXPECT(!bench.Text(1).empty());
  EXPECT(Alone(running, 1024).text.starts_with(bench.Text(1)));
  EXPECT_EQ(bench.Text(2), "");
  EXPECT_EQ(bench.record.steps.load(), 5U);
  bench.ExpectNothingHeld();
}

TEST(CancellingAllOfABatchAbortsIt) {
  std::atomic<bool> inside = false;
  std::atomic<bool> aborted = false;
  Bench bench({.fault = [&](std::span<const Row>, const std::atomic<bool>& abort) {
    inside = true;
    for (int i = 0; i < 5000 && !abort; ++i) std::this_thread::sleep_for(1ms);
    aborted = abort.load();
    return abort ? DecodeOutcome::kAborted : DecodeOutcome::kDone;
  }});
  REQUIRE(bench.Submit({.id = 1, .prompt = {1, 2}}).ok());
  while (!inside) std::this_thread::sleep_for(1ms);
  const EngineStats stats = bench.runner.stats();
  EXPECT_EQ(stats.active, 1U);
  EXPECT(stats.step_age_ms > 0);
  bench.runner.Cancel(1);
  REQUIRE(bench.WaitFor(1));
  EXPECT(aborted);
  EXPECT_EQ(bench.End(1).reason, FinishReason::kCancelled);
}

TEST(CancellingOneOfABatchDoesNotAbortTheOthers) {
  Gate gate;
  std::atomic<bool> abort_seen = false;
  Bench bench({.fault = [&](std::span<const Row>, const std::atomic<bool>& abort) {
    gate.Pass();
    abort_seen = abort_seen || abort;
    return DecodeOutcome::kDone;
  }});
  bench.runner.Hold(true);
  const Want stays{.id = 1, .prompt = {1, 2}, .max_tokens = 8, .seed = 3};
  REQUIRE(bench.Submit(stays).ok());
  REQUIRE(bench.Submit({.id = 2, .prompt = {1, 2}, .seed = 5}).ok());
  bench.runner.Hold(false);
  gate.WaitUntilReached();
  bench.runner.Cancel(2);
  gate.Open();
  REQUIRE(bench.WaitFor(2));
  REQUIRE(bench.WaitFor(1));
  EXPECT(!abort_seen);
  EXPECT_EQ(bench.End(2).reason, FinishReason::kCancelled);
  bench.ExpectAsAlone(stays);
}

TEST(APausedGenerationMakesNoProgressAndGoesOn) {
  Bench bench;
  Want want{.id = 1, .prompt = {5, 6}, .max_tokens = 300, .seed = 1};
  while (Alone(want, 1024).output_tokens < 100) ++want.seed;
  const Want other{.id = 2, .prompt = {8}, .max_tokens = 50, .seed = 9};
  bench.runner.Hold(true);
  REQUIRE(bench.Submit(want).ok());
  bench.runner.Pause(1);
  bench.runner.Hold(false);
  REQUIRE(bench.Submit(other).ok());
  REQUIRE(bench.WaitFor(2));
  EXPECT_EQ(bench.Text(1), "");
  EXPECT(!bench.Ended(1));
  bench.runner.Resume(1);
  REQUIRE(bench.WaitFor(1));
  bench.ExpectAsAlone(want);
  bench.ExpectAsAlone(other);
}

TEST(AHeldRunnerComputesNothingButStillCancels) {
  Bench bench;
  bench.runner.Hold(true);
  REQUIRE(bench.Submit({.id = 1, .prompt = {5}}).ok());
  REQUIRE(bench.Submit({.id = 2, .prompt = {5}, .max_tokens = 3}).ok());
  bench.runner.Cancel(1);
  REQUIRE(bench.WaitFor(1));
  EXPECT_EQ(bench.record.steps.load(), 0U);
  bench.runner.Hold(false);
  REQUIRE(bench.WaitFor(2));
}

TEST(AFailedStepFailsItsGenerationsAndNoOthers) {
  std::atomic<int> steps = 0;
  Bench bench({.max_sequences = 2, .fault = [&](std::span<const Row>, const std::atomic<bool>&) {
                 return ++steps == 4 ? DecodeOutcome::kFailed : DecodeOutcome::kDone;
               }});
  bench.runner.Hold(true);
  std::vector<Want> wants;
  for (GenerationId id = 0; id < 4; ++id) {
    wants.push_back({.id = id, .prompt = {static_cast<Token>(id), 7}, .max_tokens = 20, .seed = 1});
    while (Alone(wants.back(), 1024).output_tokens < 20) ++wants.back().seed;
    REQUIRE(bench.Submit(wants.back()).ok());
  }
  bench.runner.Hold(false);
  for (const Want& want : wants) REQUIRE(bench.WaitFor(want.id));
  for (const GenerationId id : {0U, 1U}) {
    EXPECT_EQ(bench.End(id).status.code(), StatusCode::kInternal);
  }
  bench.ExpectAsAlone(wants[2]);
  bench.ExpectAsAlone(wants[3]);
  bench.ExpectNothingHeld();
}

TEST(CloseEndsEverythingOnce) {
  Bench bench({.max_sequences = 2});
  for (GenerationId id = 0; id < 20; ++id) {
    REQUIRE(bench.Submit({.id = id, .prompt = {1, 2, 3}, .seed = id}).ok());
  }
  bench.runner.Close();
  for (GenerationId id = 0; id < 20; ++id) {
    EXPECT(bench.Ended(id));
    if (!bench.Ended(id)) continue;
    EXPECT(bench.End(id).status.ok());
  }
  EXPECT_EQ(bench.record.cells.load(), 0U);
  EXPECT_EQ(bench.Submit({.id = 50, .prompt = {1}}).code(), StatusCode::kEngineUnavailable);
  bench.runner.Close();
  bench.runner.Cancel(1);
  EXPECT_EQ(bench.runner.stats().active, 0U);
}

// A request accepted while the runner adds earlier ones to its loop, just before the engine closes.
TEST(CloseEndsWhatCameLast) {
  Gate step;
  Gate copy;
  Bench bench({.can_share = false, .fault = step.AtStep(4), .before_save = [&] { copy.Pass(); }});
  REQUIRE(bench.Submit({.id = 1, .prompt = std::vector<Token>(70, 5), .seed = 1}).ok());
  step.WaitUntilReached();
  bench.runner.Cancel(1);
  step.Open();
  copy.WaitUntilReached();
  REQUIRE(bench.Submit({.id = 2, .prompt = {5}, .max_tokens = 1}).ok());
  std::future<void> closed = std::async(std::launch::async, [&] { bench.runner.Close(); });
  while (bench.Submit({.id = 1, .prompt = {5}}).code() != StatusCode::kEngineUnavailable) {
    std::this_thread::yield();
  }
  copy.Open();
  closed.wait();
  EXPECT(bench.Ended(1));
  EXPECT(bench.Ended(2));
}

TEST(CloseInterruptsAStep) {
  std::atomic<bool> inside = false;
  Bench bench({.fault = [&](std::span<const Row>, const std::atomic<bool>& abort) {
    inside = true;
    for (int i = 0; i < 20000 && !abort; ++i) std::this_thread::sleep_for(1ms);
    return DecodeOutcome::kAborted;
  }});
  REQUIRE(bench.Submit({.id = 1, .prompt = {1}}).ok());
  while (!inside) std::this_thread::sleep_for(1ms);
  const auto start = std::chrono::steady_clock::now();
  bench.runner.Close();
  EXPECT(std::chrono::steady_clock::now() - start < 15s);  // the step would take 20 s
  EXPECT_EQ(bench.End(1).reason, FinishReason::kCancelled);
}

TEST(StatsAddUp) {
  Bench bench({.cells = 512, .max_rows = 32});
  std::mt19937 random(8);
  std::uint64_t prompt_tokens = 0;
  std::uint64_t generated = 0;
  for (GenerationId id = 0; id < 10; ++id) {
    Want want = RandomWant(id, random, 40);
    want.max_tokens = 12;
    want.stop.clear();
    REQUIRE(bench.Submit(want).ok());
    REQUIRE(bench.WaitFor(id));
    prompt_tokens += want.prompt.size();
    generated += bench.End(id).usage.output_tokens;
  }
  const EngineStats stats = bench.runner.stats();
  EXPECT_EQ(stats.prompt_tokens, prompt_tokens);
  EXPECT_EQ(stats.generated_tokens, generated);
  EXPECT_EQ(stats.steps, bench.record.steps.load());
  EXPECT_EQ(stats.kv_cells_used, 0U);
  EXPECT_EQ(stats.kv_cells_total, 512U);
  EXPECT_EQ(stats.active + stats.waiting, 0U);
  EXPECT_EQ(stats.step_age_ms, 0.0);
  EXPECT_EQ(stats.tokens_per_second, 0.0);
}

// A cost model in which each step takes a minute.
CostModel OneMinuteEach() {
  Clock::time_point time;
  test::FakeRecord record;
  test::FakeDecoder decoder({.fault =
                                 [&time](std::span<const Row>, const std::atomic<bool>&) {
                                   time += std::chrono::minutes(1);
                                   return DecodeOutcome::kDone;
                                 }},
                            &record);
  return CostModel::Measure(
      decoder, [&time] { return time; }, 1e9);
}

// The first request of a new share aborts a long step of another share; a request of a share that
// is already being served does not.
TEST(ALongStepYieldsToAShareThatHasHadNothing) {
  for (const ShareId newcomer : {1U, 2U}) {
    std::atomic<bool> hold = false;
    std::atomic<bool> held = false;
    std::atomic<int> aborted = 0;
    LoopOptions loop;
    loop.cost = OneMinuteEach();
    test::Bench bench({.cells = 4096,
                       .fault =
                           [&](std::span<const Row>, const std::atomic<bool>& abort) {
                             if (hold) held = true;
                             while (hold && !abort) std::this_thread::yield();
                             hold = false;
                             aborted += abort ? 1 : 0;
                             return abort ? DecodeOutcome::kAborted : DecodeOutcome::kDone;
                           }},
                      std::move(loop));
    test::Want alice{.id = 1, .prompt = {5, 6, 7}, .max_tokens = 40, .seed = 1};
    alice.scope.owner = 1;
    hold = true;
    EXPECT(bench.Submit(alice).ok());
    while (!held) std::this_thread::yield();
    test::Want other{.id = 2, .prompt = {8, 9}, .max_tokens = 5, .seed = 2};
    other.scope.owner = newcomer;
    EXPECT(bench.Submit(other).ok());
    if (newcomer == 1) hold = false;  // otherwise the new share aborts the step
    EXPECT(bench.WaitFor(alice.id) && bench.WaitFor(other.id));
    EXPECT_EQ(aborted.load(), newcomer == 1 ? 0 : 1);
    bench.ExpectAsAlone(alice);
    bench.ExpectAsAlone(other);
    bench.ExpectNothingHeld();
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
