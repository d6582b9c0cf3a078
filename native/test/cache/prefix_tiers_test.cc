// The memory and disk tiers of the prefix cache, with a runner over the fake model: a second engine
// continues where the first ended, and every text is unchanged.
#include "engine/cache/prefix_tiers.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "bench.h"
#include "prefix_folder.h"
#include "test.h"

namespace svc {
namespace {

using test::Bench;
using test::Eventually;
using test::Folder;
using test::On;
using test::Open;
using test::RandomText;
using test::RandomWant;
using test::Want;

// Returns the prompt and the generated tokens except the last.
std::vector<Token> Said(const Want& want) {
  std::vector<Token> tokens = want.prompt;
  test::FakeSampler sampler(want.seed);
  const std::uint32_t count = Alone(want, 1U << 20U).output_tokens;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::vector<float> logits(test::kFakeVocabulary);
    test::LogitsOf(test::HashOf(tokens), logits.data());
    tokens.push_back(sampler.Sample(logits.data()));
  }
  tokens.pop_back();
  return tokens;
}

Want FirstTurn(GenerationId id, std::size_t length = 300) {
  return {.id = id, .prompt = RandomText(id, length), .max_tokens = 10, .seed = id};
}
// Continues the conversation of `first` with 20 more tokens.
Want SecondTurn(const Want& first) {
  Want want{.id = first.id + 100, .prompt = Said(first), .max_tokens = 5, .seed = first.id + 9};
  const std::vector<Token> more = RandomText(first.id + 7, 20);
  want.prompt.insert(want.prompt.end(), more.begin(), more.end());
  return want;
}

std::uint32_t Run(Bench& bench, const Want& want) {
  EXPECT(bench.Submit(want).ok());
  EXPECT(bench.WaitFor(want.id));
  bench.ExpectAsAlone(want);
  return bench.End(want.id).usage.cached_tokens;
}

// Returns the first turn of a conversation whose prefix another engine has saved in the folder.
Want SavedFirstTurn(const Folder& folder, std::uint32_t cells = 4096) {
  const Want first = FirstTurn(1);
  Bench bench({.cells = cells}, On(folder));
  Run(bench, first);
  return first;
}

bool HasFinishedFile(const Folder& folder) {
  const auto files = folder.Files();
  return std::ranges::any_of(files, [](const auto& path) { return !IsUnfinishedPrefixFile(path); });
}

TEST(ConversationsGoOnAfterARestart) {
  for (const bool can_share : {true, false}) {
    const Folder folder;
    const test::FakeOptions options{.cells = 8192, .max_sequences = 4, .can_share = can_share};
    {
      Bench bench(options, On(folder, can_share));
      for (GenerationId id = 1; id <= 10; ++id) EXPECT_EQ(Run(bench, FirstTurn(id)), 0U);
      bench.runner.Close();
    }
    Bench bench(options, On(folder, can_share));
    for (GenerationId id = 1; id <= 10; ++id) {
      const Want second = SecondTurn(FirstTurn(id));
      EXPECT_EQ(Run(bench, second), second.prompt.size() - 20);
    }
    EXPECT_EQ(bench.record.states_loaded.load(), 10U);
    bench.ExpectNothingHeld();
  }
}

TEST(WhatIsIdleIsSavedWithoutBeingAsked) {
  const Folder folder;
  Bench bench({.cells = 4096}, On(folder));
  Want first = FirstTurn(1);
  Run(bench, first);
  EXPECT(Eventually([&] { return folder.Files().size() == 1; }));
  // Close has nothing left to save, so a crash would lose nothing.
  const std::uint32_t saved = bench.record.states_saved;
  bench.runner.Close();
  EXPECT_EQ(bench.record.states_saved.load(), saved);
  EXPECT(Open(folder)->Match(0, Said(first), 0) == Said(first).size());
}

TEST(ATurnAddsWhatItAdds) {
  const Folder folder;
  const Want first = FirstTurn(1);
  Want second = SecondTurn(first);
  const std::vector<Token> more = RandomText(55, 80);
  second.prompt.insert(second.prompt.end(), more.begin(), more.end());
  {
    Bench bench({.cells = 4096}, On(folder));
    Run(bench, first);
    EXPECT(Eventually([&] { return folder.Files().size() == 1; }));
    Run(bench, second);
    bench.runner.Close();
  }
  REQUIRE(folder.Files().size() == 2);
  // The second piece holds no cell of the first.
  std::vector<std::uintmax_t> sizes;
  for (const auto& file : folder.Files()) sizes.push_back(std::filesystem::file_size(file));
  std::sort(sizes.begin(), sizes.end());
  const std::size_t added = Said(second).size() - Said(first).size();
  EXPECT_EQ(sizes.front(), 88 + 4 * Said(second).size() + 8 * added);

  Bench bench({.cells = 4096}, On(folder));
  Want third{.id = 3, .prompt = Said(second), .max_tokens = 5, .seed = 4};
  third.prompt.push_back(5);
  EXPECT_EQ(Run(bench, third), Said(second).size());
}

TEST(APrivateRequestIsNotSaved) {
  const Folder folder;
  Bench bench({.cells = 4096}, On(folder));
  Want want = FirstTurn(1);
  want.reuse_prefix = false;
  Run(bench, want);
  bench.runner.Close();
  EXPECT_EQ(folder.Files().size(), 0U);
  EXPECT_EQ(bench.record.states_saved.load(), 0U);
}

TEST(WhatIsNotToBeStoredIsNotSaved) {
  for (const bool can_share : {true, false}) {
    const Folder folder;
    const test::FakeOptions options{.cells = 4096, .max_rows = 128, .can_share = can_share};
    Bench bench(options, On(folder, can_share));
    Want want = FirstTurn(1);
    want.store = false;
    Run(bench, want);
    // The memory tiers still cache it.
    Want second = SecondTurn(want);
    second.store = false;
    EXPECT_EQ(Run(bench, second), second.prompt.size() - 20);
    bench.runner.Close();
    EXPECT_EQ(folder.Files().size(), 0U);
  }
}

// Under one salt a share reuses prefixes of other shares, but only its own count as cached tokens.
TEST(CachedTokensAreThoseOfTheSameShare) {
  for (const bool can_share : {true, false}) {
    const Folder folder;
    const test::FakeOptions options{.cells = 8192, .max_rows = 128, .can_share = can_share};
    const Want first = FirstTurn(1);
    {
      Bench bench(options, On(folder, can_share));
      Want alice = first;
      alice.scope.owner = 1;
      EXPECT_EQ(Run(bench, alice), 0U);
      Want bob = SecondTurn(first);
      bob.scope.owner = 2;
      EXPECT_EQ(Run(bench, bob), 0U);
      EXPECT(bench.runner.stats().cached_tokens > 300);  // reused, though not reported
      bob.id = 3;                                        // now his own prefix
      EXPECT(Run(bench, bob) >= (can_share ? 300U : 192U));
      alice = SecondTurn(first);
      alice.id = 4;
      alice.scope.owner = 1;
      const std::uint32_t cached = Run(bench, alice);
      EXPECT_EQ(cached, Said(first).size());
    }
    Bench bench(options, On(folder, can_share));
    Want carol = SecondTurn(first);
    carol.scope.owner = 3;
    EXPECT_EQ(Run(bench, carol), 0U);
    EXPECT(bench.record.states_loaded > 0);
  }
}

TEST(NothingIsReusedAcrossSalts) {
  for (const bool can_share : {true, false}) {
    const Folder folder;
    const test::FakeOptions options{.cells = 8192, .max_rows = 128, .can_share = can_share};
    const Want first = FirstTurn(1);
    Want alice = first;
    alice.scope = {.salt = 1, .owner = 1};
    Want bob = SecondTurn(first);
    bob.scope = {.salt = 2, .owner = 2};
    {
      Bench bench(options, On(folder, can_share));
      Run(bench, alice);
      EXPECT_EQ(Run(bench, bob), 0U);
      EXPECT_EQ(bench.runner.stats().cached_tokens, 0U);
      bench.runner.Close();
    }
    {
      Bench bench(options, On(folder, can_share));
      Want other = FirstTurn(1);
      other.scope = {.salt = 3, .owner = 3};
      Run(bench, other);
      EXPECT_EQ(bench.record.states_loaded.load(), 0U);
      alice = SecondTurn(first);
      alice.scope = {.salt = 1, .owner = 1};
      EXPECT_EQ(Run(bench, alice), Said(first).size());
      bench.runner.Close();
    }
    // Simultaneous requests: none follows a leader of another salt.
    Bench bench(options);
    std::vector<Want> wants;
    for (GenerationId id = 1; id <= 6; ++id) {
      Want want = first;
      want.id = id;
      want.scope = {.salt = id, .owner = id};
      EXPECT(bench.Submit(want).ok());
      wants.push_back(want);
    }
    for (const Want& want : wants) {
      EXPECT(bench.WaitFor(want.id));
      bench.ExpectAsAlone(want);
    }
    EXPECT_EQ(bench.runner.stats().cached_tokens, 0U);
  }
}

TEST(ARequestThatReusesNothingReadsNothing) {
  const Folder folder;
  const Want first = SavedFirstTurn(folder);
  Bench bench({.cells = 4096}, On(folder));
  Want second = SecondTurn(first);
  second.reuse_prefix = false;
  EXPECT_EQ(Run(bench, second), 0U);
  EXPECT_EQ(bench.record.states_loaded.load(), 0U);
}

TEST(DamagedFilesAreComputed) {
  const Folder folder;
  const Want first = SavedFirstTurn(folder);
  REQUIRE(folder.Files().size() == 1);
  {
    std::fstream file(folder.Files().front(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-5, std::ios::end);
    file.put('!');
  }
  Bench bench({.cells = 4096}, On(folder));
  EXPECT_EQ(Run(bench, SecondTurn(first)), 0U);
  EXPECT_EQ(bench.record.states_loaded.load(), 0U);
}

TEST(AFetchMakesRoomAndGivesUpWhereThereIsNone) {
  const Folder folder;
  const Want first = SavedFirstTurn(folder, 1024);
  {
    // The cache is full of unused prefixes.
    Bench bench({.cells = 400}, On(folder));
    Run(bench, FirstTurn(2, 350));
    EXPECT(Run(bench, SecondTurn(first)) > 300);
    bench.ExpectNothingHeld();
  }
  {
    // The cache is full of cells that another generation keeps using.
    test::Gate gate;
    Bench bench({.cells = 600, .fault = gate.AtStep(8)}, On(folder));
    Want other{.id = 2, .prompt = RandomText(2, 350), .max_tokens = 40, .seed = 3};
    EXPECT(bench.Submit(other).ok());
    gate.WaitUntilReached();
    const Want second = SecondTurn(first);
    EXPECT(bench.Submit(second).ok());
    gate.Open();
    EXPECT(bench.WaitFor(other.id) && bench.WaitFor(second.id));
    bench.ExpectAsAlone(other);
    bench.ExpectAsAlone(second);
    bench.ExpectNothingHeld();
  }
}

TEST(AConversationGoesOnWhereNothingCanBeCut) {
  Bench bench({.cells = 4096, .max_rows = 128, .can_share = false});
  const Want first = FirstTurn(1);
  EXPECT_EQ(Run(bench, first), 0U);
  EXPECT_EQ(Run(bench, SecondTurn(first)), Said(first).size());
  // The same prompt again starts from the checkpoint one tile before its end.
  Want again = first;
  again.id = 3;
  EXPECT_EQ(Run(bench, again), (300U - 64) / 64 * 64);
  // A common beginning is found by the third prompt: the second one is cut there.
  for (GenerationId id = 10; id < 13; ++id) {
    Want want = FirstTurn(id);
    std::copy_n(first.prompt.begin(), 150, want.prompt.begin());
    EXPECT_EQ(Run(bench, want), id == 10 ? 0U : 128U);
  }
  bench.ExpectNothingHeld();
}

// 20,000 tokens: the following turns compute below 2 % of them again, also after a restart, even if
// only one such state fits.
TEST(ALongConversationGoesOnWhereNothingCanBeCut) {
  constexpr std::uint64_t kStateBytes = std::uint64_t{8} * 24576;  // of a full cache
  const Want first = FirstTurn(1, 20000);
  const Want second = SecondTurn(first);
  const Want third = SecondTurn(second);
  test::FakeOptions options{.cells = 24576, .max_rows = 512, .can_share = false};
  for (const std::uint64_t bytes : {kStateBytes, 2 * kStateBytes, 64 * kStateBytes}) {
    const Folder folder;
    options.max_state_bytes = bytes;
    {
      Bench bench(options, On(folder, /*divisible=*/false));
      Run(bench, first);
      EXPECT(Eventually([&] { return !folder.Files().empty(); }));
      const std::uint64_t computed = bench.runner.stats().prompt_tokens;
      EXPECT_EQ(Run(bench, second), Said(first).size());
      EXPECT(bench.runner.stats().prompt_tokens - computed < second.prompt.size() / 50);
      bench.ExpectNothingHeld();
      bench.runner.Close();
    }
    Bench restarted(options, On(folder, /*divisible=*/false));
    // The end of a turn may add too little to be worth a file of its own.
    EXPECT(Run(restarted, third) > first.prompt.size() - 128);
    EXPECT(restarted.runner.stats().prompt_tokens < third.prompt.size() / 50);
    restarted.ExpectNothingHeld();
  }
}

// A state of 0.66 GB, as large as that of Gemma 3 12B after 5,000 tokens, on its whole way: copied,
// loaded from memory, written, and read by the next engine. With a sanitizer a hundredth of it.
TEST(AStateOfHundredsOfMegabytesGoesOnAsWell) {
  constexpr std::uint64_t kTokenBytes = test::kSanitized ? 320 : 32768;
  constexpr std::uint32_t kTokens = 20000;
  const Folder folder;
  const test::FakeOptions options{.cells = 24576,
                                  .max_rows = 512,
                                  .can_share = false,
                                  .max_state_bytes = kTokenBytes * kTokens * 5 / 2,
                                  .token_bytes = kTokenBytes};
  const Want first = FirstTurn(1, kTokens);
  const Want second = SecondTurn(first);
  {
    Bench bench(options, On(folder, /*divisible=*/false));
    Run(bench, first);
    EXPECT_EQ(Run(bench, second), Said(first).size());
    // A closing engine saves for a limited time.
    EXPECT(Eventually([&] { return HasFinishedFile(folder); }));
    bench.runner.Close();
  }
  REQUIRE(HasFinishedFile(folder));
  EXPECT(std::filesystem::file_size(folder.Files().front()) > kTokenBytes * (kTokens - 128));
  Bench restarted(options, On(folder, /*divisible=*/false));
  Want again = second;
  again.id = 500;
  EXPECT(Run(restarted, again) > kTokens - 128);
  EXPECT(restarted.runner.stats().prompt_tokens < kTokens / 50);
  restarted.ExpectNothingHeld();
}

// Each file of such a conversation holds all of it.
TEST(AShortAnswerDoesNotWriteALongStateAgain) {
  const Folder folder;
  const test::FakeOptions options{.cells = 24576, .max_rows = 512, .can_share = false};
  Bench bench(options, On(folder, /*divisible=*/false));
  const Want first = FirstTurn(1, 20000);
  Run(bench, first);
  EXPECT(Eventually([&] { return folder.Files().size() == 1; }));
  Want second = SecondTurn(first);
  const std::vector<Token> more = RandomText(55, 300);
  second.prompt.insert(second.prompt.end(), more.begin(), more.end());
  Run(bench, second);
  EXPECT(Eventually([&] { return folder.Files().size() == 2; }));
  bench.runner.Close();
  EXPECT_EQ(folder.Files().size(), 2U);
}

TEST(AStateThatNeverFitsIsNotCopied) {
  const Folder folder;
  const Want first = FirstTurn(1, 3000);
  {
    Bench bench({.cells = 4096, .can_share = false}, On(folder, /*divisible=*/false));
    Run(bench, first);
    EXPECT(Eventually([&] { return !folder.Files().empty(); }));
  }
  // Nor is it read from the disk.
  Bench bench({.cells = 4096, .can_share = false, .max_state_bytes = 8 * 1000},
              On(folder, /*divisible=*/false));
  EXPECT_EQ(Run(bench, SecondTurn(first)), 0U);
  EXPECT_EQ(bench.record.states_saved.load() + bench.record.states_loaded.load(), 0U);
}

TEST(CancelledInTheMiddleNothingIsKept) {
  // The step is aborted; its partial state must not be kept.
  test::Gate gate;
  auto wait = gate.AtStep(3);
  Bench bench({.cells = 4096,
               .can_share = false,
               .fault = [&](std::span<const Row> rows, const std::atomic<bool>& abort) {
                 (void)wait(rows, abort);
                 return abort ? DecodeOutcome::kAborted : DecodeOutcome::kDone;
               }});
  const Want first = FirstTurn(1);
  EXPECT(bench.Submit(first).ok());
  gate.WaitUntilReached();
  const std::uint32_t saved = bench.record.states_saved;
  bench.runner.Cancel(first.id);
  gate.Open();
  EXPECT(bench.WaitFor(first.id));
  EXPECT_EQ(bench.record.states_saved.load(), saved);
  Want again = first;
  again.id = 2;
  Run(bench, again);
  bench.ExpectNothingHeld();
}

TEST(ManyAtOnceOverAFullDisk) {
  for (const bool can_share : {true, false}) {
    const Folder folder;
    std::mt19937 random(7);
    std::vector<std::vector<Token>> beginnings;
    for (std::uint64_t i = 0; i < 4; ++i) beginnings.push_back(RandomText(i, 150 + 40 * i));
    for (int life = 0; life < 4; ++life) {
      Bench bench({.cells = 1500, .max_sequences = 4, .can_share = can_share},
                  On(folder, can_share));
      std::vector<Want> wants;
      for (GenerationId id = 1; id <= 30; ++id) {
        Want want = RandomWant(id, random, 120);
        const std::vector<Token>& beginning = beginnings[random() % beginnings.size()];
        want.prompt.insert(want.prompt.begin(), beginning.begin(), beginning.end());
        want.reuse_prefix = random() % 5 != 0;
        wants.push_back(want);
        EXPECT(bench.Submit(want).ok());
        if (random() % 4 == 0) bench.runner.Cancel(1 + random() % id);
      }
      for (const Want& want : wants) {
        REQUIRE(bench.WaitFor(want.id));
        if (bench.End(want.id).reason != FinishReason::kCancelled) bench.ExpectAsAlone(want);
      }
      bench.ExpectNothingHeld();
    }
    EXPECT(!folder.Files().empty());
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
