// The loop on a virtual clock: nothing here depends on the machine, and every run is the same.
#include "engine/run/loop.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "bench.h"

namespace svc {
namespace {

using test::Alone;
using test::RandomWant;
using test::SubmissionOf;
using test::Want;

// A loop over a fake model whose steps cost 20 ms, 5 for each row and 3 for each output; or a part
// of that.
class Bench {
 public:
  explicit Bench(test::FakeOptions options = {}, bool measured = true, double part = 1)
      : cells_(options.cells) {
    auto fault = std::move(options.fault);
    options.fault = [this, fault, part](std::span<const Row> rows, const std::atomic<bool>& abort) {
      double ms = 20;
      for (const Row& row : rows) ms += row.wants_logits ? 8 : 5;
      Pass(ms * part);
      return fault ? fault(rows, abort) : DecodeOutcome::kDone;
    };
    options.lane_fault = [this, lane_fault = std::move(options.lane_fault),
                          advances = options.lane_advances](std::uint32_t rows) {
      Pass((20 + rows * 5.0) / advances);
      return lane_fault ? lane_fault(rows) : PrefillLane::Progress::kDone;
    };
    auto decoder = std::make_unique<test::FakeDecoder>(std::move(options), &record);
    const Now now = [this] { return time_; };
    CostModel cost;
    if (measured) cost = CostModel::Measure(*decoder, now, 1e6);
    loop = std::make_unique<Loop>(std::move(decoder), LoopOptions{.cost = cost, .now = now});
  }

  double now_ms() const { return Milliseconds(time_.time_since_epoch()); }
  void Pass(double ms) {
    time_ +=
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(ms));
  }

  void Add(const Want& want) {
    wants_[want.id] = want;
    Submission submission = SubmissionOf(want);
    submission.submitted_at = time_;
    loop->Add(std::move(submission));
  }
  // False: there was nothing to do.
  bool Step() {
    const bool planned = loop->Plan();
    Hear();
    if (planned) {
      const double start = now_ms();
      loop->Compute(never_);
      longest_step_ms = std::max(longest_step_ms, now_ms() - start);
      Hear();
    }
    const EngineStats stats = loop->stats();
    EXPECT_EQ(stats.cells_used + stats.cells_cached, record.cells.load());
    EXPECT(record.cells <= stats.cells_total);
    return planned;
  }
  void RunToTheEnd() {
    while (Step()) {
    }
    EXPECT_EQ(ends.size(), wants_.size());
    EXPECT_EQ(loop->stats().cells_used, 0U);
  }
  void ExpectAsAlone(GenerationId id) const {
    const Want& want = wants_.at(id);
    const test::Outcome alone = Alone(want, cells_);
    if (!ends.contains(id)) {
      test::Fail(__FILE__, __LINE__, "a generation did not end");
      return;
    }
    const GenerationOutput& end = ends.at(id);
    const auto text = texts.find(id);
    if (end.reason == FinishReason::kCancelled) {
      EXPECT(text == texts.end() || alone.text.starts_with(text->second));
      return;
    }
    EXPECT(end.status.ok());
    EXPECT_EQ(text->second, alone.text);
    EXPECT_EQ(end.reason, alone.reason);
    EXPECT_EQ(end.usage.output_tokens, alone.output_tokens);
  }
  double TimeToFirstToken(GenerationId id) const { return ends.at(id).timings.first_token_ms; }
  test::FakeRecord record;
  std::unique_ptr<Loop> loop;
  std::map<GenerationId, std::string> texts;
  std::map<GenerationId, GenerationOutput> ends;
  std::map<GenerationId, std::vector<double>> heard_ms;
  double longest_step_ms = 0;

 private:
  void Hear() {
    if (loop->MayWait()) return;
    for (GenerationOutput& output : loop->TakeOutputs()) {
      texts[output.id] += output.text;
      heard_ms[output.id].push_back(now_ms());
      if (output.done) EXPECT(ends.emplace(output.id, std::move(output)).second);
    }
  }

