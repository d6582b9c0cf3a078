#include "engine/draft/prompt_lookup.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <vector>

#include "test.h"

namespace svc {
namespace {

using Tokens = std::vector<Token>;

Tokens Drafted(const PromptLookup& lookup, const Tokens& tokens, std::size_t most) {
  Tokens drafted;
  for (const DraftToken& draft : lookup.Propose(tokens, most)) drafted.push_back(draft.token);
  return drafted;
}

Tokens DraftedAfter(const Tokens& tokens, std::size_t most) {
  PromptLookup lookup;
  lookup.Follow(tokens, tokens.size());
  return Drafted(lookup, tokens, most);
}

Tokens Noise(std::size_t count, std::uint32_t seed, std::uint32_t vocabulary) {
  std::mt19937 random(seed);
  Tokens tokens(count);
  for (Token& token : tokens) token = static_cast<Token>(random() % vocabulary);
  return tokens;
}

TEST(WhatFollowedBeforeIsDrafted) {
  EXPECT(DraftedAfter({1, 2, 3, 4, 5, 9, 2, 3}, 2) == Tokens({4, 5}));
  // The longest run wins; among equal runs the latest.
  EXPECT(DraftedAfter({1, 2, 3, 4, 1, 2, 3, 5, 8, 1, 2, 3}, 1) == Tokens({5}));
  EXPECT(DraftedAfter({7, 1, 2, 3, 4, 8, 2, 3, 5, 7, 1, 2, 3}, 1) == Tokens({4}));
}

TEST(NothingIsDraftedOfWhatIsNew) {
  EXPECT(DraftedAfter({}, 4).empty());
  EXPECT(DraftedAfter({1}, 4).empty());
  EXPECT(DraftedAfter({1, 2}, 4).empty());
  EXPECT(DraftedAfter({1, 2, 3, 4, 5, 6, 7, 3}, 4).empty());  // one token is too little
  EXPECT(DraftedAfter({1, 2, 3, 1, 2}, 0).empty());
}

TEST(ALoopIsDraftedForLongerThanItHasLasted) {
  EXPECT(DraftedAfter({5, 6, 7, 5, 6, 7}, 8) == Tokens({5, 6, 7, 5, 6, 7, 5, 6}));
  EXPECT(DraftedAfter({4, 4, 4}, 5) == Tokens({4, 4, 4, 4, 4}));
}

// Follow gives the same drafts for any split of the tokens, as long as the table does not grow.
TEST(FollowingIsTheSameInAnyPieces) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    const Tokens tokens = Noise(256, seed, 6);
    PromptLookup slow;
    std::mt19937 random(seed);
    std::size_t at = 100;
    slow.Follow(std::span(tokens).first(at), 100);
    while (at < tokens.size()) {
      PromptLookup fast;
      fast.Follow(std::span(tokens).first(at), 100);
      const Tokens said(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(at));
      const std::vector<DraftToken> a = slow.Propose(said, 5);
      const std::vector<DraftToken> b = fast.Propose(said, 5);
      REQUIRE(a.size() == b.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(a[i].token, b[i].token);
        EXPECT_EQ(a[i].chance, b[i].chance);
      }
      at = std::min(tokens.size(), at + 1 + random() % 7);
      slow.Follow(std::span(tokens).first(at), 100);
    }
  }
}

double ChanceAfter(const Tokens& said, std::size_t judged_from) {
  PromptLookup lookup;
  lookup.Follow(said, judged_from);
  const std::vector<DraftToken> drafts = lookup.Propose(said, 1);
  return drafts.empty() ? -1 : drafts[0].chance;
}

TEST(ChancesAreWhatTheTextShows) {
  Tokens loop;
  for (int i = 0; i < 200; ++i) loop.push_back(static_cast<Token>(i % 7));
  EXPECT(ChanceAfter(loop, 0) > 0.95);
  // Pairs repeat all the time, but are followed by other tokens each time.
  Tokens pairs = Noise(4000, 3, 40);
  pairs.insert(pairs.end(), {41, 42, 43, 41, 42});
  EXPECT(ChanceAfter(pairs, 0) < 0.1);
  // Repetition in a prompt predicts nothing about the model's output.
  EXPECT(ChanceAfter(pairs, pairs.size()) > 0.2);
  // A text that begins to repeat is soon detected.
  Tokens turned = Noise(2000, 4, 40);
  for (int i = 0; i < 40; ++i) turned.push_back(static_cast<Token>(50 + i % 8));
  EXPECT(ChanceAfter(turned, 0) > 0.8);
}

TEST(MemoryIsBoundedAndLateTokensAreStillFound) {
  PromptLookup lookup;
  Tokens tokens = Noise(600'000, 1, 100'000);
  lookup.Follow(tokens, tokens.size());
  EXPECT(lookup.places() <= PromptLookup::kMostPlaces);
  const Tokens tail(tokens.end() - 20, tokens.end());
  tokens.insert(tokens.end(), {-1, -2});
  tokens.insert(tokens.end(), tail.begin(), tail.begin() + 6);
  lookup.Follow(tokens, tokens.size());
  EXPECT(Drafted(lookup, tokens, 14) == Tokens(tail.begin() + 6, tail.end()));
}

TEST(AShortTextNeedsLittleMemory) {
  PromptLookup lookup;
  lookup.Follow(Noise(50, 1, 1000), 50);
  EXPECT(lookup.places() <= 1024);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
