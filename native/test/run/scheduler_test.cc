#include "engine/run/scheduler.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

#include "fake_decoder.h"
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

TEST(PromptsAreServedInTheirOrder) {
  const std::vector<Share> shares = PlanStep(Demands({500, 100, 7}), {.rows = 512});
  EXPECT_EQ(shares.size(), 2U);
  EXPECT_EQ(shares[0].rows, 500U);
  EXPECT_EQ(shares[1].rows, 12U);
}

TEST(APromptBesideDecodingGetsTheRowsThatAreInTimeInGroupsOfFour) {
  StepRecord record;
  record.Add(33, 50);
  for (std::uint32_t decoding = 1; decoding < 20; ++decoding) {
    std::vector<std::uint32_t> rows(decoding, 1);
    rows.push_back(1800);
    const std::vector<Demand> demands = Demands(rows);
    const std::vector<Share> shares = PlanStep(demands, LimitsFor({}, record, {}, demands, 512));
    EXPECT_EQ(shares.size(), decoding + 1U);
    EXPECT_EQ(Total(shares), 64U);  // 66 would fit into 100 ms; rounded down to a group of four
    // Without any recorded step, all rows.
    EXPECT_EQ(Total(PlanStep(demands, LimitsFor({}, {}, {}, demands, 512))), 512U);
  }
}

// Returns a model in which a step costs 20 ms + 5 ms per row.
CostModel Linear() {
  test::FakeRecord record;
  Clock::time_point time;
  test::FakeDecoder decoder({.max_rows = 512,
                             .fault =
                                 [&](std::span<const Row> rows, const std::atomic<bool>&) {
                                   time += std::chrono::milliseconds(20 + 5 * rows.size());
                                   return DecodeOutcome::kDone;
                                 }},
                            &record);
  return CostModel::Measure(
      decoder, [&] { return time; }, 1e6);
}

TEST(AStepWithDecodingMeetsTheTarget) {
  const CostModel cost = Linear();
  for (const double target_ms : {150.0, 300.0, 1000.0}) {
    for (std::uint32_t decoding = 1; decoding <= 8; ++decoding) {
      const StepLimits limits = LimitsFor(cost, {}, {.decoding_ms = target_ms},
                                          Demands(std::vector<std::uint32_t>(decoding, 1)), 512);
      const std::uint32_t total = decoding + limits.prompt_rows;
      EXPECT_EQ(total % 4, 0U);
      EXPECT(cost.Predict(total, decoding) <= target_ms);
      EXPECT(cost.Predict(total + 4, decoding) > target_ms || total + 4 > 512);
    }
  }
}

TEST(APromptGetsOnEvenWhereNoTargetCanBeMet) {
  const CostModel cost = Linear();
  for (const std::uint32_t decoding : {1U, 3U, 30U, 200U}) {
    const StepLimits limits = LimitsFor(cost, {}, {.decoding_ms = 1},
                                        Demands(std::vector<std::uint32_t>(decoding, 1)), 512);
    EXPECT(limits.prompt_rows >= kLeastPromptRows && limits.prompt_rows < kLeastPromptRows + 4);
  }
}

TEST(PromptsAloneGetLargeStepsThatEndInTime) {
  const CostModel cost = Linear();
  const std::vector<Demand> alone = Demands({4000});
  EXPECT_EQ(LimitsFor(cost, {}, {.prompt_ms = 1e6}, alone, 512).prompt_rows, 512U);
  EXPECT_EQ(LimitsFor(cost, {}, {.prompt_ms = 700}, alone, 512).prompt_rows, 128U);
  EXPECT_EQ(LimitsFor(cost, {}, {.prompt_ms = 1}, alone, 512).prompt_rows, 64U);
}

TEST(APromptThatCanEndInThisStepIsNotHeldUpByOthers) {
  const CostModel cost = Linear();
  const std::vector<Demand> demands = Demands({12, 1800});
  const StepLimits limits =
      LimitsFor(cost, {}, {.decoding_ms = 150, .prompt_ms = 1000}, demands, 512);
  const std::vector<Share> shares = PlanStep(demands, limits);
  EXPECT_EQ(shares.size(), 2U);
  EXPECT_EQ(shares[0].rows, 12U);
  EXPECT(cost.Predict(Total(shares), 1) <= 150);
}

TEST(PromptsThatCameWithThoseWhoDecodeGoFirst) {
  const CostModel cost = Linear();
  const auto limits = [&](double age_ms, std::vector<std::uint32_t> prompts) {
    prompts.insert(prompts.begin(), 1);
    std::vector<Demand> demands = Demands(prompts);
    demands[0].age_ms = age_ms;
    return LimitsFor(cost, {}, {.decoding_ms = 100, .prompt_ms = 400}, demands, 512);
  };
  const std::vector<std::uint32_t> many(7, 20);
  for (const double age_ms : {0.0, 80.0, 250.0}) {
    const StepLimits ahead = limits(age_ms, many);
    EXPECT_EQ(ahead.decoding_rows, 0U);
    EXPECT(age_ms + cost.Predict(ahead.prompt_rows, 1) <= 400);
    EXPECT(age_ms + cost.Predict(ahead.prompt_rows + 4, 1) > 400);
  }
  // Decoding goes on after it has waited as long as a prompt step may last, and if waiting would
  // not help.
  EXPECT_EQ(limits(301, many).decoding_rows, 1U);
  EXPECT_EQ(limits(1e6, many).decoding_rows, 1U);
  EXPECT_EQ(limits(80, {12}).decoding_rows, 1U);
  EXPECT_EQ(limits(80, {300}).decoding_rows, 1U);
}

