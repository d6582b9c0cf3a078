// Reasoning in a complete engine: a model with random weights whose template opens the reasoning.
#include <string>
#include <vector>

#include "loaded_engine.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

constexpr std::uint32_t kBudget = 8;

std::unique_ptr<test::Loaded> LoadThinker() {
  return test::LoadEngine(test::ModelPath("tiny-thinker"));
}

GenerationRequest Chat(GenerationId id) {
  GenerationRequest request;
  request.id = id;
  request.messages = {{"user", "How many?"}};
  request.sampling.seed = id;
  request.max_tokens = 60;
  return request;
}

test::Answer Ask(test::Loaded& loaded, GenerationRequest request) {
  const GenerationId id = request.id;
  const Result<std::uint32_t> submitted = loaded.engine->Submit(std::move(request));
  if (!submitted.ok()) test::Fail(__FILE__, __LINE__, submitted.status().message());
  EXPECT(submitted.ok() && loaded.listener.WaitFor(id));
  return loaded.listener.Answer(id);
}

TEST(ReasoningEndsAtItsBudgetAndTheAnswerFollows) {
  const auto loaded = LoadThinker();
  REQUIRE(loaded != nullptr && loaded->engine->info().thinks);
  // Without a budget, random weights never end it.
  const test::Answer endless = Ask(*loaded, Chat(1));
  EXPECT(!endless.reasoning.empty() && endless.content.empty());

  GenerationRequest request = Chat(2);
  request.chat.reasoning_budget_tokens = kBudget;
  const test::Answer answer = Ask(*loaded, std::move(request));
  EXPECT(!answer.reasoning.empty() && !answer.content.empty());
  EXPECT(answer.reasoning.find("</think>") == std::string::npos);
  EXPECT(answer.content.find("</think>") == std::string::npos);
  const std::string longest = loaded->engine->Detokenize(
      loaded->engine->Tokenize(answer.reasoning, false, false).value(), false);
  EXPECT(loaded->engine->Tokenize(longest, false, false).value().size() <= 4 * kBudget);
  EXPECT_EQ(loaded->listener.End(2).reason, FinishReason::kLength);
}

TEST(AnEffortOfNoneAnswersAtOnce) {
  const auto loaded = LoadThinker();
  REQUIRE(loaded != nullptr);
  for (const bool by_effort : {true, false}) {
    GenerationRequest request = Chat(by_effort ? 1 : 2);
    if (by_effort) request.chat.reasoning_effort = ReasoningEffort::kNone;
    if (!by_effort) request.chat.reasoning_budget_tokens = 0;
    const test::Answer answer = Ask(*loaded, std::move(request));
    EXPECT(answer.reasoning.empty() && !answer.content.empty());
  }
}

TEST(AFormatBeginsAfterTheReasoning) {
  const auto loaded = LoadThinker();
  REQUIRE(loaded != nullptr);
  GenerationRequest request = Chat(1);
  request.grammar = "root ::= \"yes\" | \"no\"";
  request.chat.reasoning_budget_tokens = kBudget;
  const test::Answer answer = Ask(*loaded, std::move(request));
  EXPECT(!answer.reasoning.empty());
  EXPECT(answer.content == "yes" || answer.content == "no");
  EXPECT_EQ(loaded->listener.End(1).reason, FinishReason::kStop);
}

TEST(ACallComesAfterTheReasoning) {
  const auto loaded = LoadThinker();
  REQUIRE(loaded != nullptr && loaded->engine->info().calls_tools);
  GenerationRequest request = Chat(1);
  request.max_tokens = 200;
  request.chat.reasoning_budget_tokens = kBudget;
  request.chat.tool_choice = ToolChoice::kRequired;
  request.chat.parallel_tool_calls = false;
  request.chat.tools = {
      {.name = "add",
       .description = "Adds",
       .parameters =
           R"({"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]})"}};
  const test::Answer answer = Ask(*loaded, std::move(request));
  EXPECT(!answer.reasoning.empty() && answer.content.empty());
  REQUIRE(answer.calls.size() == 1);
  EXPECT_EQ(answer.calls[0].name, "add");
}

TEST(AModelThatDoesNotThinkRefusesEffortsAndBudgets) {
  const auto loaded = test::LoadEngine(test::TinyModels()[1]);
  REQUIRE(loaded != nullptr);
  GenerationRequest request = Chat(1);
  request.chat.reasoning_effort = ReasoningEffort::kLow;
  Result<std::uint32_t> refused = loaded->engine->Submit(request);
  REQUIRE(!refused.ok());
  EXPECT_EQ(refused.status().param(), "reasoning_effort");
  request.chat.reasoning_effort = ReasoningEffort::kNone;
  request.chat.reasoning_budget_tokens = 1;
  refused = loaded->engine->Submit(request);
  REQUIRE(!refused.ok());
  EXPECT_EQ(refused.status().param(), "reasoning_budget_tokens");
  request.chat.reasoning_budget_tokens = 0;
  EXPECT(!Ask(*loaded, std::move(request)).content.empty());
}

}  // namespace
}  // namespace svc

TEST_MAIN()
