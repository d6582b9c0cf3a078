// With every chat template of llama.cpp's tree: a chat whose options are known gets the prompt and
// the format that the analysis finds for it.
#include "engine/llama/answer/answer_formats.h"

#include <algorithm>
#include <map>
#include <thread>

#include "chat.h"
#include "engine/llama/chat/chat_renderer.h"
#include "models.h"
#include "test.h"
#include "tool_templates.h"

namespace svc {
namespace {

using Chat = std::vector<ChatMessage>;

// Chats that a template may render in different ways, each with another end.
std::vector<Chat> Chats() {
  const ChatMessage system = {.role = "system", .content = "Be brief."};
  const ChatMessage question = {.role = "user", .content = " Which\nphase?"};
  const auto call = [](const char* id, const char* day) {
    return ToolCall{
        .id = id, .name = "moon_phase_on", .arguments = std::string(R"({"day":")") + day + "\"}"};
  };
  const ChatMessage called = {.role = "assistant",
                              .content = "Let me see.",
                              .reasoning = "First the phase.",
                              .tool_calls = {call("abcdefghi", "q7")}};
  const ChatMessage twice = {.role = "assistant",
                             .content = "",
                             .tool_calls = {call("abcdefghi", "q7"), call("jklmnopqr", "q8")}};
  const ChatMessage full = {.role = "tool", .content = "full", .tool_call_id = "abcdefghi"};
  const ChatMessage other = {
      .role = "tool", .content = R"({"is":"new"})", .tool_call_id = "jklmnopqr"};
  const ChatMessage answer = {.role = "assistant", .content = "Full.", .reasoning = "It says so."};
  return {{question},
          {system, question, called, full},
          {system, question, called, full, answer, question},
          {question, answer, question},
          {question, twice, full, other},
          {{.role = "developer", .content = "Be brief."},
           question,
           twice,
           full,
           other,
           answer,
           {.role = "user", .content = "</think> Thanks"}}};
}

// `version` changes the options without changing what the analysis finds.
ChatOptions OptionsWith(ToolChoice choice, std::size_t version) {
  ChatOptions options;
  options.tools = {{.name = "moon_phase_on",
                    .description = "Phase of the moon, version " + std::to_string(version),
                    .parameters = R"({"type":"object","properties":{"day":{"type":"string"}},)"
                                  R"("required":["day"]})"},
                   {.name = "wait", .description = "Wait", .parameters = R"({"type":"object"})"}};
  options.tool_choice = choice;
  return options;
}

// All of a format, as text.
std::string Described(const AnswerFormat& format) {
  std::string text = format.parser->parser.save() + format.parser->generation_prompt +
                     format.grammar + format.calls_beside_format + format.continued +
                     format.thinking_start;
  const auto add = [&text](const char* label, const std::vector<std::string>& parts) {
    text += std::string("\n") + label;
    for (const std::string& part : parts) text += '[' + part + ']';
  };
  if (format.trigger) add("words", format.trigger->words);
  if (format.trigger) add("patterns", format.trigger->patterns);
  add("marks", format.marks.words);
  add("marks' patterns", format.marks.patterns);
  add("spelled", format.spelled_tokens);
  add("stop", format.stop);
  add("ends", format.thinking_ends);
  return text;
}

// Compares the first rendering of a chat, which analyses it, with the second one. Returns the
// format; null: the template refuses the chat.
std::shared_ptr<const AnswerFormat> RenderedTwice(const char* name, const ChatRenderer& renderer,
                                                  const Chat& chat, const ChatOptions& options) {
  const Result<ChatPrompt> first = renderer.RenderTokens(chat, options);
  const Result<ChatPrompt> second = renderer.RenderTokens(chat, options);
  if (first.ok() != second.ok()) test::Fail(name, 0, "only one of two renderings is refused");
  if (!first.ok() || !second.ok()) return nullptr;
  if (first.value().tokens != second.value().tokens) test::Fail(name, 0, "the prompts differ");
  if (first.value().format != second.value().format) test::Fail(name, 0, "the format is not kept");
  return first.value().format;
}

void CheckTemplate(const test::Template& each, const ChatRenderer& renderer,
                   std::size_t* rendered) {
  const char* const name = each.name.c_str();
  // What the analysis finds, by the end of the prompt.
  std::map<std::string, std::string> found;
  std::size_t version = 1;
  for (const Chat& chat : Chats()) {
    const auto format =
        RenderedTwice(name, renderer, chat, OptionsWith(ToolChoice::kAuto, version++));
    if (format == nullptr) continue;
    ++*rendered;
    const auto [known, is_new] = found.emplace(format->generation_prompt, Described(*format));
    if (!is_new && known->second != Described(*format)) {
      test::Fail(name, 0, "the format depends on the messages");
    }
    // The other chats with these options may have another end.
    const auto shared = RenderedTwice(name, renderer, chat, OptionsWith(ToolChoice::kAuto, 0));
    if (shared == nullptr || Described(*shared) != Described(*format) ||
        shared->generation_prompt != format->generation_prompt) {
      test::Fail(name, 0, "a chat gets the format of another one");
    }
  }
  // The prompt does not depend on the answer's options.
  const Chat chat = Chats()[1];
  const ChatOptions options = OptionsWith(ToolChoice::kAuto, 0);
  const auto prompt = renderer.RenderTokens(chat, options);
  const auto check = [&](const ChatOptions& changed) {
    if (RenderedTwice(name, renderer, chat, changed) == nullptr) return;
    if (renderer.RenderTokens(chat, changed).value().tokens != prompt.value().tokens) {
      test::Fail(name, 0, "the prompt depends on the answer");
    }
  };
  check(OptionsWith(ToolChoice::kNone, 0));
  ChatOptions changed = OptionsWith(ToolChoice::kRequired, 0);
  check(changed);
  changed.tool_name = "wait";
  check(changed);
  changed = options;
  changed.has_output_format = true;
  check(changed);
  changed = options;
  changed.parallel_tool_calls = false;
  check(changed);
}

TEST(AKnownChatGetsWhatTheAnalysisFinds) {
  test::ForEachThatTakesTools(
      [](const test::Template& each, const ChatRenderer& renderer) {
        std::size_t rendered = 0;
        CheckTemplate(each, renderer, &rendered);
        EXPECT(rendered >= 4);
      },
      test::kFewWithSanitizers);
}

struct OneModel {
  std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::ModelPath("tiny-qwen2"));
  std::unique_ptr<ChatRenderer> renderer = std::move(ChatRenderer::New(*model).value());

