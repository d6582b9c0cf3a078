// Tool calls and reasoning in a complete engine, with random weights.
#include <string>
#include <vector>

#include "json.h"
#include "loaded_engine.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

constexpr const char* kParameters =
    R"({"type":"object","properties":{"phase":{"enum":["new","full"]},"day":{"type":"integer"}},)"
    R"("required":["phase","day"]})";
// As the daemon compiles that schema.
constexpr const char* kGrammar =
    "arguments-0-root ::= \"{\\\"phase\\\": \" (\"\\\"new\\\"\" | \"\\\"full\\\"\") \", "
    "\\\"day\\\": \" "
    "arguments-0-r0 \"}\"\narguments-0-r0 ::= [1-9] [0-9]{0,3}\n";

Tool Moon() {
  return {.name = "set_moon",
          .description = "Sets the moon",
          .parameters = kParameters,
          .grammar = kGrammar,
          .strict = true};
}

GenerationRequest Chat(GenerationId id, std::uint32_t seed, ToolChoice choice) {
  GenerationRequest request;
  request.id = id;
  request.messages = {{"user", "Make it " + std::to_string(seed)}};
  request.sampling.seed = seed;
  request.max_tokens = 200;
  request.chat.tools = {Moon()};
  request.chat.tool_choice = choice;
  return request;
}

bool IsValid(const ToolCall& call) {
  const common_json arguments = common_json::parse(call.arguments);
  const std::string phase = arguments.at("phase").get<std::string>();
  return call.name == "set_moon" && arguments.size() == 2 && (phase == "new" || phase == "full") &&
         arguments.at("day").get<int>() > 0;
}

void ExpectValidCalls(const std::string& model) {
  const auto loaded = test::LoadEngine(model);
  REQUIRE(loaded != nullptr);
  const std::uint32_t calls = test::kSanitized ? 20 : 200;
  std::uint32_t valid = 0;
  for (GenerationId id = 1; id <= calls; ++id) {
    GenerationRequest request = Chat(id, id, ToolChoice::kRequired);
    request.chat.parallel_tool_calls = false;
    const Result<std::uint32_t> submitted = loaded->engine->Submit(std::move(request));
    if (!submitted.ok()) test::Fail(__FILE__, __LINE__, submitted.status().message());
    REQUIRE(submitted.ok() && loaded->listener.WaitFor(id));
    const test::Answer answer = loaded->listener.Answer(id);
    const bool is_valid = answer.calls.size() == 1 && answer.content.empty() && answer.is_sound &&
                          IsValid(answer.calls[0]) &&
                          loaded->listener.End(id).reason == FinishReason::kToolCalls;
    valid += is_valid ? 1 : 0;
    if (!is_valid) test::Fail(__FILE__, __LINE__, test::Show(answer));
  }
  EXPECT_EQ(valid, calls);
}

TEST(ACallThatMustHappenIsValid) { ExpectValidCalls(test::TinyModels()[1]); }

TEST(AModelWhoseTemplateKnowsNoToolsCallsThemToo) {
  for (const std::size_t index : {0U, 2U}) {
    const std::string path = test::TinyModels()[index];
    const auto loaded = test::LoadEngine(path);
    REQUIRE(loaded != nullptr && !loaded->engine->info().calls_tools);
    ExpectValidCalls(path);
  }
}

TEST(AModelMayAnswerInstead) {
  const auto loaded = test::LoadEngine(test::TinyModels()[1]);
  REQUIRE(loaded != nullptr);
  for (const ToolChoice choice : {ToolChoice::kAuto, ToolChoice::kNone}) {
    const auto id = static_cast<GenerationId>(choice) + 1;
    GenerationRequest request = Chat(id, 7, choice);
    request.max_tokens = 24;
    REQUIRE(loaded->engine->Submit(std::move(request)).ok() && loaded->listener.WaitFor(id));
    const test::Answer answer = loaded->listener.Answer(id);
    EXPECT(answer.calls.empty() && !answer.content.empty());
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
