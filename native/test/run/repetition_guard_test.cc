// When an answer counts as repeating itself.
#include "engine/run/repetition_guard.h"

#include <algorithm>
#include <vector>

#include "test.h"

namespace svc {
namespace {

using namespace test;

// Number of the token, from 1, that the guard stops at; 0: none of them.
std::uint32_t StopsAt(const std::vector<Token>& tokens,
                      RepetitionMode mode = RepetitionMode::kStop) {
  RepetitionGuard guard(mode);
  std::uint32_t number = 0;
  for (const Token token : tokens) {
    ++number;
    if (guard.Add(token)) return number;
  }
  return 0;
}

// `lead` different tokens, and then a cycle of `period`, of which every token differs.
std::vector<Token> Cycle(std::uint32_t lead, std::uint32_t period, std::uint32_t tokens) {
  std::vector<Token> all;
  for (std::uint32_t i = 0; i < lead; ++i) all.push_back(static_cast<Token>(1000 + i));
  for (std::uint32_t i = 0; i < tokens; ++i) all.push_back(static_cast<Token>(i % period));
  return all;
}

TEST(ACycleIsFoundAsSoonAsItIsLongEnough) {
  for (std::uint32_t period = 1; period <= RepetitionGuard::kMaxPeriod; ++period) {
    const std::uint32_t least =
        std::max(RepetitionGuard::kMinTokens, RepetitionGuard::kMinTimes * period);
    EXPECT_EQ(StopsAt(Cycle(0, period, least + 10)), least);
    EXPECT_EQ(StopsAt(Cycle(300, period, least + 10)), 300 + least);
    EXPECT_EQ(StopsAt(Cycle(7, period, least - 1)), 0U);
  }
}

TEST(LongerCyclesAndNearlyEqualTextsAreNotFound) {
  EXPECT_EQ(StopsAt(Cycle(0, RepetitionGuard::kMaxPeriod + 1, 20000)), 0U);
  // A list of numbers: each line differs in one token.
  std::vector<Token> lines;
  for (Token line = 0; line < 500; ++line) {
    for (const Token token : {1, 2, 100 + line, 3}) lines.push_back(token);
  }
  EXPECT_EQ(StopsAt(lines), 0U);
  // A short run of one token, over and over, with other tokens between.
  std::vector<Token> runs;
  for (Token run = 0; run < 100; ++run) {
    for (int i = 0; i < 100; ++i) runs.push_back(5);
    runs.push_back(100 + run);
  }
  EXPECT_EQ(StopsAt(runs), 0U);
}

TEST(AWarningReportsTheShortestCycleAndItsLength) {
  RepetitionGuard guard(RepetitionMode::kWarn);
  for (const Token token : Cycle(20, 3, 500)) EXPECT(!guard.Add(token));
  EXPECT(guard.found().has_value());
  EXPECT_EQ(guard.found()->period_tokens, 3U);
  EXPECT_EQ(guard.found()->repeated_tokens, 500U);
  EXPECT(!guard.found()->stopped);
  for (const Token token : Cycle(200, 7, 50)) guard.Add(token);
  EXPECT_EQ(guard.found()->repeated_tokens, 500U);  // it stays reported
}

TEST(WithoutAModeNothingIsFound) {
  RepetitionGuard guard(RepetitionMode::kOff);
  for (const Token token : Cycle(0, 1, 5000)) EXPECT(!guard.Add(token));
  EXPECT(!guard.found().has_value());
}

}  // namespace
}  // namespace svc

TEST_MAIN()
