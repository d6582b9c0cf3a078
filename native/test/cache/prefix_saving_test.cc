// When and in which pieces the tiers of the prefix cache save texts to disk, without a runner.
#include <algorithm>
#include <filesystem>

#include "cache_bench.h"
#include "engine/cache/prefix_tiers.h"
#include "prefix_folder.h"
#include "test.h"

namespace svc {
namespace {

using test::Eventually;
using test::Folder;
using test::RandomText;
using test::Tokens;
using test::operator+;

constexpr SequenceId kSaving = 1;
constexpr std::uint32_t kPieceTokens = 100;
constexpr std::uint64_t kPieceBytes = kPieceTokens * 8;  // of the fake model

struct Bench {
  explicit Bench(test::FakeOptions options, std::uint64_t max_bytes = test::kAmpleBytes)
      : cache(options, options.cells),
        tiers(&cache.decoder, &cache.cache, test::Open(folder, /*divisible=*/true, max_bytes),
              kPieceBytes) {}

  // As if a generation ended with this text.
  void Say(const Tokens& text, bool on_disk = true) {
    cache.Run(text);
    tiers.Keep({}, text, /*sequence=*/0, on_disk);
  }
  void SaveAll() {
    while (IsWritten() && tiers.WantsToSave()) tiers.SaveOne(kSaving, /*busy_cells=*/0);
  }
  bool IsWritten() const {
    const bool is_written = Eventually([&] { return !tiers.store()->writing(); });
    EXPECT(is_written);
    return is_written;
  }
  std::uint32_t Stored(const Tokens& text) const { return tiers.store()->Match(0, text, 0); }
  std::uint64_t LargestFile() const {
    std::uint64_t largest = 0;
    for (const auto& file : folder.Files()) {
      largest = std::max<std::uint64_t>(largest, std::filesystem::file_size(file));
    }
    return largest;
  }

