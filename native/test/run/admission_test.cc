// Which generations are in the cache, what they find there, and who makes way.
#include "engine/run/admission.h"

#include <set>

#include "loop_parts.h"
#include "test.h"
#include "virtual_bench.h"

namespace svc {
namespace {

using namespace test;

TEST(AsManyEnterAsThereAreSequences) {
  LoopParts parts({.max_sequences = 2});
  Generation& first = parts.Add({.id = 1, .prompt = Prompt(1, 20)});
  Generation& second = parts.Add({.id = 2, .prompt = Prompt(2, 10)});
  Generation& third = parts.Add({.id = 3, .prompt = Prompt(3, 30)});
  parts.admission.Admit();
  // The shortest first, and none of what waits.
  EXPECT(parts.admission.InOrder(true) == std::vector<Generation*>({&second, &first}));
  EXPECT(parts.admission.InOrder(false) == std::vector<Generation*>({&third}));
  parts.admission.Leave(first, /*keep_prefix=*/false);
  first.ended = true;
  parts.admission.Admit();
  EXPECT(third.in_cache() && !first.in_cache());
}

TEST(CellsOfAPromptArePromisedToIt) {
  LoopParts parts({.cells = 64, .max_rows = 64});
  Generation& first = parts.Add({.id = 1, .prompt = Prompt(1, 30)});
  parts.admission.Admit();
  // Both prompts together would fit, but then neither could grow.
  Generation& second = parts.Add({.id = 2, .prompt = Prompt(2, 31)});
  parts.admission.Admit();
  EXPECT(first.in_cache() && !second.in_cache());
  EXPECT_EQ(parts.admission.FreeCells(), 64U);
  parts.Compute(first, 30);
  EXPECT_EQ(parts.admission.FreeCells(), 34U);
  EngineStats stats;
  parts.admission.AddTo(&stats);
  EXPECT_EQ(stats.kv_cells_used, 30U);
  EXPECT_EQ(stats.kv_cells_total, 64U);
}

TEST(TheOnlyOneIsNeverPreempted) {
  LoopParts parts;
  Generation& senior = parts.Add({.id = 1, .prompt = Prompt(1, 20)});
  parts.Pass(5);
  Generation& junior = parts.Add({.id = 2, .prompt = Prompt(2, 20)});
  parts.admission.Admit();
  parts.Compute(senior, 20);
  parts.Compute(junior, 20);
  junior.drafting.doubt = {.rows = 3, .lead = 0.1F};
  EXPECT(parts.admission.PreemptOne());
  EXPECT(senior.in_cache() && !junior.in_cache());
  // Its next row may be another one.
  EXPECT(!junior.drafting.doubt);
  EXPECT_EQ(parts.counts.preemptions, 1U);
  EXPECT(!parts.admission.PreemptOne());
  EXPECT(senior.in_cache());
  // What the junior had computed is found again, all but the token that gives the logits.
  parts.admission.Admit();
  EXPECT_EQ(junior.computed, 19U);
}

TEST(PrefixesMakeWayForRows) {
  LoopParts parts({.cells = 64, .max_rows = 64});
  Generation& first = parts.Add({.id = 1, .prompt = Prompt(1, 40)});
  parts.admission.Admit();
  parts.Compute(first, 40);
  parts.admission.Leave(first, /*keep_prefix=*/true);
  first.ended = true;
  EXPECT_EQ(parts.admission.FreeCells(), 24U);
  EXPECT_EQ(parts.admission.AvailableCells(), 64U);
  EXPECT(parts.admission.FreeCellsFor(30));
  EXPECT(parts.admission.FreeCells() >= 30);
  EXPECT(!parts.admission.FreeCellsFor(65));
  EXPECT(!parts.admission.EvictAll());
}
TEST(AShortQuestionPassesDocumentsThatFillTheCache) {
  for (const std::size_t documents : {1U, 3U}) {
    VirtualBench bench({.cells = 2048, .max_rows = 512});
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
  VirtualBench bench({.cells = 2048, .max_rows = 64, .max_sequences = 1});
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
  VirtualBench bench({.cells = 4096, .max_rows = 512, .max_sequences = 8});
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
  VirtualBench bench;
  std::vector<Token> conversation = Prompt(1, 60);
  for (GenerationId turn = 1; turn < 6; ++turn) {
    const Want want = Steady(turn, conversation, 10);
    bench.Add(want);
    bench.RunToTheEnd();
    bench.ExpectAsAlone(turn);
    // All but the answer's last token, which nobody computed.
    if (turn > 1) EXPECT_EQ(bench.ends.at(turn).usage.cached_tokens, conversation.size() - 9);
    std::vector<Token> answer = conversation;
    FakeSampler sampler(want.seed);
    for (int i = 0; i < 10; ++i) {
      std::vector<float> logits(kFakeVocabulary);
      LogitsOf(HashOf(answer), logits.data());
      answer.push_back(sampler.Sample(logits.data()));
    }
    conversation = answer;
    conversation.insert(conversation.end(), 8, static_cast<Token>(turn));
  }
}

// It computes its own prompt, and what it has computed is found by others only when it has ended.
TEST(WhoWantsItsOwnPromptTakesAndGivesNothing) {
  VirtualBench bench({.cells = 2048, .max_rows = 64});
  bench.Add(Steady(1, Prompt(1, 200), 4));
  bench.RunToTheEnd();
  Want own = Steady(2, Prompt(1, 200), 4);
  own.reuse_prefix = false;
  bench.Add(own);
  (void)bench.Step();
  // It is alone, and begins with an empty cache.
  EXPECT_EQ(bench.record.cells.load(), 64U);
  EXPECT_EQ(bench.loop->stats().kv_cells_cached, 0U);
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

// Requests with seeds: one computes the prompt as if it were alone, and requests outside
// the group do not find it.
TEST(AGroupTakesItsPromptFromItsOwn) {
  VirtualBench bench({.cells = 4096, .max_rows = 64});
  bench.Add(Steady(1, Prompt(1, 200), 4));
  bench.RunToTheEnd();
  const auto member = [](GenerationId id, ShareId group) {
    Want want = Steady(id, Prompt(1, 200), 4);
    want.in_group = true;
    want.scope.salt = group;
    return want;
  };
  for (const GenerationId id : {2U, 3U, 4U}) bench.Add(member(id, 7));
  (void)bench.Step();
  EXPECT_EQ(bench.record.cells.load(), 64U);
  EXPECT_EQ(bench.loop->stats().kv_cells_cached, 0U);
  bench.RunToTheEnd();
  std::multiset<std::uint32_t> cached;
  for (const GenerationId id : {2U, 3U, 4U}) {
    bench.ExpectAsAlone(id);
    cached.insert(bench.ends.at(id).usage.cached_tokens);
  }
  // For the prompt's last tokens they do not wait.
  EXPECT(cached == std::multiset<std::uint32_t>({0, 192, 192}));
  bench.Add(member(5, 8));
  bench.RunToTheEnd();
  EXPECT_EQ(bench.ends.at(5).usage.cached_tokens, 0U);
}

// Idle cells make every step dearer, so few are kept when somebody comes; the rest is swapped out,
// and found there.
TEST(IdlePrefixesMakeWayAndComeBack) {
  VirtualBench bench({.cells = 4096, .max_rows = 64, .idle_cells = 100});
  for (GenerationId id = 0; id < 10; ++id) {
    bench.Add(Steady(id, Prompt(static_cast<Token>(id * 5 + 1), 150), 5));
    (void)bench.Step();
    EXPECT(bench.loop->stats().kv_cells_cached <= 100);
    bench.RunToTheEnd();
  }
  const EngineStats stats = bench.loop->stats();
  EXPECT(stats.kv_tokens_swapped >= 900 && stats.kv_tokens_swapped <= stats.evicted_cells);
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
    VirtualBench bench({.cells = 4096, .max_rows = 64});
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
  VirtualBench bench({.cells = 2048, .sequence_ids = 8, .can_share = false});
  for (GenerationId id = 0; id < 6; ++id) bench.Add(Steady(id, Prompt(1, 100), 5));
  bench.RunToTheEnd();
  for (GenerationId id = 0; id < 6; ++id) bench.ExpectAsAlone(id);
  EXPECT_EQ(bench.loop->stats().prompt_tokens, 600U);
  EXPECT_EQ(bench.loop->stats().cached_tokens, 0U);
  EXPECT_EQ(bench.record.cells.load(), 0U);
}

TEST(CachedPrefixesMakeWayForGenerations) {
  VirtualBench bench({.cells = 256, .max_rows = 64});
  for (GenerationId id = 0; id < 30; ++id) {
    bench.Add(Steady(id, Prompt(static_cast<Token>(id * 5 + 1), 100), 5));
    bench.RunToTheEnd();
    bench.ExpectAsAlone(id);
  }
  EXPECT_EQ(bench.loop->stats().preemptions, 0U);
  EXPECT(bench.loop->stats().evicted_cells > 1000);
}

TEST(ThePreemptedOneIsTheMostJunior) {
  VirtualBench bench({.cells = 128, .max_rows = 64});
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

// What it waits for is in memory, and of use in a cache of any size.
TEST(AGrowingCacheLetsOthersWaitForTheDisk) {
  LoopParts parts({.cells = 256});
  Generation& waiting = parts.Add({.id = 1, .prompt = Prompt(1, 20)});
  waiting.fetching = true;
  parts.admission.SwapOutAll();
  EXPECT(waiting.fetching);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
