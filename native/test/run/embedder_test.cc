// The embedder with a fake model: every job ends exactly once, with the vectors of its inputs in
// order.
#include "engine/run/embedder.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <random>
#include <thread>

#include "failing_memory.h"
#include "fake_encoder.h"
#include "test.h"

namespace svc {
namespace {

using test::FakeEncoder;
using test::FakeEncoderRecord;
using namespace std::chrono_literals;

using Inputs = std::vector<std::vector<Token>>;

Inputs RandomInputs(std::mt19937& random, std::size_t count) {
  Inputs inputs(count);
  for (std::vector<Token>& input : inputs) {
    input.resize(1 + random() % (random() % 8 == 0 ? test::kFakeMaxTokens : 10));
    for (Token& token : input) token = static_cast<Token>(100 + random() % 900);
  }
  return inputs;
}

std::vector<float> VectorsOf(const Inputs& inputs) {
  std::vector<float> vectors;
  for (const std::vector<Token>& input : inputs) {
    for (const float value : test::VectorOf(input)) vectors.push_back(value);
  }
  return vectors;
}

// An embedder and the outputs that its sink received.
class Bench {
 public:
  Bench()
      : embedder(std::make_unique<FakeEncoder>(&record),
                 [this](std::vector<GenerationOutput> outputs) { Hear(std::move(outputs)); }) {}

  Status Submit(GenerationId id, Inputs inputs) {
    return embedder.Submit({.id = id, .inputs = std::move(inputs)});
  }
  GenerationOutput WaitFor(GenerationId id) {
    std::unique_lock lock(mutex_);
    EXPECT(heard_.wait_for(lock, 60s, [&] { return ends_.contains(id); }));
    return ends_[id];
  }
  // Returns the ids of ended jobs in the order in which they ended.
  std::vector<GenerationId> Ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  std::vector<float> Vectors(GenerationId id) {
    const std::lock_guard lock(mutex_);
    return vectors_[id];
  }
  void WaitForBatches(std::size_t count) {
    const auto deadline = Clock::now() + 60s;
    while (record.batches() < count && Clock::now() < deadline) std::this_thread::sleep_for(1ms);
    EXPECT(record.batches() >= count);
  }

