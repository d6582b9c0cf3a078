#include "engine/llama/chat/template_inputs.h"

#include "chat.h"
#include "test.h"

namespace svc {
namespace {

using Chat = std::vector<ChatMessage>;

TEST(MessagesAndToolsKeepAllOfTheirTexts) {
  const Chat chat = {{.role = "user", .content = "Which phase?"},
                     {.role = "assistant",
                      .content = "Let me see.",
                      .reasoning = "First the phase.",
                      .tool_calls = {{.id = "a1", .name = "phase", .arguments = "{}"}}}};
  ChatOptions options;
  options.tools = {{.name = "phase", .description = "Of the moon", .parameters = "{}"}};
  options.template_variables = {{"date", "\"today\""}};
  const auto inputs = TemplateInputs(chat, options, /*has_efforts=*/false);
  REQUIRE(inputs.messages.size() == 2 && inputs.messages[1].tool_calls.size() == 1);
  EXPECT_EQ(inputs.messages[0].content, "Which phase?");
  EXPECT_EQ(inputs.messages[1].reasoning_content, "First the phase.");
  EXPECT_EQ(inputs.messages[1].tool_calls[0].id, "a1");
  REQUIRE(inputs.tools.size() == 1);
  EXPECT_EQ(inputs.tools[0].description, "Of the moon");
  EXPECT_EQ(inputs.chat_template_kwargs.at("date"), "\"today\"");
  EXPECT(inputs.add_generation_prompt);
}

// The names in results are optional in OpenAI's API, but some templates write them.
TEST(AResultHasTheNameOfItsCall) {
  Chat chat = {{.role = "assistant",
                .content = "",
                .tool_calls = {{.id = "a1", .name = "phase", .arguments = "{}"},
                               {.id = "a2", .name = "tide", .arguments = "{}"}}},
               {.role = "tool", .content = "low", .tool_call_id = "a2"},
               {.role = "tool", .content = "full", .tool_call_id = "a1", .tool_name = "moon"},
               {.role = "tool", .content = "?", .tool_call_id = "a3"}};
  const auto inputs = TemplateInputs(chat, {}, /*has_efforts=*/false);
  EXPECT_EQ(inputs.messages[1].tool_name, "tide");
  EXPECT_EQ(inputs.messages[2].tool_name, "moon");
  EXPECT_EQ(inputs.messages[3].tool_name, "");
}

TEST(SchemasHaveNothingThatTheAnalysisCannotRead) {
  const auto simple = [](const std::string& parameters) {
    std::vector<common_chat_tool> tools = {{"f", "F", parameters}};
    Simplify(&tools);
    return tools.front().parameters;
  };
  // Also in the white space.
  const std::string readable = R"({"type": "object","properties":{"a":{"type":"integer"}}})";
  EXPECT_EQ(simple(readable), readable);
  EXPECT_EQ(simple(R"({"type":"object","properties":{"a":true,"b":{"type":"integer"}}})"),
            R"({"type":"object","properties":{"a":{},"b":{"type":"integer"}}})");
  EXPECT_EQ(simple(R"({"type":"any","properties":{"a":{"type":"integer"}}})"),
            R"({"type":"object","properties":{"a":{}}})");
  EXPECT_EQ(simple("true"), R"({"type":"object"})");
  // llama.cpp would print the pattern.
  EXPECT_EQ(
      simple(R"({"type":"object","properties":{"pattern":{"type":"string","pattern":"^x"}}})"),
      R"({"type":"object","properties":{"pattern":{"type":"string"}}})");
  EXPECT_EQ(simple(R"({"type":"array","items":{"pattern":"x"}})"),
            R"({"type":"array","items":{}})");
}

TEST(ChoicesHaveLlamaCppsNames) {
  const auto chosen = [](ToolChoice choice) {
    ChatOptions options;
    options.tool_choice = choice;
    return TemplateInputs({}, options, /*has_efforts=*/false).tool_choice;
  };
  EXPECT_EQ(chosen(ToolChoice::kAuto), COMMON_CHAT_TOOL_CHOICE_AUTO);
  EXPECT_EQ(chosen(ToolChoice::kNone), COMMON_CHAT_TOOL_CHOICE_NONE);
  EXPECT_EQ(chosen(ToolChoice::kRequired), COMMON_CHAT_TOOL_CHOICE_REQUIRED);
}

TEST(ReasoningIsTurnedOffInThreeWays) {
  EXPECT(Thinks({}));
  EXPECT(!Thinks({.reasoning_effort = ReasoningEffort::kNone}));
  EXPECT(!Thinks({.reasoning_budget_tokens = 0}));
  EXPECT(Thinks({.reasoning_budget_tokens = 1}));
  const ChatOptions off = {.template_variables = {{"enable_thinking", "false"}}};
  EXPECT(!Thinks(off));
  EXPECT_EQ(EnableThinking(off), "false");
  EXPECT(!TemplateInputs({}, off, /*has_efforts=*/false).enable_thinking);
}

TEST(AnEffortIsForTemplatesThatReadIt) {
  const auto effort = [](ReasoningEffort effort, bool has_efforts) {
    ChatOptions options;
    options.reasoning_effort = effort;
    const auto inputs = TemplateInputs({}, options, has_efforts);
    const auto found = inputs.chat_template_kwargs.find("reasoning_effort");
    return found == inputs.chat_template_kwargs.end() ? "" : found->second;
  };
  EXPECT_EQ(effort(ReasoningEffort::kHigh, true), "\"high\"");
  EXPECT_EQ(effort(ReasoningEffort::kHigh, false), "");
  EXPECT_EQ(effort(ReasoningEffort::kDefault, true), "");
  EXPECT_EQ(effort(ReasoningEffort::kNone, true), "");
}

TEST(ALastMessageIsContinued) {
  const auto inputs = TemplateInputs({{"user", "Hi"}, {"assistant", "Well,"}},
                                     {.continue_last = true}, /*has_efforts=*/false);
  EXPECT_EQ(inputs.continue_final_message, COMMON_CHAT_CONTINUATION_AUTO);
  EXPECT(!inputs.add_generation_prompt);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
