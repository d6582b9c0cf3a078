#include "engine/scheduler.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "test.h"

namespace svc {
namespace {

std::uint32_t Total(const std::vector<Share>& shares) {
  return std::accumulate(shares.begin(), shares.end(), 0U,
                         [](std::uint32_t sum, const Share& share) { return sum + share.rows; });
}

std::vector<Demand> Demands(const std::vector<std::uint32_t>& rows) {
  std::vector<Demand> demands(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) demands[i].rows = rows[i];
  return demands;
}

TEST(EveryDecodingSequenceGetsOneRow) {
  const std::vector<Share> shares = PlanStep(Demands({1, 1, 1}), {});
  EXPECT_EQ(shares.size(), 3U);
  for (const Share& share : shares) EXPECT_EQ(share.rows, 1U);
}

TEST(APromptAloneGetsAllRows) {
  const std::vector<Share> shares = PlanStep(Demands({1800}), {.rows = 512});
  EXPECT_EQ(shares.size(), 1U);
  EXPECT_EQ(shares[0].rows, 512U);
}

TEST(PromptsAreServedInOrderOfArrival) {
  const std::vector<Share> shares = PlanStep(Demands({500, 100, 7}), {.rows = 512});
  EXPECT_EQ(shares.size(), 2U);
  EXPECT_EQ(shares[0].rows, 500U);
  EXPECT_EQ(shares[1].rows, 12U);
}

TEST(APromptBesideDecodingGetsFewRowsInGroupsOfFour) {
  for (std::uint32_t decoding = 1; decoding < 20; ++decoding) {
    std::vector<std::uint32_t> rows(decoding, 1);
    rows.push_back(1800);
    const std::vector<Share> shares =
        PlanStep(Demands(rows), {.rows = 512, .prompt_rows_beside_decoding = 32});
    EXPECT_EQ(shares.size(), decoding + 1U);
    EXPECT_EQ(Total(shares) % 4, 0U);
    EXPECT(shares.back().rows > 28 && shares.back().rows <= 32);
  }
}

TEST(NothingToDoIsNothingPlanned) {
  EXPECT(PlanStep({}, {}).empty());
  EXPECT(PlanStep(Demands({5, 1}), {.cells = 0}).empty());
}

// Whatever the demand: the limits hold, decoding comes first, older prompts before younger ones,
// and something moves.
TEST(TheRulesHoldForAnyDemand) {
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::vector<Demand> demands(random() % 40);
    for (Demand& demand : demands) {
      demand.rows = random() % 2 == 0 ? 1 : 1 + static_cast<std::uint32_t>(random() % 900);
    }
    const StepLimits limits{.rows = 1 + static_cast<std::uint32_t>(random() % 512),
                            .cells = static_cast<std::uint32_t>(random() % 600)};
    const std::vector<Share> shares = PlanStep(demands, limits);

    EXPECT(Total(shares) <= std::min(limits.rows, limits.cells));
    EXPECT_EQ(shares.empty(), demands.empty() || limits.cells == 0);
    std::vector<std::uint32_t> given(demands.size());
    for (std::size_t i = 0; i < shares.size(); ++i) {
      EXPECT(shares[i].rows > 0 && shares[i].rows <= demands[shares[i].index].rows);
      EXPECT(i == 0 || shares[i - 1].index < shares[i].index);
      given[shares[i].index] = shares[i].rows;
    }
    bool prompt_left_short = false;
    bool decoding_left_out = false;
    for (std::size_t i = 0; i < demands.size(); ++i) {
      if (demands[i].rows == 1) {
        decoding_left_out |= given[i] == 0;
      } else {
        EXPECT(!(prompt_left_short && given[i] > 0));
        prompt_left_short |= given[i] < demands[i].rows;
      }
    }
    if (decoding_left_out) EXPECT_EQ(Total(shares), std::min(limits.rows, limits.cells));
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
