// The largest logits against a full sort: ties, broken logits, and all sizes around a block.
#include "engine/model/largest_logits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "test.h"

namespace svc {
namespace {

using Logits = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TokenSet SetOf(std::size_t vocabulary, const std::vector<Token>& tokens) {
  TokenSet set(vocabulary);
  for (const Token token : tokens) set.Add(token);
  return set;
}

Ranking Rank(const Logits& logits, const TokenSet* allowed, std::size_t count,
             std::vector<RankedToken>* ranked) {
  ranked->assign(3, {.token = 99, .logit = 99});  // the old content is replaced
  return LargestLogits(logits, allowed, count, ranked);
}

TEST(WithoutAnAllowedTokenThereIsNone) {
  std::vector<RankedToken> ranked;
  const TokenSet none(40);
  EXPECT_EQ(LargestLogit({}, nullptr), kNoToken);
  EXPECT_EQ(Rank({}, nullptr, 2, &ranked), Ranking::kDistinct);
  EXPECT(ranked.empty());
  EXPECT_EQ(LargestLogit(Logits(40, 1), &none), kNoToken);
  EXPECT_EQ(Rank(Logits(40, 1), &none, 2, &ranked), Ranking::kDistinct);
  EXPECT(ranked.empty());
}

// Few different values, so that there are ties, within the selection and behind it.
TEST(TheSelectionIsThatOfASort) {
  std::mt19937 random(1);
  int tied = 0;
  int distinct = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::size_t vocabulary = 1 + random() % 70;
    const unsigned values = random() % 2 == 0 ? 8 : 1'000'000;
    Logits logits(vocabulary);
    for (float& logit : logits) {
      logit = random() % 10 == 0 ? -INFINITY : static_cast<float>(random() % values) - 4;
    }
    std::vector<Token> order(vocabulary);
    std::iota(order.begin(), order.end(), 0);
    const bool all = random() % 2 == 0;
    if (!all) std::erase_if(order, [&](Token) { return random() % 3 == 0; });
    const TokenSet set = SetOf(vocabulary, order);
    const TokenSet* allowed = all ? nullptr : &set;
    std::ranges::stable_sort(order, [&](Token a, Token b) { return logits[a] > logits[b]; });
    EXPECT_EQ(LargestLogit(logits, allowed), order.empty() ? kNoToken : order[0]);

    const std::size_t count = 1 + random() % 12;
    bool is_tied = false;
    for (std::size_t i = 1; i < order.size() && i <= count; ++i) {
      is_tied = is_tied || logits[order[i - 1]] == logits[order[i]];
    }
    (is_tied ? tied : distinct) += 1;
    std::vector<RankedToken> ranked;
    EXPECT_EQ(Rank(logits, allowed, count, &ranked), is_tied ? Ranking::kTied : Ranking::kDistinct);
    REQUIRE(ranked.size() == std::min(count, order.size()));
    for (std::size_t i = 0; i < ranked.size(); ++i) {
      EXPECT_EQ(ranked[i].logit, logits[order[i]]);
      EXPECT_EQ(ranked[i].logit, logits[ranked[i].token]);
      if (!is_tied) EXPECT_EQ(ranked[i].token, order[i]);
    }
  }
  EXPECT(tied > 500 && distinct > 500);
}

TEST(OnlyTiesThatMatterAreReported) {
  std::vector<RankedToken> ranked;
  const Logits logits = {1, 5, 3, 3, -INFINITY, -INFINITY, 4};
  EXPECT_EQ(Rank(logits, nullptr, 2, &ranked), Ranking::kDistinct);
  EXPECT_EQ(Rank(logits, nullptr, 3, &ranked), Ranking::kTied);  // which of two is undetermined
  EXPECT_EQ(Rank(logits, nullptr, 4, &ranked), Ranking::kTied);  // and here, their order
  const TokenSet one_of_them = SetOf(logits.size(), {0, 1, 2});
  EXPECT_EQ(Rank(logits, &one_of_them, 3, &ranked), Ranking::kDistinct);
  EXPECT_EQ(LargestLogit(Logits(40, -INFINITY), nullptr), 0);
}

TEST(ABrokenLogitIsFoundAtEveryPlace) {
  std::vector<RankedToken> ranked;
  for (const std::size_t vocabulary : {1U, 15U, 16U, 17U, 48U, 65U}) {
    for (std::size_t place = 0; place < vocabulary; ++place) {
      for (const float broken : {kNan, -kNan, INFINITY}) {
        Logits logits(vocabulary);
        // Falling, so that what follows is below the largest ones.
        for (std::size_t i = 0; i < vocabulary; ++i) logits[i] = -static_cast<float>(i);
        logits[place] = broken;
        const TokenSet all = TokenSet::All(vocabulary);
        for (const TokenSet* allowed : {static_cast<const TokenSet*>(nullptr), &all}) {
          EXPECT_EQ(LargestLogit(logits, allowed), kBrokenLogits);
          EXPECT_EQ(Rank(logits, allowed, 2, &ranked), Ranking::kBroken);
          EXPECT(ranked.empty());
        }
        TokenSet others = all;
        others.Remove(static_cast<Token>(place));
        EXPECT(LargestLogit(logits, &others) != kBrokenLogits);
        EXPECT_EQ(Rank(logits, &others, 2, &ranked), Ranking::kDistinct);
      }
    }
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