// For any step size, a lone prompt is cut so that each row is computed by the same attention kernel
// as in batches of 512: the one for many rows, unless the batch has fewer than 64 rows.
TEST(APromptIsCutAsRoundingWantsIt) {
  for (std::uint32_t prompt = 2; prompt < 1700; prompt += prompt < 600 ? 1 : 37) {
    for (const std::uint32_t most : {64U, 128U, 256U, 512U}) {
      std::uint32_t position = 0;
      while (position < prompt) {
        const std::vector<Demand> demands = {
            {.rows = prompt - position, .position = position, .plain = true}};
        if (demands[0].rows == 1) break;
        const std::vector<Share> shares = PlanStep(demands, {.rows = 512, .prompt_rows = most});
        REQUIRE(shares.size() == 1);
        const std::uint32_t rows = shares[0].rows;
        const std::uint32_t batch = position - position % 512;
        const std::uint32_t batch_rows = std::min(512U, prompt - batch);
        EXPECT_EQ(rows < 64, batch_rows < 64);
        EXPECT(position % 64 == 0 && rows < most + 64);
        EXPECT(position + rows <= batch + batch_rows);
        position += rows;
      }
    }
  }
}

// No step has fewer than 64 rows, because the kernel for many rows is faster.
TEST(APromptEndsInNoStepOfItsOwnThatIsShort) {
  for (std::uint32_t prompt = 64; prompt < 1700; prompt += prompt < 600 ? 1 : 37) {
    for (const std::uint32_t most : {128U, 256U, 512U}) {
      std::uint32_t position = 24;  // the beginning is cached
      while (position < prompt + 24) {
        const Demand demand{.rows = prompt + 24 - position, .position = position};
        const std::uint32_t rows = RowsOfBatch(demand, most);
        EXPECT(rows >= 64 && rows <= most);
        const std::vector<Share> shares =
            PlanStep(std::vector{demand}, {.rows = 512, .prompt_rows = most});
        EXPECT(shares.size() == 1 && shares[0].rows >= 64);
        position += rows;
      }
    }
  }
}

TEST(ShortOnesPassLongOnesButNotForEver) {
  const double long_one = DeadlineOf(SeniorityOf(0, Priority::kInteractive), 12'000);
  const auto short_one = [](double arrival_ms, Priority priority) {
    return DeadlineOf(SeniorityOf(arrival_ms, priority), 100);
  };
  EXPECT(short_one(300, Priority::kInteractive) < long_one);
  EXPECT(short_one(60'000, Priority::kInteractive) > long_one);
  EXPECT(short_one(300, Priority::kBatch) > long_one);
  // Batch work that has waited goes before new interactive work.
  EXPECT(short_one(0, Priority::kBatch) < short_one(61'000, Priority::kInteractive));
}

TEST(NothingToDoIsNothingPlanned) {
  EXPECT(PlanStep({}, {}).empty());
  EXPECT(PlanStep(Demands({5, 1}), {.cells = 0}).empty());
}

// For random demands: the limits hold, decoding comes first, prompts keep their order, and every
// step makes progress.
TEST(TheRulesHoldForAnyDemand) {
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::vector<Demand> demands(random() % 40);
    for (Demand& demand : demands) {
      demand.rows = random() % 2 == 0 ? 1 : 1 + static_cast<std::uint32_t>(random() % 900);
      demand.position = static_cast<std::uint32_t>(random() % 2000);
    }
    const StepLimits limits{.rows = 1 + static_cast<std::uint32_t>(random() % 512),
                            .cells = static_cast<std::uint32_t>(random() % 600),
                            .prompt_rows = 1 + static_cast<std::uint32_t>(random() % 512)};
    const std::vector<Share> shares = PlanStep(demands, limits);

    EXPECT(Total(shares) <= std::min(limits.rows, limits.cells));
    EXPECT_EQ(shares.empty(), demands.empty() || limits.cells == 0);
    std::vector<std::uint32_t> given(demands.size());
    for (std::size_t i = 0; i < shares.size(); ++i) {
      EXPECT(shares[i].rows > 0 && shares[i].rows <= demands[shares[i].index].rows);
      EXPECT(i == 0 || shares[i - 1].index < shares[i].index);
      given[shares[i].index] = shares[i].rows;
    }
    bool prompt_left_out = false;
    bool decoding_left_out = false;
    for (std::size_t i = 0; i < demands.size(); ++i) {
      if (demands[i].rows == 1) {
        decoding_left_out |= given[i] == 0;
      } else {
        EXPECT(!(prompt_left_out && given[i] > 0));
        prompt_left_out |= given[i] == 0;
      }
    }
    if (decoding_left_out) EXPECT_EQ(Total(shares), std::min(limits.rows, limits.cells));
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