  std::shared_ptr<const AnswerFormat> FormatOf(const Chat& chat, const ChatOptions& options) const {
    Result<ChatPrompt> prompt = renderer->RenderTokens(chat, options);
    if (prompt.ok()) return std::move(prompt.value().format);
    test::Fail(__FILE__, __LINE__, prompt.status().message());
    return nullptr;
  }
};

TEST(EveryOptionHasItsOwnFormat) {
  const OneModel model;
  const Chat chat = Chats()[1];
  const ChatOptions options = OptionsWith(ToolChoice::kAuto, 0);
  const auto format = model.FormatOf(chat, options);
  const auto differs = [&](const char* what, auto change) {
    ChatOptions changed = options;
    change(changed);
    if (model.FormatOf(chat, changed) == format) test::Fail(what, 0, "has the same format");
  };
  differs("tool_choice", [](ChatOptions& o) { o.tool_choice = ToolChoice::kRequired; });
  differs("tool_name", [](ChatOptions& o) { o.tool_name = "wait"; });
  differs("parallel_tool_calls", [](ChatOptions& o) { o.parallel_tool_calls = false; });
  differs("reasoning_effort", [](ChatOptions& o) { o.reasoning_effort = ReasoningEffort::kNone; });
  differs("output format", [](ChatOptions& o) { o.has_output_format = true; });
  differs("a tool more",
          [](ChatOptions& o) { o.tools.push_back({.name = "x", .parameters = "{}"}); });
  differs("a tool less", [](ChatOptions& o) { o.tools.pop_back(); });
  differs("name", [](ChatOptions& o) { o.tools[1].name = "stay"; });
  differs("parameters", [](ChatOptions& o) { o.tools[1].parameters = R"({"type": "object"})"; });
  differs("grammar", [](ChatOptions& o) { o.tools[1].grammar = "x ::= \"{}\""; });
  differs("any_grammar", [](ChatOptions& o) { o.any_grammar = "y ::= \"{}\""; });
  differs("arguments", [](ChatOptions& o) {
    o.tools[1].arguments = std::vector<ToolArgument>{{.name = "x", .json = "\"1\""}};
  });
  differs("variables", [](ChatOptions& o) { o.template_variables = {{"x", "1"}}; });
}

TEST(TheFormatsUsedLastAreKept) {
  const OneModel model;
  const Chat chat = Chats()[0];
  const auto format_of = [&](std::size_t version) {
    return model.FormatOf(chat, OptionsWith(ToolChoice::kAuto, version));
  };
  std::vector<std::shared_ptr<const AnswerFormat>> formats;
  for (std::size_t i = 0; i < AnswerFormats::kMost; ++i) formats.push_back(format_of(i));
  EXPECT(format_of(0) == formats[0]);
  (void)format_of(AnswerFormats::kMost);
  EXPECT(format_of(0) == formats[0]);
  EXPECT(format_of(2) == formats[2]);
  EXPECT(format_of(1) != formats[1]);
}

TEST(NoMoreIsKeptThanFits) {
  const OneModel model;
  const Chat chat = Chats()[0];
  const auto options = [](char name, std::size_t megabytes) {
    ChatOptions made = OptionsWith(ToolChoice::kAuto, 0);
    made.tools[1].name = name;
    made.tools[1].grammar = std::string("x ::= \"") + std::string(megabytes << 20U, 'x') + "\"";
    return made;
  };
  EXPECT(model.FormatOf(chat, options('a', 40)) != model.FormatOf(chat, options('a', 40)));
  const auto first = model.FormatOf(chat, options('b', 20));
  EXPECT(model.FormatOf(chat, options('b', 20)) == first);
  (void)model.FormatOf(chat, options('c', 20));
  EXPECT(model.FormatOf(chat, options('b', 20)) != first);
}

TEST(TextThatIsContinuedIsThatOfTheChat) {
  const OneModel model;
  ChatOptions options = OptionsWith(ToolChoice::kAuto, 0);
  options.continue_last = true;
  for (const std::string begun : {"It is", "It was"}) {
    const auto format = model.FormatOf({{"user", "Which?"}, {"assistant", begun}}, options);
    REQUIRE(format != nullptr);
    EXPECT_EQ(format->continued, begun);
    EXPECT(format->generation_prompt.ends_with(begun));
  }
}

// What a control token in a message is written as must not get into the format, or miss the one
// that is kept.
TEST(AGuardedChatHasTheFormatOfItsTexts) {
  const OneModel model;
  ChatOptions options = OptionsWith(ToolChoice::kAuto, 0);
  options.tools[1].name = "<|im_end|>";
  Chat chat = Chats()[1];
  const auto format = model.FormatOf(chat, options);
  REQUIRE(format != nullptr);
  EXPECT(format->grammar.find("<|im_end|>") != std::string::npos);
  chat.back().content = "<|im_start|> is not a phase";
  EXPECT(model.FormatOf(chat, options) == format);
}

TEST(ManyThreadsMayAskAtOnce) {
  const OneModel model;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (std::size_t round = 0; round < 6; ++round) {
        const ChatOptions options = OptionsWith(ToolChoice::kAuto, (i + round) % 10);
        const auto format = model.FormatOf(Chats()[round % 2], options);
        EXPECT(format != nullptr && !format->grammar.empty());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace svc

TEST_MAIN()
