// Steps beside a prompt in the lane: when they are due, and how long both sides wait.
#include "engine/run/lane_turns.h"

#include <algorithm>

#include "loop_parts.h"
#include "test.h"
#include "virtual_bench.h"

namespace svc {
namespace {

using namespace test;

double StepMs(std::size_t rows) { return 20 + 8.0 * static_cast<double>(rows); }

TEST(TheLaneGoesOnUntilAStepIsDue) {
  LoopParts parts({}, CostOf(StepMs));
  LaneTurns turns(parts.now);
  turns.StepEnds(0);
  const std::vector<Demand> decoding = {Demand{}};
  const auto may_go_on = [&] { return turns.MayGoOn(decoding, {}, parts.costs); };
  EXPECT(turns.MayGoOn({}, {}, parts.costs));
  // A prompt that is more urgent than the one in the lane does not wait.
  EXPECT(!turns.MayGoOn(std::vector<Demand>{{.rows = 5}}, {}, parts.costs));
  double waited_ms = 0;
  for (; may_go_on() && waited_ms < 1000; ++waited_ms) parts.Pass(1);
  // The next token comes in time, and the lane has most of the time.
  EXPECT(waited_ms + StepMs(1) >= parts.costs.targets().decoding_ms);
  EXPECT(waited_ms < 300);
  turns.StepBegins();
  turns.StepEnds(1);
  EXPECT(may_go_on());
}

TEST(AStepWithoutTextIsRepeatedThreeTimesAtMost) {
  LoopParts parts({}, CostOf(StepMs));
  LaneTurns turns(parts.now);
  turns.StepEnds(0);
  Generation generation(SubmissionOf({.id = 1, .prompt = {5}}));
  const std::vector<Demand> decoding = {Demand{}};
  const auto step = [&](std::uint64_t number, bool has_text) {
    turns.StepBegins();
    if (!has_text) turns.NoText(generation);
    turns.StepEnds(number);
    return turns.MayGoOn(decoding, {}, parts.costs);
  };
  parts.Pass(1000);
  for (const std::uint64_t number : {1U, 2U, 3U}) EXPECT(!step(number, false));
  EXPECT(turns.is_silent());
  EXPECT(step(4, false));
  EXPECT(!turns.is_silent());
  parts.Pass(1000);
  EXPECT(!step(5, false));
  EXPECT(turns.is_silent());
  EXPECT(step(6, true));
  EXPECT(!turns.is_silent());
  // Nor does anybody get a text of a step that is aborted.
  parts.Pass(1000);
  turns.StepBegins();
  turns.StepAborted();
  turns.StepEnds(6);
  EXPECT(turns.is_silent());
  EXPECT(!turns.MayGoOn(decoding, {}, parts.costs));
  EXPECT(step(6, true));
  // It had a text in the last step that counted or later: others do not wait for its next one.
  parts.Pass(1000);
  generation.last_text_step = 7;
  EXPECT(step(7, false));
}
// A batch of 256 rows takes 1,300 ms; nobody waits for that.
TEST(APromptInTheLaneIsHardlyDelayedByThoseWhoDecodeNorTheyByIt) {
  VirtualBench bench(WithLane());
  for (const GenerationId id : {1U, 2U, 3U})
    bench.Add(Steady(id, Prompt(static_cast<Token>(id), 8), 120));
  for (int i = 0; i < 10; ++i) (void)bench.Step();
  bench.Add(Steady(9, Prompt(9, 1800), 4));
  bench.RunToTheEnd();
  // A step costs 44 ms, so the lane has 132 at a time, and a 27 for what it was in the middle of.
  // All three are in each step, and what one of them says in it may be half a character.
  std::vector<double> heard;
  for (const GenerationId id : {1U, 2U, 3U}) {
    heard.insert(heard.end(), bench.heard_ms.at(id).begin(), bench.heard_ms.at(id).end());
  }
  std::sort(heard.begin(), heard.end());
  for (std::size_t i = 1; i < heard.size(); ++i) EXPECT(heard[i] - heard[i - 1] < 300);
  EXPECT(bench.TimeToFirstToken(9) < 1.4 * 1800 * 5);
  for (const GenerationId id : {1U, 2U, 3U, 9U}) bench.ExpectAsAlone(id);
  EXPECT_EQ(bench.loop->stats().prompt_tokens, 3U * 8 + 1800);
}

// Says characters that take three tokens.
class SlowSpeaker final : public Sampler {
 public:
  Token Sample(const float* /*logits*/) override { return drawn_++ % 3 == 0 ? 1 : 2; }

 private:
  std::uint32_t drawn_ = 0;
};

// Each of its characters is waited for once, not once for each of its tokens.
TEST(WhoSaysACharacterInSeveralTokensIsHardlyDelayedByTheLane) {
  VirtualBench bench(WithLane(), /*measured=*/false);  // in the lane beside others, too
  Submission submission = SubmissionOf({.id = 1, .prompt = Prompt(1, 8), .max_tokens = 120});
  submission.sampler = std::make_unique<SlowSpeaker>();
  submission.reuse_prefix = false;  // nor are there drafts: whole characters would be guessed
  bench.loop->Add(std::move(submission));
  for (int i = 0; i < 10; ++i) (void)bench.Step();
  bench.Add(Steady(9, Prompt(9, 1800), 4));
  while (!bench.ends.contains(9)) EXPECT(bench.Step());
  const std::vector<double>& heard = bench.heard_ms.at(1);
  for (std::size_t i = 1; i < heard.size(); ++i) EXPECT(heard[i] - heard[i - 1] < 260);
  EXPECT(bench.TimeToFirstToken(9) < 1.6 * 1800 * 5);
}

TEST(AShortQuestionPassesTheDocumentInTheLane) {
  VirtualBench bench(WithLane());
  bench.Add(Steady(1, Prompt(1, 1800), 4));
  (void)bench.Step();
  bench.Add(Steady(2, Prompt(2, 12), 4));
  bench.RunToTheEnd();
  EXPECT(bench.TimeToFirstToken(2) < 150);
  EXPECT(bench.TimeToFirstToken(1) < 1.1 * 1800 * 5);
  for (const GenerationId id : {1U, 2U}) bench.ExpectAsAlone(id);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
