// Counters of tokens by share: where they start, what they forget, and that turns by them are fair.
#include "engine/run/fair_queue.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "test.h"

namespace svc {
namespace {

constexpr ShareId kAlice = 1;
constexpr ShareId kBob = 2;

TEST(AShareThatComesStartsWhereTheOthersAre) {
  FairQueue fair;
  fair.Update({kAlice}, {kAlice});
  fair.Charge(kAlice, 1000);
  fair.Update({kAlice}, {kAlice});
  EXPECT_EQ(fair.CounterOf(kBob), 1000);
  fair.Charge(kAlice, 10);
  fair.Update({kAlice, kBob}, {kAlice, kBob});
  EXPECT_EQ(fair.CounterOf(kBob), 1000);
  EXPECT_EQ(fair.CounterOf(kAlice), 1010);
}

TEST(WhatWasTakenAloneIsNotHeldAgainstAShare) {
  FairQueue fair;
  // Alice runs many generations, Bob a single one; neither waits.
  fair.Update({kAlice, kBob}, {});
  for (int step = 0; step < 100; ++step) {
    fair.Charge(kAlice, 60);
    fair.Charge(kBob, 1);
    fair.Update({kAlice, kBob}, {});
  }
  fair.Update({kAlice, kBob}, {kAlice, kBob});
  EXPECT_EQ(fair.CounterOf(kAlice), fair.CounterOf(kBob));
}

TEST(DebtIsRememberedUntilTheOthersHaveCaughtUp) {
  FairQueue fair;
  fair.Update({kAlice, kBob}, {kAlice, kBob});
  fair.Charge(kBob, 500);
  fair.Update({kAlice}, {kAlice});  // Bob has left
  EXPECT_EQ(fair.CounterOf(kBob), 500);
  EXPECT_EQ(fair.Known().size(), 2U);
  fair.Charge(kAlice, 501);
  fair.Update({kAlice}, {kAlice});
  EXPECT_EQ(fair.Known().size(), 1U);
}

// Each turn goes to the smallest counter among the shares that want one. Two shares that always
// want a turn differ by no more than twice the largest turn, and no share starves.
TEST(SharesThatWantAllTheTimeGetTheSame) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    FairQueue fair;
    const ShareId count = 2 + random() % 6;
    constexpr double kLargest = 512;
    std::map<ShareId, double> given;
    std::set<ShareId> wanting;
    for (ShareId share = 1; share <= count; ++share) wanting.insert(share);
    for (int turn = 0; turn < 2000; ++turn) {
      std::set<ShareId> now = wanting;
      // The first two always want a turn; the others want one three times in four.
      for (ShareId share = 3; share <= count; ++share) {
        if (random() % 4 == 0) now.erase(share);
      }
      fair.Update(now, now);
      const ShareId next = *std::min_element(now.begin(), now.end(), [&](ShareId a, ShareId b) {
        return fair.CounterOf(a) < fair.CounterOf(b);
      });
      const double tokens = 1 + static_cast<double>(random() % static_cast<unsigned>(kLargest));
      fair.Charge(next, tokens);
      given[next] += tokens;
      EXPECT(std::abs(given[kAlice] - given[kBob]) <= 2 * kLargest);
    }
    for (ShareId share = 3; share <= count; ++share) {
      EXPECT(given[share] <= given[kAlice] + 2 * kLargest);  // idle time earns no credit
      EXPECT(given[share] > 0);
    }
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
