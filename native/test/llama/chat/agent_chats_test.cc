// With every chat template of llama.cpp's tree, the chats that agents send are
// rendered, and the prompt has all of their texts.
#include <string>
#include <utility>
#include <vector>

#include "test.h"
#include "tool_templates.h"

namespace svc {
namespace {

using Chat = std::vector<ChatMessage>;

// As Anthropic's and OpenAI's clients name calls.
const std::string kId = "toolu_01A09q90qw90lq917835lq9";
const std::string kOtherId = "call_abc123abc123abc123abc123";

// Several templates leave out the text before a call.
const std::string kBeforeCall = "LetMeSee";

ToolCall CallOf(const std::string& id, const std::string& path) {
  return {.id = id, .name = "read_file", .arguments = R"({"path":")" + path + R"("})"};
}

ChatMessage Calls(std::vector<ToolCall> calls, const std::string& text = "") {
  return {.role = "assistant", .content = text, .tool_calls = std::move(calls)};
}

ChatMessage Result(const std::string& text, const std::string& id = kId) {
  return {.role = "tool", .content = text, .tool_call_id = id, .tool_name = "read_file"};
}

const ToolCall kFirst = CallOf(kId, "P1");
const ToolCall kSecond = CallOf(kOtherId, "P2");

// What templates leave out by design.
bool MayLose(const std::string& name, const std::string& text) {
  // The system message, unless the chat ends with the user.
  if (name == "mistralai-Mistral-Nemo-Instruct-2407.jinja") return text == "T0";
  // A call after a text.
  return name == "llama-cpp-deepseek-r1.jinja" && text == "P1";
}

struct Shape {
  const char* name;
  Chat chat;
};

// The last text of each is the newest.
const std::vector<Shape> kShapes = {
    {"a call and its result", {{"user", "T1"}, Calls({kFirst}), Result("T2")}},
    {"a text before the call", {{"user", "T1"}, Calls({kFirst}, kBeforeCall), Result("T2")}},
    {"several calls",
     {{"user", "T1"}, Calls({kFirst, kSecond}), Result("T2"), Result("T3", kOtherId)}},
    {"several calls, answered in another order",
     {{"user", "T1"},
      Calls({kFirst, kSecond}),
      Result("T2", kOtherId),
      Result("T3"),
      {"assistant", "T4"},
      {"user", "T5"}}},
    {"one call after the other",
     {{"user", "T1"}, Calls({kFirst}), Result("T2"), Calls({kSecond}), Result("T3", kOtherId)}},
    {"a text of the user after the result",
     {{"user", "T1"}, Calls({kFirst}), Result("T2"), {"user", "T3"}}},
    {"the same, earlier",
     {{"user", "T1"},
      Calls({kFirst}),
      Result("T2"),
      {"user", "T3"},
      {"assistant", "T4"},
      {"user", "T5"}}},
    {"a system message after the result",
     {{"system", "T0"}, {"user", "T1"}, Calls({kFirst}), Result("T2"), {"system", "T3"}}},
    {"a developer's message after an answer",
     {{"developer", "T0"},
      {"user", "T1"},
      {"assistant", "T2"},
      {"developer", "T3"},
      {"user", "T4"}}},
    {"two system messages", {{"system", "T0"}, {"developer", "T1"}, {"user", "T2"}}},
    {"an answer and a new question",
     {{"system", "T0"},
      {"user", "T1"},
      Calls({kFirst}),
      Result("T2"),
      {"assistant", "T3"},
      {"user", "T4"},
      Calls({kSecond}),
      Result("T5", kOtherId)}},
    {"a call without a result", {{"user", "T1"}, Calls({kFirst}), {"user", "T2"}}},
    {"no arguments",
     {{"user", "T1"}, Calls({{.id = kId, .name = "read_file", .arguments = "{}"}}), Result("T2")}},
    {"two questions", {{"user", "T1"}, {"user", "T2"}, Calls({kFirst}), Result("T3")}},
    {"a call begins",
     {{"system", "T0"}, Calls({kFirst}), Result("T1"), {"assistant", "T2"}, {"user", "T3"}}},
};

std::vector<std::string> TextsOf(const Chat& chat) {
  std::vector<std::string> texts;
  for (const ChatMessage& message : chat) {
    for (const ToolCall& call : message.tool_calls) {
      for (const char* path : {"P1", "P2"}) {
        if (call.arguments.find(path) != std::string::npos) texts.emplace_back(path);
      }
    }
    if (message.content != kBeforeCall && !message.content.empty()) {
      texts.push_back(message.content);
    }
  }
  return texts;
}

void CheckShape(const test::Template& each, const ChatRenderer& renderer, const Shape& shape,
                const ChatOptions& options) {
  const std::string where = each.name + ", " + shape.name;
  const auto rendered = renderer.Render(shape.chat, options);
  if (!rendered.ok()) return test::Fail(where.c_str(), 0, rendered.status().message());
  const std::string& prompt = rendered.value();
  const std::vector<std::string> texts = TextsOf(shape.chat);
  const std::size_t newest = prompt.rfind(texts.back());
  for (const std::string& text : texts) {
    const std::size_t found = prompt.find(text);
    if (found == std::string::npos && MayLose(each.name, text)) continue;
    if (found == std::string::npos || found > newest) {
      return test::Fail(where.c_str(), 0, "no " + text + " in its place in " + prompt);
    }
  }
}

TEST(ChatsOfAgentsAreRenderedWithAllTheirTexts) {
  ChatOptions options;
  options.reasoning_effort = ReasoningEffort::kNone;
  options.tools = {{.name = "read_file",
                    .description = "Reads",
                    .parameters = R"({"type":"object","properties":{"path":{"type":"string"}}})"}};
  test::ForEachThatTakesTools(
      [&](const test::Template& each, const ChatRenderer& renderer) {
        for (const Shape& shape : kShapes) CheckShape(each, renderer, shape, options);
      },
      test::kFewWithSanitizers);
}

// Also with a model that calls no tools, and in a turn that offers none.
TEST(WithoutToolsAllOfTheChatIsRenderedToo) {
  ChatOptions options;
  options.reasoning_effort = ReasoningEffort::kNone;
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  for (const test::Template& each : test::Templates()) {
    const auto renderer = ChatRenderer::New(*model, each.source);
    REQUIRE(renderer.ok());
    for (const Shape& shape : kShapes) CheckShape(each, *renderer.value(), shape, options);
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