  const std::uint32_t cells_;
  Clock::time_point time_;
  std::map<GenerationId, Want> wants_;
  const std::atomic<bool> never_ = false;
};

// Tokens that show at once and do not end the text early: a Want of so many.
Want Steady(GenerationId id, std::vector<Token> prompt, std::uint32_t tokens) {
  Want want{.id = id, .prompt = std::move(prompt), .max_tokens = tokens, .seed = id + 1};
  while (Alone(want, 1U << 20U).output_tokens < tokens) ++want.seed;
  return want;
}

std::vector<Token> Prompt(Token first, std::size_t count) {
  std::vector<Token> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<Token>((first + i * 7) % 64);
  return tokens;
}

// Steps of 1.12 ms for one row.
constexpr double kShort = 0.04;

TEST(TextOfShortStepsIsToldTogether) {
  for (const bool measured : {true, false}) {
    Bench bench({}, measured, kShort);
    bench.Add(Steady(1, Prompt(1, 8), 60));
    const double submitted = bench.now_ms();
    bench.RunToTheEnd();
    bench.ExpectAsAlone(1);
    const std::vector<double>& heard = bench.heard_ms[1];
    // The first text at once and the end at once; what is between waits for 8 ms at most.
    EXPECT(std::abs(heard.front() - submitted - bench.TimeToFirstToken(1)) < 1e-6);
    EXPECT(std::abs(heard.back() - submitted - bench.ends.at(1).timings.finished_ms) < 1e-6);
    EXPECT(heard.size() < 15);
    for (std::size_t i = 1; i < heard.size(); ++i) EXPECT(heard[i] - heard[i - 1] < 12);
  }
}

TEST(NoTextWaitsForALongStep) {
  Bench bench({.cells = 8192, .max_rows = 512}, /*measured=*/true, kShort);
  bench.Add(Steady(1, Prompt(1, 8), 60));
  for (int i = 0; i < 4; ++i) (void)bench.Step();
  REQUIRE(bench.heard_ms[1].size() == 1);
  bench.Add(Steady(2, Prompt(2, 1800), 4));
  const double before = bench.now_ms();
  (void)bench.Step();
  EXPECT(bench.now_ms() > before + 20);
  REQUIRE(bench.heard_ms[1].size() > 1);
  EXPECT_EQ(bench.heard_ms[1][1], before);
}

TEST(NoTextIsKeptFromWhoPauses) {
  Bench bench({}, /*measured=*/true, kShort);
  bench.Add(Steady(1, Prompt(1, 8), 60));
  for (int i = 0; i < 4; ++i) (void)bench.Step();
  EXPECT_EQ(bench.heard_ms[1].size(), 1U);
  bench.loop->SetPaused(1, true);
  EXPECT(!bench.Step());
  EXPECT_EQ(bench.heard_ms[1].size(), 2U);
}

// As on a GPU: what steps may hold is learned from those that were computed.
TEST(WithoutAMeasurementPromptsGetAsManyRowsAsAreInTime) {
  const auto steps_of_a_prompt = [](double part, double* longest_ms) {
    Bench bench({.cells = 8192, .max_rows = 512}, /*measured=*/false, part);
    for (GenerationId id = 0; id < 3; ++id) {
      bench.Add(Steady(id, Prompt(static_cast<Token>(id), 8), 200));
    }
    for (int i = 0; i < 5; ++i) (void)bench.Step();
    bench.longest_step_ms = 0;
    bench.Add(Steady(9, Prompt(9, 1800), 4));
    const std::uint32_t before = bench.record.steps;
    while (!bench.heard_ms.contains(9) && bench.Step()) {
    }
    *longest_ms = bench.longest_step_ms;
    return bench.record.steps - before;
  };
  double longest_ms = 0;
  EXPECT(steps_of_a_prompt(0.02, &longest_ms) < 9);  // 512 rows in 52 ms
  EXPECT(longest_ms < 100);
  const std::uint32_t steps = steps_of_a_prompt(0.4, &longest_ms);  // 46 rows in 100 ms
  EXPECT(steps > 30 && steps < 60);
  EXPECT(longest_ms < 110);
}

TEST(ALaneThatGrowsTakesTheMemoryOfCopiesUntilNothingIsLeftToDo) {
  Bench bench({.cells = 4096,
               .max_rows = 512,
               .idle_cells = 64,
               .max_copied = [](std::uint32_t tokens) { return tokens > 1000 ? 256U : 2048U; },
               .lane_cells = 2048,
               .lane_rows = 512});
  for (GenerationId id = 0; id < 4; ++id) {
    bench.Add(Steady(id, Prompt(static_cast<Token>(id), 400), 3));
    bench.RunToTheEnd();
  }
  EXPECT(bench.loop->stats().swapped_tokens > 1000);
  bench.Add(Steady(7, Prompt(7, 1500), 3));
  while (bench.Step()) EXPECT(bench.loop->stats().swapped_tokens <= 256);
  bench.ExpectAsAlone(7);
  for (GenerationId id = 8; id < 12; ++id) {
    bench.Add(Steady(id, Prompt(static_cast<Token>(id), 400), 3));
    bench.RunToTheEnd();
  }
  EXPECT(bench.loop->stats().swapped_tokens > 1000);
}

TEST(ALongPromptHardlyDelaysThoseWhoDecode) {
  Bench bench({.cells = 8192, .max_rows = 512});
  for (const GenerationId id : {1U, 2U, 3U})
    bench.Add(Steady(id, Prompt(static_cast<Token>(id), 8), 120));
  for (int i = 0; i < 10; ++i) (void)bench.Step();
  bench.Add(Steady(9, Prompt(9, 1800), 4));
  bench.longest_step_ms = 0;
  bench.RunToTheEnd();
  // One step holds 3 rows of 8 ms and 17 of 5 beside the 20: never fewer than 16 of the prompt.
  EXPECT(bench.longest_step_ms <= 20 + 3 * 8 + 17 * 5);
  // The prompt alone needs 1,800 times 5 ms and more.
  EXPECT(bench.TimeToFirstToken(9) < 1.6 * 1800 * 5);
  for (const GenerationId id : {1U, 2U, 3U, 9U}) bench.ExpectAsAlone(id);
}

TEST(WhoComesTogetherDecodesTogether) {
  Bench bench({.cells = 8192, .max_rows = 512});
  bench.Add(Steady(0, Prompt(0, 20), 60));
  (void)bench.Step();
  for (GenerationId id = 1; id < 8; ++id)
    bench.Add(Steady(id, Prompt(static_cast<Token>(id), 20), 60));
  bench.RunToTheEnd();
  double first_end = 1e9;
  double last_end = 0;
  for (GenerationId id = 0; id < 8; ++id) {
    bench.ExpectAsAlone(id);
    first_end = std::min(first_end, bench.heard_ms[id].back());
    last_end = std::max(last_end, bench.heard_ms[id].back());
    // All prompts together are 800 ms.
    EXPECT(bench.TimeToFirstToken(id) < 1000);
  }
  // Few steps are not full.
  EXPECT(bench.loop->stats().steps < 60 + 12);
  EXPECT(last_end - first_end < 5 * 84);
}

test::FakeOptions WithLane() {
  return {
      .cells = 8192, .max_rows = 512, .lane_cells = 2048, .lane_rows = 256, .lane_advances = 48};
}

// A batch of 256 rows takes 1,300 ms; nobody waits for that.
TEST(APromptInTheLaneIsHardlyDelayedByThoseWhoDecodeNorTheyByIt) {
  Bench bench(WithLane());
  for (const GenerationId id : {1U, 2U, 3U})
    bench.Add(Steady(id, Prompt(static_cast<Token>(id), 8), 120));
  for (int i = 0; i < 10; ++i) (void)bench.Step();
  bench.Add(Steady(9, Prompt(9, 1800), 4));
  bench.RunToTheEnd();
  // A step costs 44 ms, so the lane has 132 at a time, and a 27 for what it was in the middle of.
  // All three are in each step, and what one of them says in it may be half a character.
  std::vector<double> heard;
  for (const GenerationId id : {1U, 2U, 3U}) {
    heard.insert(heard.end(), bench.heard_ms.at(id).begin(), bench.heard_ms.at(id).end());
  }
  std::sort(heard.begin(), heard.end());
  for (std::size_t i = 1; i < heard.size(); ++i) EXPECT(heard[i] - heard[i - 1] < 300);
  EXPECT(bench.TimeToFirstToken(9) < 1.4 * 1800 * 5);
  for (const GenerationId id : {1U, 2U, 3U, 9U}) bench.ExpectAsAlone(id);
  EXPECT_EQ(bench.loop->stats().prompt_tokens, 3U * 8 + 1800);
}

// Says characters that take three tokens.
class SlowSpeaker final : public Sampler {
 public:
  Token Sample(const float* /*logits*/) override { return drawn_++ % 3 == 0 ? 1 : 2; }

