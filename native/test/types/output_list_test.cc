// Outputs that wait: one for each generation, with all content in its order and the latest state.
#include "engine/types/output_list.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "test.h"

namespace svc {
namespace {

GenerationOutput Output(GenerationId id) {
  GenerationOutput output;
  output.id = id;
  return output;
}

GenerationOutput Text(GenerationId id, const std::string& text) {
  GenerationOutput output = Output(id);
  output.text = text;
  return output;
}

TEST(AnEmptyListHasNothingToTake) {
  OutputList list;
  EXPECT(list.empty());
  EXPECT(list.begin() == list.end());
  EXPECT(list.Take().empty());
}

TEST(OutputsOfOneGenerationAreOneEntry) {
  OutputList list;
  list.Add(Text(7, "a"));
  list.Add(Text(3, "x"));
  list.Add(Text(7, "b"));
  list.Add(Text(3, ""));
  EXPECT(!list.empty());
  EXPECT_EQ(list.end() - list.begin(), 2);
  EXPECT_EQ(list.begin()->text, "ab");
  const std::vector<GenerationOutput> taken = list.Take();
  REQUIRE(taken.size() == 2);
  EXPECT_EQ(taken[0].id, 7U);
  EXPECT_EQ(taken[0].text, "ab");
  EXPECT_EQ(taken[1].id, 3U);
  EXPECT_EQ(taken[1].text, "x");
}

TEST(WhatIsTakenIsGone) {
  OutputList list;
  list.Add(Text(1, "a"));
  EXPECT_EQ(list.Take().size(), 1U);
  EXPECT(list.empty());
  EXPECT(list.Take().empty());
  list.Add(Text(1, "b"));
  EXPECT_EQ(list.begin()->text, "b");
}

TEST(AllKindsOfContentAreAppended) {
  OutputList list;
  for (const std::string part : {"1", "2", "3"}) {
    GenerationOutput output = Text(1, "t" + part);
    output.reasoning = "r" + part;
    output.tool_calls = {{.index = 0, .arguments = "c" + part}};
    output.embeddings = {std::stof(part), 0};
    output.logprobs = {{.chosen = {.bytes = "l" + part}}};
    output.tokens = {std::stoi(part), 10 * std::stoi(part)};
    list.Add(output);
  }
  const std::vector<GenerationOutput> taken = list.Take();
  REQUIRE(taken.size() == 1);
  const GenerationOutput& all = taken[0];
  EXPECT_EQ(all.text, "t1t2t3");
  EXPECT_EQ(all.reasoning, "r1r2r3");
  EXPECT(all.embeddings == std::vector<float>({1, 0, 2, 0, 3, 0}));
  EXPECT(all.tokens == std::vector<Token>({1, 10, 2, 20, 3, 30}));
  REQUIRE(all.tool_calls.size() == 3 && all.logprobs.size() == 3);
  EXPECT_EQ(all.tool_calls[0].arguments, "c1");
  EXPECT_EQ(all.tool_calls[2].arguments, "c3");
  EXPECT_EQ(all.logprobs[0].chosen.bytes, "l1");
  EXPECT_EQ(all.logprobs[2].chosen.bytes, "l3");
}

TEST(TheLatestStateCounts) {
  OutputList list;
  GenerationOutput first = Text(1, "a");
  first.usage = {.input_tokens = 5, .output_tokens = 1};
  first.timings = {.started_ms = 1};
  list.Add(first);
  GenerationOutput last = Output(1);
  last.done = true;
  last.reason = FinishReason::kLength;
  last.stop_string = "end";
  last.status = Status(StatusCode::kInternal, "it broke");
  last.usage = {.input_tokens = 5, .output_tokens = 9};
  last.repetition = Repetition{.period_tokens = 2};
  last.timings = {.started_ms = 1, .finished_ms = 4};
  list.Add(last);
  const GenerationOutput joined = list.Take().at(0);
  EXPECT_EQ(joined.text, "a");
  EXPECT(joined.done);
  EXPECT_EQ(joined.reason, FinishReason::kLength);
  EXPECT(joined.stop_string == "end");
  EXPECT_EQ(joined.status.code(), StatusCode::kInternal);
  EXPECT_EQ(joined.usage.output_tokens, 9U);
  EXPECT(joined.repetition.has_value());
  EXPECT_EQ(joined.timings.finished_ms, 4.0);
}

TEST(AGenerationThatWaitsForCellsStillWaits) {
  OutputList list;
  GenerationOutput waits = Output(1);
  waits.cells = CellDemand{.least = 10, .wanted = 20};
  list.Add(waits);
  list.Add(Text(1, "a"));
  REQUIRE(list.begin()->cells.has_value());
  EXPECT_EQ(list.begin()->cells->least, 10U);
  waits.cells = CellDemand{.least = 30, .wanted = 40};
  list.Add(waits);
  EXPECT_EQ(list.begin()->cells->least, 30U);
}

TEST(WheneverItIsTakenNothingIsLostOrReordered) {
  std::mt19937 random(1);
  OutputList list;
  std::map<GenerationId, std::string> sent;
  std::map<GenerationId, std::string> heard;
  for (int i = 0; i < 5000; ++i) {
    const GenerationId id = random() % 6;
    const std::string text(random() % 3, static_cast<char>('a' + i % 26));
    sent[id] += text;
    list.Add(Text(id, text));
    if (random() % 8 != 0 && i != 4999) continue;
    for (const GenerationOutput& output : list.Take()) heard[output.id] += output.text;
  }
  EXPECT(heard == sent);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
