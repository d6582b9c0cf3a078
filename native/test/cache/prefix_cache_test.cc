// The prefix cache on the fake model's cells, which count the sequences that hold them.
#include "engine/cache/prefix_cache.h"

#include <algorithm>
#include <map>
#include <random>

#include "cache_bench.h"
#include "test.h"

namespace svc {
namespace {

using test::Picture;
constexpr SequenceId kFirstId = test::CacheBench::kFirstId;
using test::Tokens;
using test::operator+;

constexpr PrefixScope kAll;

class Bench : public test::CacheBench {
 public:
  explicit Bench(std::uint32_t sequence_ids = 32, std::uint32_t cells = 4096,
                 std::uint32_t max_swapped = 0)
      : CacheBench({.cells = cells, .sequence_ids = sequence_ids}, max_swapped) {}
};

Tokens Sequence(Token first, std::size_t count) {
  Tokens tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<Token>((first + i * 3) % 64);
  return tokens;
}

TEST(WhatWasPublishedIsFound) {
  Bench bench;
  const Tokens prompt = Sequence(1, 100);
  EXPECT_EQ(bench.Run(prompt), 0U);
  EXPECT_EQ(bench.Run(prompt), 100U);
  EXPECT_EQ(bench.cache.Match(kAll, prompt + Sequence(9, 5)), 100U);
  EXPECT_EQ(bench.cache.Match(kAll, std::span(prompt).first(30)), 30U);
  EXPECT_EQ(bench.cache.Match(kAll, Sequence(2, 100)), 0U);
  EXPECT_EQ(bench.cache.cells(), 100U);
  EXPECT_EQ(bench.cache.evictable(), 100U);
  EXPECT_EQ(bench.record.cells.load(), 100U);
}

TEST(AShareIsToldOfWhatItSentAlone) {
  for (const std::uint32_t swapped : {0U, 4096U}) {
    Bench bench(32, 4096, swapped);
    constexpr PrefixScope kAlice{.owner = 1};
    constexpr PrefixScope kBob{.owner = 2};
    const Tokens prompt = Sequence(1, 100);
    const Tokens longer = prompt + Sequence(7, 50);
    bench.Run(prompt, 0, kAlice);
    EXPECT_EQ(bench.cache.Known(kAlice, longer), 100U);
    EXPECT_EQ(bench.cache.Known(kBob, longer), 0U);
    // Bob shares the beginning of Alice's node, which splits, and then extends its leaf.
    const Tokens short_one(prompt.begin(), prompt.begin() + 40);
    bench.Run(short_one, 0, kBob);
    EXPECT_EQ(bench.cache.Known(kBob, longer), 40U);
    bench.Run(longer, 0, kBob);
    EXPECT_EQ(bench.cache.Known(kBob, longer), 150U);
    EXPECT_EQ(bench.cache.Known(kAlice, longer), 100U);
    // Evict swaps the prefix out, or drops it where nothing may be swapped.
    bench.cache.Evict(4096);
    EXPECT_EQ(bench.cache.Known(kAlice, longer), swapped > 0 ? 100U : 0U);
    PrefixCache::Pin pin = bench.Take(longer, 0);
    EXPECT_EQ(bench.cache.Known(kAlice, longer), swapped > 0 ? 100U : 0U);
    EXPECT_EQ(bench.cache.Known(kBob, longer), swapped > 0 ? 150U : 0U);
    bench.Leave(0, pin);
  }
}

TEST(EachSaltHasATreeOfItsOwn) {
  Bench bench;
  const Tokens prompt = Sequence(1, 100);
  constexpr PrefixScope kOne{.salt = 1, .owner = 1};
  constexpr PrefixScope kTwo{.salt = 2, .owner = 2};
  EXPECT_EQ(bench.Run(prompt, 0, kOne), 0U);
  EXPECT_EQ(bench.Run(prompt, 0, kTwo), 0U);
  EXPECT_EQ(bench.Run(prompt), 0U);
  EXPECT_EQ(bench.Run(prompt, 0, kOne), 100U);
  EXPECT_EQ(bench.cache.Match({.salt = 3}, prompt), 0U);
  EXPECT_EQ(bench.cache.cells(), 300U);
  // The least recently used prefix is evicted first, across all salts.
  bench.cache.Evict(200);
  EXPECT_EQ(bench.cache.Match(kOne, prompt), 100U);
  EXPECT_EQ(bench.cache.Match(kTwo, prompt), 0U);
}

TEST(ASharedPrefixIsStoredOnce) {
  Bench bench;
  const Tokens system = Sequence(1, 200);
  EXPECT_EQ(bench.Run(system + Sequence(5, 20)), 0U);
  EXPECT_EQ(bench.Run(system + Sequence(6, 30)), 200U);
  EXPECT_EQ(bench.Run(system + Sequence(7, 40)), 200U);
  EXPECT_EQ(bench.cache.cells(), 200U + 20 + 30 + 40);
  EXPECT_EQ(bench.record.cells.load(), 290U);
  EXPECT_EQ(bench.Run(system + Sequence(6, 30)), 230U);
}

TEST(AConversationThatGrowsNeedsNoNewNode) {
  Bench bench(/*sequence_ids=*/kFirstId + 3);
  Tokens conversation = Sequence(1, 10);
  for (int turn = 0; turn < 20; ++turn) {
    EXPECT_EQ(bench.Run(conversation), turn == 0 ? 0U : conversation.size() - 7);
    conversation = conversation + Sequence(static_cast<Token>(turn), 7);
  }
  EXPECT_EQ(bench.cache.cells(), conversation.size() - 7);
}

// A leader publishes its prompt chunk by chunk; a follower can use each chunk.
TEST(AFollowerTakesPartInWhatItsLeaderHasPublished) {
  Bench bench;
  const Tokens prompt = Sequence(1, 100);
  PrefixCache::Pin leader = bench.cache.Take(kAll, prompt, 0);
  for (const std::size_t chunk : {16U, 32U, 100U}) {
    const Tokens part(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(chunk));
    bench.Compute(part, 0);
    bench.cache.Publish(kAll, part, 0, leader);
    EXPECT_EQ(bench.cache.Match(kAll, prompt), chunk);
  }
  EXPECT_EQ(bench.cache.evictable(), 0U);
  PrefixCache::Pin follower = bench.cache.Take(kAll, prompt, 1);
  EXPECT_EQ(follower.length, 100U);
  EXPECT_EQ(bench.decoder.NextPosition(1), 100);
  bench.Leave(0, leader);
  EXPECT_EQ(bench.cache.evictable(), 0U);
  bench.Leave(1, follower);
  EXPECT_EQ(bench.cache.evictable(), 100U);
  EXPECT_EQ(bench.record.cells.load(), 100U);
}

TEST(TwoThatComputedTheSameKeepOne) {
  Bench bench;
  const Tokens prompt = Sequence(1, 50);
  PrefixCache::Pin one = bench.cache.Take(kAll, prompt, 0);
  PrefixCache::Pin two = bench.cache.Take(kAll, prompt, 1);
  bench.Compute(prompt, 0);
  bench.Compute(prompt + Sequence(3, 10), 1);
  EXPECT_EQ(bench.record.cells.load(), 110U);
  bench.cache.Publish(kAll, prompt, 0, one);
  bench.cache.Publish(kAll, prompt + Sequence(3, 10), 1, two);
  EXPECT_EQ(bench.record.cells.load(), 60U);
  EXPECT_EQ(bench.decoder.NextPosition(1), 60);
  bench.Leave(0, one);
  bench.Leave(1, two);
  EXPECT_EQ(bench.cache.evictable(), 60U);
}

TEST(TheLeastRecentlyUsedLeafGoesFirstAndFromItsEnd) {
  Bench bench;
  const Tokens system = Sequence(1, 100);
  (void)bench.Run(system + Sequence(5, 200));
  (void)bench.Run(system + Sequence(6, 200));
  (void)bench.Run(system + Sequence(5, 200));
  bench.cache.Evict(100);
  EXPECT_EQ(bench.cache.Match(kAll, system + Sequence(6, 200)), 200U);
  EXPECT_EQ(bench.cache.Match(kAll, system + Sequence(5, 200)), 300U);
  bench.cache.Evict(100);
  EXPECT_EQ(bench.cache.Match(kAll, system + Sequence(6, 200)), 100U);
  bench.cache.Evict(250);
  EXPECT_EQ(bench.cache.Match(kAll, system + Sequence(5, 200)), 100U - 64);
  bench.cache.Evict(5000);
  EXPECT_EQ(bench.cache.cells(), 0U);
  EXPECT_EQ(bench.record.cells.load(), 0U);
  EXPECT_EQ(bench.cache.evicted(), 500U);
}

TEST(WhatIsPinnedStays) {
  Bench bench;
  (void)bench.Run(Sequence(1, 100));
  PrefixCache::Pin pin = bench.cache.Take(kAll, std::span<const Token>(Sequence(1, 60)), 3);
  bench.cache.Evict(1000);
  EXPECT_EQ(bench.cache.Match(kAll, Sequence(1, 100)), 60U);
  EXPECT_EQ(bench.record.cells.load(), 60U);
  bench.Leave(3, pin);
  bench.cache.Evict(1000);
  EXPECT_EQ(bench.cache.cells(), 0U);
}

TEST(WhatIsEvictedIsSwappedOutAndComesBack) {
  Bench bench(/*sequence_ids=*/32, /*cells=*/4096, /*max_swapped=*/4096);
  const Tokens prompt = Sequence(1, 1300);
  (void)bench.Run(prompt);
  bench.cache.Evict(4096);
  EXPECT_EQ(bench.record.cells.load(), 0U);
  EXPECT_EQ(bench.cache.swapped(), 1300U);
  EXPECT_EQ(bench.cache.Match(kAll, prompt), 1300U);
  EXPECT_EQ(bench.Run(prompt), 1300U);
  EXPECT_EQ(bench.cache.swapped(), 0U);
  EXPECT_EQ(bench.cache.cells(), 1300U);
  EXPECT_EQ(bench.record.cells.load(), 1300U);
}

TEST(WhatComesBackInPiecesIsOneNode) {
  // One id for Take, one for Publish, one for the text.
  Bench bench(/*sequence_ids=*/kFirstId + 3, /*cells=*/4096, /*max_swapped=*/4096);
  Tokens conversation = Sequence(1, 2000);
  for (int turn = 0; turn < 10; ++turn) {
    EXPECT_EQ(bench.Run(conversation), turn == 0 ? 0U : conversation.size() - 7);
    bench.cache.Evict(4096);
    conversation = conversation + Sequence(static_cast<Token>(turn), 7);
  }
}

TEST(OfWhatIsSwappedOutOnlyThePiecesThatAreWantedComeBack) {
  Bench bench(/*sequence_ids=*/32, /*cells=*/8192, /*max_swapped=*/8192);
  const Tokens system = Sequence(1, 700);
  (void)bench.Run(system + Sequence(5, 3000));
  bench.cache.Evict(8192);
  EXPECT_EQ(bench.Run(system + Sequence(6, 20)), 700U);
  EXPECT(bench.cache.swapped() >= 3000U - 2 * 512);
  EXPECT_EQ(bench.cache.Match(kAll, system + Sequence(5, 3000)), 3700U);
  EXPECT_EQ(bench.Run(system + Sequence(5, 3000)), 3700U);
}

TEST(WhatIsSwappedOutHasABound) {
  Bench bench(/*sequence_ids=*/32, /*cells=*/4096, /*max_swapped=*/500);
  for (Token first = 1; first <= 4; ++first) (void)bench.Run(Sequence(first, 200));
  bench.cache.Evict(4096);
  EXPECT_EQ(bench.cache.swapped(), 400U);
  EXPECT_EQ(bench.cache.Match(kAll, Sequence(2, 200)), 0U);
  EXPECT_EQ(bench.cache.Match(kAll, Sequence(3, 200)), 200U);
}

// As if the common beginning were too short to take: the sequence computes it in its own cells.
TEST(WhatIsComputedThoughItIsSwappedOutTakesItsPlace) {
  Bench bench(/*sequence_ids=*/32, /*cells=*/4096, /*max_swapped=*/4096);
  (void)bench.Run(Sequence(1, 5) + Sequence(5, 100));
  bench.cache.Evict(4096);
  const Tokens other = Sequence(1, 5) + Sequence(6, 100);
  PrefixCache::Pin pin = bench.cache.Take(kAll, {}, 0);
  bench.Compute(other, 0);
  bench.cache.Publish(kAll, other, 0, pin);
  bench.Leave(0, pin);
  EXPECT_EQ(bench.cache.cells(), 105U);
  EXPECT_EQ(bench.cache.swapped(), 100U);
  EXPECT_EQ(bench.cache.copied(), 105U);  // copies are kept whole
  EXPECT_EQ(bench.Run(Sequence(1, 5) + Sequence(5, 100)), 105U);
}

TEST(ADiscardedPrefixIsGoneAndWhatOthersUseStays) {
  Bench bench(/*sequence_ids=*/32, /*cells=*/4096, /*max_swapped=*/4096);
  const Tokens system = Sequence(1, 100);
  const Tokens broken = system + Sequence(5, 700);
  (void)bench.Run(system + Sequence(6, 50));
  (void)bench.Run(broken);
  bench.cache.Discard(kAll, broken);
  EXPECT_EQ(bench.cache.Match(kAll, broken), 100U);
  EXPECT_EQ(bench.cache.Match(kAll, system + Sequence(6, 50)), 150U);
  (void)bench.Run(broken);
  bench.cache.Evict(300);  // its end is swapped out
  bench.cache.Discard(kAll, broken);
  EXPECT_EQ(bench.cache.Match(kAll, broken), 100U);
  PrefixCache::Pin pin = bench.Take(system, 0);
  bench.cache.Discard(kAll, system + Sequence(6, 50));
  EXPECT_EQ(bench.cache.Match(kAll, system), 100U);
  bench.Leave(0, pin);
  EXPECT_EQ(bench.cache.copied(), 0U);
}

TEST(WithoutRoomWhatIsSwappedOutStays) {
  Bench bench(/*sequence_ids=*/32, /*cells=*/300, /*max_swapped=*/300);
  (void)bench.Run(Sequence(1, 200));
  bench.cache.Evict(300);
  PrefixCache::Pin pin = bench.Take(Sequence(2, 200), 0);
  bench.Compute(Sequence(2, 200), 0);
  EXPECT_EQ(bench.Take(Sequence(1, 200), 1).length, 0U);
  EXPECT_EQ(bench.cache.Match(kAll, Sequence(1, 200)), 200U);
  bench.Leave(0, pin);
  EXPECT_EQ(bench.Run(Sequence(1, 200)), 200U);
}

TEST(WithoutIdsNothingIsKept) {
  Bench bench(/*sequence_ids=*/kFirstId);
  EXPECT_EQ(bench.Run(Sequence(1, 100)), 0U);
  EXPECT_EQ(bench.Run(Sequence(1, 100)), 0U);
  EXPECT_EQ(bench.record.cells.load(), 0U);
}

// FakeDecoder expects of every operation that it parts no picture.
TEST(PicturesAreKeptAsAWhole) {
  Bench bench(32, 4096, 4096);
  const Tokens talk = Sequence(1, 20) + Picture(1, 700) + Sequence(2, 30);
  EXPECT_EQ(bench.Run(talk), 0U);
  EXPECT_EQ(bench.Run(talk), talk.size());
  EXPECT_EQ(bench.Run(Sequence(1, 20) + Picture(2, 50) + Sequence(2, 30)), 20U);
  // Ids of rows may be the same by chance.
  Tokens picture = Picture(3, 150);
  const Tokens same = Picture(1, 100);
  std::ranges::copy(same, picture.begin());
  const Tokens mixed = Sequence(1, 20) + picture + Sequence(5, 4);
  EXPECT_EQ(bench.cache.Match(kAll, mixed), 20U);
  EXPECT_EQ(bench.Run(mixed), 20U);
  bench.cache.Evict(40);
  EXPECT_EQ(bench.Run(talk), talk.size());
  bench.cache.Evict(4096);
  EXPECT_EQ(bench.cache.cells(), 0U);
  EXPECT_EQ(bench.Run(talk), talk.size());
}

// Some models have nothing between two pictures.
TEST(PicturesSideBySideAreSharedOneByOne) {
  Bench bench(32, 4096, 4096);
  const Tokens talk = Sequence(1, 20) + Picture(1, 50) + Picture(2, 50) + Sequence(2, 30);
  const Tokens other = Sequence(1, 20) + Picture(1, 50) + Picture(3, 50) + Sequence(2, 30);
  EXPECT_EQ(bench.Run(talk), 0U);
  EXPECT_EQ(bench.Run(other), 70U);
  EXPECT_EQ(bench.Run(talk), talk.size());
  EXPECT_EQ(bench.Run(other), other.size());
  EXPECT_EQ(bench.cache.cells(), 20U + 3 * 50 + 2 * 30);
}

// A prompt is published chunk by chunk, and a chunk may end within a picture that is cached, but
// swapped out.
TEST(APartOfAPictureIsNoSecondBranch) {
  Bench bench(32, 4096, 4096);
  const Tokens talk = Picture(1, 100) + Sequence(2, 30);
  EXPECT_EQ(bench.Run(talk), 0U);
  bench.cache.Evict(4096);
  PrefixCache::Pin pin = bench.cache.Take(kAll, talk, 0);
  EXPECT_EQ(pin.length, 0U);
  for (const std::size_t end : {30U, 60U, 100U, 130U}) {
    const Tokens part(talk.begin(), talk.begin() + static_cast<int>(end));
    bench.Compute(part, 0);
    bench.cache.Publish(kAll, part, 0, pin);
    EXPECT(bench.cache.cells() <= end);
  }
  bench.Leave(0, pin);
  EXPECT_EQ(bench.cache.cells(), 130U);
  EXPECT_EQ(bench.cache.Match(kAll, talk), 130U);
}

// Texts and pictures, of which some are alike, and some side by side.
Tokens RandomPrompt(std::mt19937& random) {
  Tokens tokens;
  const int parts = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < parts; ++i) {
    tokens = tokens + Sequence(static_cast<Token>(random() % 3), 1 + random() % 30);
    if (random() % 2 == 0) continue;
    const auto number = static_cast<Token>(random() % 2);
    tokens = tokens + Picture(number, 4 + 20 * number);
    if (random() % 2 == 0) tokens = tokens + Picture(1 - number, 4 + 20 * (1 - number));
  }
  return tokens;
}

// Random events: sequences start, grow, publish, diverge and end; prefixes are evicted; ids run
// out. No cell may leak or be counted twice, and FakeDecoder checks every cell operation.
TEST(NoOrderOfEventsLosesACell) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const auto ids = static_cast<std::uint32_t>(kFirstId + random() % 12);
    const std::uint32_t max_swapped = seed % 2 == 0 ? 0 : random() % 300;
    Bench bench(ids, 100'000, max_swapped);
    struct Running {
      Tokens tokens;
      PrefixCache::Pin pin;
    };
    std::map<SequenceId, Running> running;
    for (int event = 0; event < 400; ++event) {
      const auto sequence = static_cast<SequenceId>(random() % kFirstId);
      const auto at = running.find(sequence);
      if (at == running.end()) {
        const Tokens tokens = RandomPrompt(random);
        const PrefixCache::Pin pin = random() % 4 == 0 ? bench.cache.Take(kAll, tokens, sequence)
                                                       : bench.Take(tokens, sequence);
        EXPECT(pin.length <= tokens.size());
        running[sequence] = {tokens, pin};
      } else if (random() % 3 == 0) {
        bench.Leave(sequence, at->second.pin);
        running.erase(at);
      } else {
        Running& each = at->second;
        const auto next = static_cast<std::size_t>(bench.decoder.NextPosition(sequence));
        const auto end = WholePictures(
            each.tokens,
            static_cast<std::uint32_t>(next + random() % (each.tokens.size() - next + 1)));
        const Tokens part(each.tokens.begin(), each.tokens.begin() + static_cast<int>(end));
        bench.Compute(part, sequence);
        bench.cache.Publish(kAll, part, sequence, each.pin);
        EXPECT(each.pin.length <= end);
        if (ids >= kFirstId + 2) EXPECT(bench.cache.Match(kAll, part) >= each.pin.length);
      }
      if (random() % 8 == 0) bench.cache.Evict(static_cast<std::uint32_t>(random() % 100));

      std::uint32_t own = 0;
      for (const auto& [id, each] : running) {
        own += static_cast<std::uint32_t>(bench.decoder.NextPosition(id)) - each.pin.length;
      }
      EXPECT_EQ(bench.record.cells.load(), own + bench.cache.cells());
      EXPECT(bench.cache.evictable() <= bench.cache.cells());
      EXPECT(bench.cache.swapped() <= bench.cache.copied());
      EXPECT(bench.cache.copied() <= max_swapped);
      if (running.empty()) EXPECT_EQ(bench.cache.evictable(), bench.cache.cells());
    }
    for (auto& [sequence, each] : running) bench.Leave(sequence, each.pin);
    EXPECT_EQ(bench.cache.evictable(), bench.cache.cells());
    bench.cache.Evict(100'000);
    EXPECT_EQ(bench.record.cells.load(), 0U);
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