 private:
  std::uint32_t drawn_ = 0;
};

// Each of its characters is waited for once, not once for each of its tokens.
TEST(WhoSaysACharacterInSeveralTokensIsHardlyDelayedByTheLane) {
  Bench bench(WithLane());
  Submission submission = SubmissionOf({.id = 1, .prompt = Prompt(1, 8), .max_tokens = 120});
  submission.sampler = std::make_unique<SlowSpeaker>();
  submission.reuse_prefix = false;  // nor are there drafts: whole characters would be guessed
  bench.loop->Add(std::move(submission));
  for (int i = 0; i < 10; ++i) (void)bench.Step();
  bench.Add(Steady(9, Prompt(9, 1800), 4));
  while (!bench.ends.contains(9)) EXPECT(bench.Step());
  const std::vector<double>& heard = bench.heard_ms.at(1);
  for (std::size_t i = 1; i < heard.size(); ++i) EXPECT(heard[i] - heard[i - 1] < 260);
  EXPECT(bench.TimeToFirstToken(9) < 1.6 * 1800 * 5);
}

// Each stop costs something, and alone there is nobody to stop for.
TEST(AloneAPromptInTheLaneStopsLessOften) {
  Bench bench(WithLane());
  bench.Add(Steady(1, Prompt(1, 1800), 100));
  while (!bench.texts.contains(1)) EXPECT(bench.Step());
  EXPECT(bench.record.lane_layers > 0);
  EXPECT_EQ(bench.record.lane_parts.load(), 0U);
  const std::uint32_t alone = bench.record.lane_layers;
  bench.Add(Steady(2, Prompt(2, 700), 4));
  bench.RunToTheEnd();
  EXPECT_EQ(bench.record.lane_layers.load(), alone);
  EXPECT(bench.record.lane_parts > 0);
}

TEST(AShortQuestionPassesTheDocumentInTheLane) {
  Bench bench(WithLane());
  bench.Add(Steady(1, Prompt(1, 1800), 4));
  (void)bench.Step();
  bench.Add(Steady(2, Prompt(2, 12), 4));
  bench.RunToTheEnd();
  EXPECT(bench.TimeToFirstToken(2) < 150);
  EXPECT(bench.TimeToFirstToken(1) < 1.1 * 1800 * 5);
  for (const GenerationId id : {1U, 2U}) bench.ExpectAsAlone(id);
}

// Whose document it is that is in the lane changes, and neither is computed twice.
TEST(AShorterDocumentPassesALongerOneInTheLane) {
  Bench bench(WithLane());
  bench.Add(Steady(1, Prompt(1, 1800), 4));
  (void)bench.Step();
  bench.Add(Steady(2, Prompt(2, 500), 4));
  bench.RunToTheEnd();
  EXPECT(bench.TimeToFirstToken(2) < 1300 + 1.2 * 500 * 5);
  EXPECT(bench.TimeToFirstToken(1) > 1800 * 5);
  for (const GenerationId id : {1U, 2U}) bench.ExpectAsAlone(id);
  EXPECT_EQ(bench.loop->stats().prompt_tokens, 2300U);
}

TEST(WhatIsInTheLaneCanBeCancelledAndPaused) {
  for (const bool paused : {false, true}) {
    Bench bench(WithLane());
    bench.Add(Steady(1, Prompt(1, 1000), 4));
    for (int i = 0; i < 60; ++i) (void)bench.Step();
    if (paused) {
      bench.loop->SetPaused(1, true);
    } else {
      bench.loop->Cancel(1);
    }
    bench.Add(Steady(2, Prompt(2, 700), 4));
    while (bench.loop->HasWork()) EXPECT(bench.Step());
    bench.ExpectAsAlone(2);
    bench.loop->SetPaused(1, false);
    bench.RunToTheEnd();
    bench.ExpectAsAlone(1);
  }
}

TEST(ALaneThatFailsFailsItsPromptAlone) {
  for (const auto progress : {PrefillLane::Progress::kFailed, PrefillLane::Progress::kAborted}) {
    test::FakeOptions options = WithLane();
    int advances = 0;
    options.lane_fault = [&](std::uint32_t) {
      return ++advances == 70 ? progress : PrefillLane::Progress::kDone;
    };
    Bench bench(std::move(options));
    bench.Add(Steady(1, Prompt(1, 1000), 4));
    bench.Add(Steady(2, Prompt(2, 10), 60));
    bench.RunToTheEnd();
    bench.ExpectAsAlone(2);
    if (progress == PrefillLane::Progress::kAborted) {
      bench.ExpectAsAlone(1);  // what was lost is computed again
    } else {
      EXPECT_EQ(bench.ends.at(1).status.code(), StatusCode::kInternal);
    }
  }
}

TEST(AShortQuestionPassesALongDocument) {
  Bench bench({.cells = 8192, .max_rows = 512});
  bench.Add(Steady(1, Prompt(1, 1800), 4));
  (void)bench.Step();
  bench.Add(Steady(2, Prompt(2, 12), 4));
  bench.RunToTheEnd();
  EXPECT(bench.TimeToFirstToken(2) < 200);
  EXPECT(bench.TimeToFirstToken(1) > 5000);
  for (const GenerationId id : {1U, 2U}) bench.ExpectAsAlone(id);
}

TEST(AStepOfPromptsAloneEndsInTimeForWhoeverComes) {
  Bench bench({.cells = 8192, .max_rows = 512});
  bench.Add(Steady(1, Prompt(1, 4000), 2));
  bench.RunToTheEnd();
  // The last step takes up to 63 rows more, which are not worth one of their own.
  EXPECT(bench.longest_step_ms <= 400 + 63 * 5);
  EXPECT(bench.longest_step_ms > 200);
}

TEST(AShortQuestionPassesDocumentsThatFillTheCache) {
  for (const std::size_t documents : {1U, 3U}) {
    Bench bench({.cells = 2048, .max_rows = 512});
    for (GenerationId id = 1; id <= documents; ++id) {
      bench.Add(Steady(id, Prompt(static_cast<Token>(id), 2000 / documents), 4));
    }
    (void)bench.Step();
    bench.Add(Steady(9, Prompt(9, 100), 4));
    bench.RunToTheEnd();
    EXPECT(bench.TimeToFirstToken(9) < 1000);
    EXPECT(bench.loop->stats().prompt_tokens < 2000 + 100 + 300);
    for (GenerationId id = 1; id <= documents; ++id) bench.ExpectAsAlone(id);
  }
}

TEST(BatchWorkMakesWayButIsNotForgotten) {
  Bench bench({.cells = 2048, .max_rows = 64, .max_sequences = 1});
  Want batch = Steady(1, Prompt(1, 40), 3);
  batch.priority = Priority::kBatch;
  bench.Add(batch);
  // Someone interactive is always waiting.
  GenerationId next = 2;
  std::vector<GenerationId> order;
  while (!bench.ends.contains(1) && next < 4000) {
    bench.Add(Steady(next, Prompt(static_cast<Token>(next), 6), 2));
    ++next;
    for (int i = 0; i < 3; ++i) (void)bench.Step();
  }
  EXPECT(bench.ends.contains(1));
  const double waited = bench.ends.at(1).timings.started_ms;
  EXPECT(waited < 70'000);
  bench.RunToTheEnd();
}

TEST(ClientsWithOnePromptComputeItOnce) {
  Bench bench({.cells = 4096, .max_rows = 512, .max_sequences = 8});
  for (GenerationId id = 0; id < 8; ++id) {
    std::vector<Token> prompt = Prompt(1, 740);
    prompt.insert(prompt.end(), 12, static_cast<Token>(20 + id));
    bench.Add(Steady(id, prompt, 10));
  }
  bench.RunToTheEnd();
  for (GenerationId id = 0; id < 8; ++id) {
    bench.ExpectAsAlone(id);
    if (id > 0) EXPECT(bench.ends.at(id).usage.cached_tokens >= 740);
    // One prompt and eight ends, in steps of at most 400 ms.
    EXPECT(bench.TimeToFirstToken(id) < 1.3 * 5 * (740 + 8 * 12) + 400);
  }
  EXPECT_EQ(bench.loop->stats().prompt_tokens, 740U + 8 * 12);
}

TEST(TheNextTurnComputesOnlyWhatIsNew) {
  Bench bench;
  std::vector<Token> conversation = Prompt(1, 60);
  for (GenerationId turn = 1; turn < 6; ++turn) {
    const Want want = Steady(turn, conversation, 10);
    bench.Add(want);
    bench.RunToTheEnd();
    bench.ExpectAsAlone(turn);
    // All but the answer's last token, which nobody computed.
    if (turn > 1) EXPECT_EQ(bench.ends.at(turn).usage.cached_tokens, conversation.size() - 9);
    std::vector<Token> answer = conversation;
    test::FakeSampler sampler(want.seed);
    for (int i = 0; i < 10; ++i) {
      std::vector<float> logits(test::kFakeVocabulary);
      test::LogitsOf(test::HashOf(answer), logits.data());
      answer.push_back(sampler.Sample(logits.data()));
    }
    conversation = answer;
    conversation.insert(conversation.end(), 8, static_cast<Token>(turn));
  }
}

// It computes its own prompt, and what it has computed is found by others only when it has ended.
TEST(WhoWantsItsOwnPromptTakesAndGivesNothing) {
  Bench bench({.cells = 2048, .max_rows = 64});
  bench.Add(Steady(1, Prompt(1, 200), 4));
  bench.RunToTheEnd();
  Want own = Steady(2, Prompt(1, 200), 4);
  own.reuse_prefix = false;
  bench.Add(own);
  (void)bench.Step();
  // It is alone, and begins with an empty cache.
  EXPECT_EQ(bench.record.cells.load(), 64U);
  EXPECT_EQ(bench.loop->stats().cells_cached, 0U);
  bench.RunToTheEnd();
  own = Steady(3, Prompt(2, 200), 4);
  own.reuse_prefix = false;
  bench.Add(own);
  (void)bench.Step();
  bench.Add(Steady(4, Prompt(2, 200), 4));
  bench.RunToTheEnd();
  for (const GenerationId id : {1U, 2U, 3U, 4U}) {
    bench.ExpectAsAlone(id);
    EXPECT_EQ(bench.ends.at(id).usage.cached_tokens, 0U);
  }
  bench.Add(Steady(5, Prompt(2, 200), 4));
  bench.RunToTheEnd();
  EXPECT_EQ(bench.ends.at(5).usage.cached_tokens, 199U);
}

// Idle cells make every step dearer, so few are kept when somebody comes; the rest is swapped out,
// and found there.
TEST(IdlePrefixesMakeWayAndComeBack) {
  Bench bench({.cells = 4096, .max_rows = 64, .idle_cells = 100});
  for (GenerationId id = 0; id < 10; ++id) {
    bench.Add(Steady(id, Prompt(static_cast<Token>(id * 5 + 1), 150), 5));
    (void)bench.Step();
    EXPECT(bench.loop->stats().cells_cached <= 100);
    bench.RunToTheEnd();
  }
  const EngineStats stats = bench.loop->stats();
  EXPECT(stats.swapped_tokens >= 900 && stats.swapped_tokens <= stats.evicted_cells);
  for (GenerationId id = 0; id < 10; ++id) {
    bench.Add(Steady(10 + id, Prompt(static_cast<Token>(id * 5 + 1), 150), 5));
    bench.RunToTheEnd();
    bench.ExpectAsAlone(10 + id);
    EXPECT_EQ(bench.ends.at(10 + id).usage.cached_tokens, 149U);
  }
}

// A leader that goes away leaves its followers what it has computed.
TEST(FollowersOutliveTheirLeader) {
  for (const bool paused : {false, true}) {
    Bench bench({.cells = 4096, .max_rows = 64});
    for (GenerationId id = 0; id < 3; ++id) bench.Add(Steady(id, Prompt(1, 500 + id), 5));
    for (int i = 0; i < 3; ++i) (void)bench.Step();
    EXPECT_EQ(bench.loop->stats().active, 1U);
    if (paused) {
      bench.loop->SetPaused(0, true);
    } else {
      bench.loop->Cancel(0);
    }
    while (bench.loop->HasWork()) EXPECT(bench.Step());
    EXPECT(bench.ends.at(1).usage.cached_tokens >= 128);
    bench.loop->SetPaused(0, false);
    bench.RunToTheEnd();
    for (GenerationId id = 0; id < 3; ++id) bench.ExpectAsAlone(id);
  }
}

TEST(WithoutSharingEverythingIsComputedAndRight) {
  Bench bench({.cells = 2048, .sequence_ids = 8, .can_share = false});
  for (GenerationId id = 0; id < 6; ++id) bench.Add(Steady(id, Prompt(1, 100), 5));
  bench.RunToTheEnd();
  for (GenerationId id = 0; id < 6; ++id) bench.ExpectAsAlone(id);
  EXPECT_EQ(bench.loop->stats().prompt_tokens, 600U);
  EXPECT_EQ(bench.loop->stats().cached_tokens, 0U);
  EXPECT_EQ(bench.record.cells.load(), 0U);
}

TEST(CachedPrefixesMakeWayForGenerations) {
  Bench bench({.cells = 256, .max_rows = 64});
  for (GenerationId id = 0; id < 30; ++id) {
    bench.Add(Steady(id, Prompt(static_cast<Token>(id * 5 + 1), 100), 5));
    bench.RunToTheEnd();
    bench.ExpectAsAlone(id);
  }
  EXPECT_EQ(bench.loop->stats().preemptions, 0U);
  EXPECT(bench.loop->stats().evicted_cells > 1000);
}

TEST(ThePreemptedOneIsTheMostJunior) {
  Bench bench({.cells = 128, .max_rows = 64});
  Want batch = Steady(1, Prompt(1, 30), 30);
  batch.priority = Priority::kBatch;
  bench.Add(batch);
  (void)bench.Step();
  bench.Add(Steady(2, Prompt(2, 30), 40));
  bench.Add(Steady(3, Prompt(3, 10), 40));
  bench.RunToTheEnd();
  EXPECT(bench.loop->stats().preemptions > 0);
  for (const GenerationId id : {1U, 2U, 3U}) bench.ExpectAsAlone(id);
  // Though it came first and had the least to do.
  EXPECT(bench.heard_ms.at(1).back() > bench.heard_ms.at(2).back());
}

// Where three rows cost more than four.
TEST(DecodingIsPaddedToCheapRowCounts) {
  test::FakeRecord record;
  Clock::time_point time;
  std::map<std::size_t, int> sizes;
  auto decoder = std::make_unique<test::FakeDecoder>(
      test::FakeOptions{.fault =
                            [&](std::span<const Row> rows, const std::atomic<bool>&) {
                              ++sizes[rows.size()];
                              time += std::chrono::milliseconds(rows.size() % 4 == 3 ? 90 : 50);
                              return DecodeOutcome::kDone;
                            }},
      &record);
  const Now now = [&] { return time; };
  CostModel cost = CostModel::Measure(*decoder, now, 1e6);
  Loop loop(std::move(decoder), {.cost = cost, .now = now});
  sizes.clear();
  for (const GenerationId id : {1U, 2U, 3U}) {
    loop.Add(SubmissionOf(Steady(id, Prompt(static_cast<Token>(id), 1), 30)));
  }
  const std::atomic<bool> never = false;
  while (loop.Plan()) {
    loop.Compute(never);
    for (const GenerationOutput& output : loop.TakeOutputs()) EXPECT(output.status.ok());
  }
  EXPECT_EQ(sizes[3], 0);
  EXPECT(sizes[4] >= 29);
  EXPECT_EQ(record.cells.load(), loop.stats().cells_cached);
}

TEST(StepsTellWhatTheyHeldAndCost) {
  Bench bench({.cells = 4096, .max_rows = 512});
  bench.Add(Steady(1, Prompt(1, 4), 40));
  (void)bench.Step();
  bench.Add(Steady(2, Prompt(2, 300), 2));
  (void)bench.Step();
  const EngineStats stats = bench.loop->stats();
  EXPECT_EQ(stats.steps, 2U);
  EXPECT(stats.last_step.prompt_rows >= kLeastPromptRows);
  EXPECT_EQ(stats.last_step.rows, stats.last_step.prompt_rows + 1);
  EXPECT_EQ(stats.rows, stats.last_step.rows + 4);
  EXPECT(std::abs(stats.last_step.predicted_ms - stats.last_step.spent_ms) < 10);
  EXPECT(stats.spent_ms > stats.last_step.spent_ms);
  bench.RunToTheEnd();
}

// Random arrivals in time, of all kinds, with cancels, pauses and failures to find cells, in caches
// of all sizes. Everything ends, says what it says alone, and leaves nothing behind; and nobody
// waits longer for the cache than those before it can take.
void Storm(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto one_in = [&](int n) { return random() % n == 0; };
  test::FakeOptions options{.cells = 128 + static_cast<std::uint32_t>(random() % 600),
                            .max_rows = 16 + static_cast<std::uint32_t>(random() % 100),
                            .max_sequences = 1 + static_cast<std::uint32_t>(random() % 8)};
  options.sequence_ids = options.max_sequences + static_cast<std::uint32_t>(random() % 12);
  options.can_share = !one_in(5);
  if (one_in(2)) options.idle_cells = static_cast<std::uint32_t>(random() % 100);
  if (one_in(2)) {
    options.lane_cells = 200;
    options.lane_rows = 16 + static_cast<std::uint32_t>(random() % 100);
    options.lane_advances = 1 + static_cast<int>(random() % 5);
  }
  std::mt19937 faults(seed + 1);
  options.fault = [&](std::span<const Row> rows, const std::atomic<bool>&) {
    const bool several = rows.front().sequence != rows.back().sequence;
    return several && faults() % 40 == 0 ? DecodeOutcome::kNoCells : DecodeOutcome::kDone;
  };
  const std::uint32_t cells = options.cells;
  const bool measured = !one_in(4);
  Bench bench(std::move(options), measured, seed % 2 == 0 ? 1 : kShort);
  const std::vector<std::vector<Token>> systems = {Prompt(1, 40), Prompt(2, 20), {}};

  std::set<GenerationId> paused;
  constexpr GenerationId kCount = 60;
  GenerationId next = 0;
  int idle = 0;
  while (next < kCount || bench.ends.size() < kCount) {
    if (next < kCount && one_in(3)) {
      Want want = RandomWant(next, random, one_in(4) ? 180 : 60);
      if (want.prompt.size() >= cells / 2) want.prompt.resize(60);
      const std::vector<Token>& system = systems[random() % systems.size()];
      want.prompt.insert(want.prompt.begin(), system.begin(), system.end());
      if (one_in(3)) want.priority = Priority::kBatch;
      want.reuse_prefix = !one_in(4);
      EXPECT(want.prompt.size() < cells);
      bench.Add(want);
      if (one_in(5)) {
        bench.loop->SetPaused(next, true);
        paused.insert(next);
      }
      ++next;
    }
    if (next > 0 && one_in(12)) bench.loop->Cancel(static_cast<GenerationId>(random() % next));
    if (next > 0 && one_in(12)) {
      const auto id = static_cast<GenerationId>(random() % next);
      bench.loop->SetPaused(id, true);
      paused.insert(id);
    }
    if (!paused.empty() && (one_in(6) || next == kCount)) {
      bench.loop->SetPaused(*paused.begin(), false);
      paused.erase(paused.begin());
    }
    if (!bench.Step()) bench.Pass(10);
    // Something moves whenever something can.
    idle = bench.loop->HasWork() && bench.ends.size() < next ? idle + 1 : 0;
    if (idle > 20'000) {
      test::Fail(__FILE__, __LINE__, "nothing ends any more, seed " + std::to_string(seed));
      return;
    }
  }
  for (GenerationId id = 0; id < kCount; ++id) bench.ExpectAsAlone(id);
  EXPECT_EQ(bench.loop->stats().cells_used, 0U);
}

TEST(NothingLeaksStarvesOrSaysAnythingElse) {
  for (std::uint32_t seed = 0; seed < 150; ++seed) Storm(seed * 7);
}

// Says that the logits are broken where they are.
class CarefulSampler final : public Sampler {
 public:
  Token Sample(const float* logits) override {
    return std::isnan(logits[0]) ? kBrokenLogits : Token{7};
  }
};

// Its grammar is found too slow at the third token.
class SlowSampler final : public Sampler {
 public:
  Token Sample(const float* /*logits*/) override { return ++drawn_ < 3 ? Token{7} : kSlowGrammar; }

 private:
  int drawn_ = 0;
};

TEST(ASlowGrammarFailsItsOwnRequestAlone) {
  Bench bench;
  Submission slow = SubmissionOf({.id = 1, .prompt = std::vector<Token>(40, 9), .max_tokens = 9});
  slow.sampler = std::make_unique<SlowSampler>();
  bench.loop->Add(std::move(slow));
  bench.loop->Add(SubmissionOf({.id = 2, .prompt = std::vector<Token>(40, 8), .max_tokens = 9}));
  while (bench.Step()) {
  }
  EXPECT_EQ(bench.ends.at(1).status.code(), StatusCode::kInvalidRequest);
  EXPECT_EQ(bench.ends.at(1).status.param(), "grammar");
  EXPECT(bench.ends.at(2).status.ok());
  EXPECT_EQ(bench.ends.at(2).usage.output_tokens, 9U);
}

TEST(AModelThatComputesNoNumbersFailsThatRequestAloneAndIsNotBuiltOn) {
  const std::vector<Token> bad(40, 9);
  bool broken = true;
  Bench bench({.logits = [&](const std::vector<Token>& tokens, std::size_t, float* logits) {
    test::LogitsOf(test::HashOf(tokens), logits);
    if (broken && tokens[0] == 9) std::fill_n(logits, test::kFakeVocabulary, NAN);
  }});
  const auto add = [&](GenerationId id, const std::vector<Token>& prompt) {
    Submission submission = SubmissionOf({.id = id, .prompt = prompt, .max_tokens = 5});
    submission.sampler = std::make_unique<CarefulSampler>();
    bench.loop->Add(std::move(submission));
  };
  const auto run = [&] {
    while (bench.Step()) {
    }
  };
  add(1, bad);
  add(2, std::vector<Token>(40, 8));
  run();
  EXPECT_EQ(bench.ends.at(1).status.code(), StatusCode::kInternal);
  EXPECT_EQ(bench.ends.at(1).status.param(), "");
  EXPECT(bench.ends.at(2).status.ok());
  EXPECT_EQ(bench.ends.at(2).usage.output_tokens, 5U);
  broken = false;
  add(3, bad);
  run();
  EXPECT(bench.ends.at(3).status.ok());
  EXPECT_EQ(bench.ends.at(3).usage.cached_tokens, 0U);
}

// The same arrivals give the same steps.
TEST(ARunCanBeRepeated) {
  std::vector<double> ends;
  for (int round = 0; round < 2; ++round) {
    Bench bench({.cells = 512});
    std::mt19937 random(5);
    for (GenerationId id = 0; id < 20; ++id) {
      bench.Add(RandomWant(id, random, 100));
      (void)bench.Step();
    }
    bench.RunToTheEnd();
    ends.push_back(bench.now_ms());
  }
  EXPECT_EQ(ends[0], ends[1]);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
