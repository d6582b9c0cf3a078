// The account of a draft model, and when it is tried again after its drafts did not pay.
#include "engine/draft/draft_budget.h"

#include <vector>

#include "test.h"

namespace svc {
namespace {

// Returns the steps among the next `count` in which a trial runs.
std::vector<int> Trials(DraftBudget& budget, int count) {
  std::vector<int> trials;
  for (int step = 0; step < count; ++step) {
    if (budget.TryNow()) trials.push_back(step);
  }
  return trials;
}

TEST(TheAccountBeginsWithEnoughForAFirstTry) {
  DraftBudget budget;
  EXPECT(budget.Affords(8) && !budget.Affords(8.01));
  budget.Add(-8);
  EXPECT(budget.Affords(0) && !budget.Affords(0.01));
}

TEST(AShareOfThePassedTimeIsCredited) {
  DraftBudget budget;
  budget.Add(-8);
  budget.Pass(1000);
  EXPECT(budget.Affords(14.99) && !budget.Affords(15.01));
}

TEST(AnAccountInDebtDraftsNothingUntilItIsPaidBack) {
  DraftBudget budget;
  budget.Add(-18);
  EXPECT(!budget.Affords(0));
  budget.Pass(600);
  EXPECT(!budget.Affords(0));
  budget.Pass(100);
  EXPECT(budget.Affords(0));
}

TEST(TimeSavedLongAgoIsNotLostAtOnce) {
  DraftBudget budget;
  budget.Add(1e6);
  budget.Pass(1e6);
  EXPECT(budget.Affords(100) && !budget.Affords(100.01));
}

TEST(TrialsComeAtGrowingIntervalsWhileTheyFail) {
  DraftBudget budget;
  const std::vector<int> expected = {0, 2, 5, 10, 19, 36, 69, 134, 199, 264};
  EXPECT(Trials(budget, 300) == expected);
}

TEST(AfterAnAcceptedDraftTheNextTrialComesAtOnce) {
  DraftBudget budget;
  (void)Trials(budget, 140);
  budget.Encourage();
  EXPECT(Trials(budget, 6) == (std::vector<int>{0, 2, 5}));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