  const Folder folder;
  test::CacheBench cache;
  PrefixTiers tiers;
};

TEST(ATextWaitsForAnIdleTimeWhileItsCellsAreSafe) {
  Bench bench({.cells = 4096});
  EXPECT(!bench.tiers.MayLoseUnsaved());
  // A conversation that goes on is one text, however long it gets.
  const Tokens talk = RandomText(1, 1000);
  for (std::size_t end = 100; end <= talk.size(); end += 100) {
    bench.Say(Tokens(talk.begin(), talk.begin() + end));
  }
  EXPECT(!bench.tiers.MayLoseUnsaved());
  bench.Say(RandomText(2, 2000));
  EXPECT(!bench.tiers.MayLoseUnsaved());
  // Half of the cells; also a text that is not saved takes some.
  bench.Say(RandomText(3, 100), /*on_disk=*/false);
  EXPECT(bench.tiers.MayLoseUnsaved());
}

// Two agents that take turns: what a turn repeats takes no cells anew.
TEST(WhatATurnRepeatsDoesNotPressToSave) {
  Bench bench({.cells = 4096});
  Tokens one = RandomText(1, 900);
  Tokens other = RandomText(2, 900);
  for (std::uint32_t turn = 0; turn < 10; ++turn) {
    bench.Say(one);
    bench.Say(other);
    EXPECT(!bench.tiers.MayLoseUnsaved());
    one = one + RandomText(10 + turn, 30);
    other = other + RandomText(100 + turn, 30);
  }
}

TEST(ManyTextsDoNotWaitForAnIdleTime) {
  Bench bench({.cells = 65536, .sequence_ids = 64});
  for (std::uint32_t seed = 0; seed < 32; ++seed) {
    bench.Say(RandomText(seed, 300));
    EXPECT(!bench.tiers.MayLoseUnsaved());
  }
  bench.Say(RandomText(100, 300));
  EXPECT(bench.tiers.MayLoseUnsaved());
}

TEST(ALongTextIsSavedInPieces) {
  Bench bench({.cells = 1024});
  const Tokens text = RandomText(1, 450);
  bench.Say(text);
  bench.SaveAll();
  EXPECT_EQ(bench.folder.Files().size(), 5U);
  EXPECT(bench.LargestFile() <= 88 + 4 * text.size() + kPieceBytes);
  EXPECT_EQ(bench.Stored(text), 450U);
  EXPECT_EQ(bench.cache.record.cells.load(), 450U);
  // Another text with the same beginning adds what it adds.
  const Tokens other = Tokens(text.begin(), text.begin() + 320) + RandomText(2, 50);
  bench.Say(other);
  bench.SaveAll();
  EXPECT_EQ(bench.folder.Files().size(), 6U);
  EXPECT_EQ(bench.Stored(other), 370U);
  EXPECT_EQ(bench.Stored(text), 450U);
}

// The store wants at least 64 tokens in the first file of a text (prefix_store.h).
TEST(NoFileIsShorterThanTheStoreWants) {
  const auto first_file = [](Bench& bench, const Tokens& text) {
    bench.tiers.SaveOne(kSaving, /*busy_cells=*/0);
    EXPECT(bench.IsWritten());
    return bench.Stored(text);
  };
  {
    // A beginning that two texts share stays in cells, and the rest of the older is swapped out.
    Bench bench({.cells = 1024});
    const Tokens beginning = RandomText(1, 26);
    const Tokens one = beginning + RandomText(2, 300);
    bench.Say(one);
    bench.Say(beginning + RandomText(3, 200));
    EXPECT_EQ(bench.cache.cache.Evict(200), 300U);
    EXPECT_EQ(first_file(bench, one), kPieceTokens);
  }
  // A picture that is larger than a piece.
  Bench bench({.cells = 1024});
  const Tokens text = RandomText(1, 5) + test::Picture(1, 130) + RandomText(2, 60);
  bench.Say(text);
  EXPECT_EQ(first_file(bench, text), 135U);
}

// Steps may come between the pieces, and evict the text.
TEST(ATextMayBeSwappedOutOrGoBetweenTwoPieces) {
  for (const bool swaps : {true, false}) {
    Bench bench({.cells = 1024});
    if (!swaps) bench.cache.cache.SetMaxCopied(0);
    const Tokens text = RandomText(1, 450);
    bench.Say(text);
    bench.tiers.SaveOne(kSaving, /*busy_cells=*/0);
    EXPECT(Eventually([&] { return bench.Stored(text) == kPieceTokens; }));
    bench.cache.cache.Evict(1024);
    bench.SaveAll();
    EXPECT_EQ(bench.Stored(text), swaps ? 450U : kPieceTokens);
    EXPECT(!bench.tiers.WantsToSave());
  }
}

// Swapped in again it would take cells, and would have to be swapped out for the next request.
TEST(WhatIsSwappedOutIsSavedAsItIs) {
  Bench bench({.cells = 4096});
  const Tokens text = RandomText(1, 1300);
  bench.Say(text);
  bench.cache.cache.Evict(4096);
  const std::uint32_t copies = bench.cache.record.states_saved;
  bench.SaveAll();
  EXPECT_EQ(bench.cache.record.states_saved.load(), copies);
  EXPECT_EQ(bench.cache.record.states_loaded.load(), 0U);
  EXPECT_EQ(bench.cache.record.cells.load(), 0U);
  EXPECT_EQ(bench.folder.Files().size(), copies);

  // The fake model checks the states that it loads.
  test::CacheBench other({.cells = 4096}, 4096);
  PrefixTiers tiers(&other.decoder, &other.cache, test::Open(bench.folder));
  REQUIRE(tiers.Fetch(1, {}, text));
  std::vector<GenerationId> ready;
  EXPECT(Eventually([&] {
    if (ready.empty()) ready = tiers.TakeFetched(kSaving, /*busy_cells=*/0);
    return !ready.empty();
  }));
  EXPECT_EQ(other.Run(text), 1300U);
}

// A copy that two texts share the beginning of has tokens that one of them lacks.
TEST(ACopyOfOtherTokensIsNotSavedAsItIs) {
  Bench bench({.cells = 4096});
  const Tokens one = RandomText(1, 400);
  bench.Say(one);
  bench.cache.cache.Evict(4096);
  const Tokens other = Tokens(one.begin(), one.begin() + 150) + RandomText(2, 100);
  bench.Say(other);
  bench.cache.cache.Evict(4096);
  bench.SaveAll();
  EXPECT_EQ(bench.Stored(one), one.size());
  EXPECT_EQ(bench.Stored(other), other.size());
}

TEST(WhatTheDiskRefusesIsNotCopiedAgain) {
  Bench bench({.cells = 1024}, /*max_bytes=*/1000);
  bench.Say(RandomText(1, 450));
  bench.SaveAll();
  EXPECT_EQ(bench.cache.record.states_saved.load(), 1U);
  EXPECT_EQ(bench.folder.Files().size(), 0U);
}

// Saving each piece would evict the one before.
TEST(ATextThatIsLargerThanTheDiskAllowsEnds) {
  Bench bench({.cells = 1024},
              /*max_bytes=*/kPieceBytes * 5);
  bench.Say(RandomText(1, 450));
  bench.SaveAll();
  EXPECT(bench.cache.record.states_saved <= 5U);
  EXPECT(bench.folder.Files().size() <= 2U);
}

// The rows of a picture have one position: the fake model reports a state that parts them.
TEST(APieceDoesNotPartAPicture) {
  for (const std::size_t rows : {20U, 130U}) {
    for (const std::size_t before : {0U, 40U, 90U, 100U}) {
      Bench bench({.cells = 1024});
      const Tokens text = RandomText(1, before) + test::Picture(1, rows) + RandomText(2, 60) +
                          test::Picture(2, rows);
      bench.Say(text);
      bench.SaveAll();
      EXPECT_EQ(bench.Stored(text), text.size());
      EXPECT(bench.folder.Files().size() > 1 || text.size() <= kPieceTokens);
    }
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