 private:
  void Hear(std::vector<GenerationOutput> outputs) {
    const test::SureMemory sure;
    const std::lock_guard lock(mutex_);
    for (GenerationOutput& output : outputs) {
      EXPECT(!ends_.contains(output.id));
      std::vector<float>& all = vectors_[output.id];
      all.insert(all.end(), output.embeddings.begin(), output.embeddings.end());
      if (!output.done) continue;
      ended_.push_back(output.id);
      ends_[output.id] = std::move(output);
    }
    heard_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable heard_;
  std::map<GenerationId, std::vector<float>> vectors_;
  std::map<GenerationId, GenerationOutput> ends_;
  std::vector<GenerationId> ended_;

 public:
  FakeEncoderRecord record;
  Embedder embedder;
};

TEST(EveryJobGetsTheVectorsOfItsInputsInTheirOrder) {
  Bench bench;
  constexpr int kThreads = 4;
  constexpr int kJobs = 25;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  std::vector<std::map<GenerationId, Inputs>> wanted(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&bench, &mine = wanted[t], t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < kJobs; ++i) {
        const auto id = static_cast<GenerationId>(t * 1000 + i);
        mine[id] = RandomInputs(random, 1 + random() % 30);
        EXPECT(bench.Submit(id, mine[id]).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : wanted) {
    for (const auto& [id, inputs] : mine) {
      const GenerationOutput end = bench.WaitFor(id);
      EXPECT(end.status.ok() && end.reason == FinishReason::kStop);
      EXPECT(bench.Vectors(id) == VectorsOf(inputs));
      std::size_t tokens = 0;
      for (const auto& input : inputs) tokens += input.size();
      EXPECT_EQ(end.usage.input_tokens, tokens);
      EXPECT(end.timings.started_ms >= 0 && end.timings.finished_ms >= end.timings.started_ms);
    }
  }
  EXPECT_EQ(bench.embedder.stats().active + bench.embedder.stats().waiting, 0U);
}

TEST(AShortJobIsInTheNextBatchHoweverLongTheOneBeforeItIs) {
  Bench bench;
  bench.record.HoldBatches(true);
  EXPECT(bench.Submit(1, Inputs(500, std::vector<Token>(5, 7))).ok());
  bench.WaitForBatches(1);
  EXPECT(bench.Submit(2, {{1, 2, 3}}).ok());
  // Longer than the room that the first job leaves in a batch.
  EXPECT(bench.Submit(3, {std::vector<Token>(test::kFakeMaxTokens, 9)}).ok());
  bench.record.HoldBatches(false);
  bench.WaitFor(1);
  EXPECT(bench.Ended() == std::vector<GenerationId>({2, 3, 1}));
  EXPECT(bench.Vectors(3) == test::VectorOf(std::vector<Token>(test::kFakeMaxTokens, 9)));
}

TEST(InputsShareBatches) {
  Bench bench;
  EXPECT(bench.Submit(1, Inputs(80, {4, 5})).ok());
  bench.WaitFor(1);
  EXPECT_EQ(bench.record.batches(), 80U / test::kFakeMaxInputs);
}

TEST(ACancelAbortsTheBatchThatNobodyElseIsIn) {
  Bench bench;
  bench.record.HoldBatches(true);
  EXPECT(bench.Submit(1, Inputs(100, {1})).ok());
  bench.WaitForBatches(1);
  EXPECT(bench.Submit(2, Inputs(100, {2})).ok());
  bench.embedder.Cancel(2);
  bench.embedder.Cancel(77);
  bench.embedder.Cancel(1);
  EXPECT(bench.WaitFor(1).reason == FinishReason::kCancelled);
  EXPECT(bench.WaitFor(2).reason == FinishReason::kCancelled);
  EXPECT_EQ(bench.embedder.stats().prompt_tokens, 0U);
  bench.record.HoldBatches(false);
  EXPECT(bench.Submit(3, {{3}}).ok());
  EXPECT(bench.WaitFor(3).status.ok());
  EXPECT(bench.Vectors(3) == test::VectorOf(std::vector<Token>{3}));
}

TEST(ACancelLeavesTheBatchToTheOthersInIt) {
  Bench bench;
  bench.embedder.Hold(true);
  bench.record.HoldBatches(true);
  EXPECT(bench.Submit(1, {{1}}).ok());
  EXPECT(bench.Submit(2, {{2}}).ok());
  bench.embedder.Hold(false);
  bench.WaitForBatches(1);
  bench.embedder.Cancel(2);
  bench.record.HoldBatches(false);
  EXPECT(bench.WaitFor(1).reason == FinishReason::kStop);
  EXPECT(bench.WaitFor(2).reason == FinishReason::kCancelled);
  EXPECT(bench.Vectors(2).empty());
  EXPECT_EQ(bench.record.batches(), 1U);
}

TEST(AFailureFailsTheJobsOfItsBatchOnly) {
  Bench bench;
  bench.embedder.Hold(true);
  EXPECT(bench.Submit(1, {{1}, {test::kFakePoison}}).ok());
  bench.embedder.Hold(false);
  EXPECT_EQ(static_cast<int>(bench.WaitFor(1).status.code()),
            static_cast<int>(StatusCode::kInternal));
  EXPECT(bench.Submit(2, {{1}}).ok());
  EXPECT(bench.WaitFor(2).status.ok());
}

TEST(WhereverMemoryRunsOutEveryJobEndsOnceAndTheNextOneIsComputed) {
  int count = 0;
  for (bool has_failed = true; has_failed; ++count) {
    Bench bench;
    {
      bench.embedder.Hold(true);
      const test::FailingMemory failing(count);
      const std::vector<Inputs> inputs = {Inputs(10, {1, 2}), {{3}}};
      for (GenerationId id = 0; id < 2; ++id) EXPECT(bench.Submit(id, inputs[id]).ok());
      bench.embedder.Hold(false);
      for (GenerationId id = 0; id < 2; ++id) {
        const Status status = bench.WaitFor(id).status;
        EXPECT(status.ok() || status.code() == StatusCode::kOutOfMemory);
        if (status.ok()) EXPECT(bench.Vectors(id) == VectorsOf(inputs[id]));
      }
      has_failed = failing.has_failed();
    }
    EXPECT(bench.Submit(2, {{4}, {5}}).ok());
    EXPECT(bench.WaitFor(2).status.ok());
    EXPECT(bench.Vectors(2) == VectorsOf({{4}, {5}}));
    EXPECT_EQ(bench.embedder.stats().active + bench.embedder.stats().waiting, 0U);
  }
  EXPECT(count > 10);
}

TEST(HoldingStopsTheWorkAndNoCancel) {
  Bench bench;
  bench.embedder.Hold(true);
  EXPECT(bench.Submit(1, {{1}}).ok());
  EXPECT(bench.Submit(2, {{2}}).ok());
  bench.embedder.Cancel(1);
  EXPECT(bench.WaitFor(1).reason == FinishReason::kCancelled);
  EXPECT_EQ(bench.record.batches(), 0U);
  EXPECT_EQ(bench.embedder.stats().waiting, 1U);
  bench.embedder.Hold(false);
  EXPECT(bench.WaitFor(2).status.ok());
}

TEST(StatsTellWhoIsInTheBatch) {
  Bench bench;
  bench.record.HoldBatches(true);
  EXPECT(bench.Submit(1, Inputs(2, {1})).ok());
  bench.WaitForBatches(1);
  EXPECT(bench.Submit(2, {{2}}).ok());
  const EngineStats stats = bench.embedder.stats();
  EXPECT_EQ(stats.active, 1U);
  EXPECT_EQ(stats.waiting, 1U);
  EXPECT(stats.step_age_ms > 0);
  bench.record.HoldBatches(false);
  bench.WaitFor(2);
}

TEST(TooManyAreBusyAndAnIdIsUsedOnce) {
  Bench bench;
  bench.embedder.Hold(true);
  for (GenerationId id = 0; id < Worker::kMaxWaiting; ++id) EXPECT(bench.Submit(id, {{1}}).ok());
  EXPECT(bench.Submit(5000, {{1}}).code() == StatusCode::kBusy);
  bench.embedder.Cancel(3);
  bench.WaitFor(3);
  EXPECT(bench.Submit(4, {{1}}).code() == StatusCode::kInvalidRequest);
  bench.embedder.Close();
  for (GenerationId id = 0; id < Worker::kMaxWaiting; ++id) {
    EXPECT(bench.WaitFor(id).reason == FinishReason::kCancelled);
  }
  EXPECT(bench.Submit(6000, {{1}}).code() == StatusCode::kEngineUnavailable);
  bench.embedder.Close();
}

TEST(ClosingInTheMiddleOfABatchEndsEveryJobOnce) {
  for (int round = 0; round < 20; ++round) {
    Bench bench;
    std::mt19937 random(static_cast<unsigned>(round));
    for (GenerationId id = 0; id < 20; ++id)
      EXPECT(bench.Submit(id, RandomInputs(random, 40)).ok());
    bench.WaitForBatches(1 + random() % 5);
    bench.embedder.Close();
    for (GenerationId id = 0; id < 20; ++id) bench.WaitFor(id);
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
