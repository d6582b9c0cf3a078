// What is made of llama.cpp's findings on a template: where calls begin, their grammar, and whether
// the prompt ends within the reasoning.
#include "engine/llama/answer/answer_format.h"

#include <memory>
#include <string>
#include <vector>

#include "chat-peg-parser.h"
#include "chat.h"
#include "test.h"

namespace svc {
namespace {

AnswerFormat Thinking(const std::string& prompt) {
  AnswerFormat format;
  format.generation_prompt = prompt;
  format.thinking_start = "<think>";
  format.thinking_ends = {"</think>", "<answer>"};
  return format;
}

TEST(TheReasoningIsOpenBehindItsStartAndBeforeAnyOfItsEnds) {
  EXPECT(OpensThinking(Thinking("<|assistant|><think>")));
  EXPECT(OpensThinking(Thinking("<|assistant|><think>\nFirst, ")));
  EXPECT(!OpensThinking(Thinking("<|assistant|>")));
  EXPECT(!OpensThinking(Thinking("")));
  EXPECT(!OpensThinking(Thinking("<|assistant|><think></think>")));
  EXPECT(!OpensThinking(Thinking("<|assistant|><think>x<answer>y")));
  // The last start counts.
  EXPECT(OpensThinking(Thinking("<think>a</think><think>b")));
  EXPECT(!OpensThinking(Thinking("</think><think>a</think>")));
  EXPECT(OpensThinking(Thinking("</think><think>")));
  // A content that is continued quotes it.
  AnswerFormat quoting = Thinking("<think>a</think>The tag <think> ");
  quoting.continued = "The tag <think> ";
  EXPECT(!OpensThinking(quoting));
  quoting.continued = "tag <think> and more";
  EXPECT(OpensThinking(quoting));
  // A template without tags.
  AnswerFormat none = Thinking("<think>");
  none.thinking_ends.clear();
  EXPECT(!OpensThinking(none));
}

// Findings on a format whose calls are "[name{...}]" behind "<call>".
common_chat_params Found() {
  common_chat_peg_builder p;
  p.set_root(p.content(p.until("<call>")) +
             p.optional(p.literal("<call>") +
                        p.tool(p.tool_name(p.until("{")) + p.tool_args(p.json())) + p.end()));
  common_chat_params found;
  found.parser = p.build().save();
  found.format = COMMON_CHAT_FORMAT_PEG_NATIVE;
  found.generation_prompt = "<|assistant|>";
  found.preserved_tokens = {"<call>", "<end>"};
  found.additional_stops = {"<stop>"};
  found.thinking_start_tag = "<think>";
  found.thinking_end_tags = {"</think>"};
  return found;
}

std::shared_ptr<const AnswerFormat> Made(const common_chat_params& found,
                                         const ChatOptions& options = {}) {
  const auto format = MakeAnswerFormat(found, options);
  if (format.ok()) return format.value();
  test::Fail(__FILE__, __LINE__, format.status().message());
  return std::make_shared<AnswerFormat>();
}

TEST(WhatWasFoundIsTakenOver) {
  const auto format = Made(Found());
  EXPECT_EQ(format->generation_prompt, "<|assistant|>");
  EXPECT((format->spelled_tokens == std::vector<std::string>{"<call>", "<end>"}));
  EXPECT((format->stop == std::vector<std::string>{"<stop>"}));
  EXPECT_EQ(format->thinking_start, "<think>");
  EXPECT((format->thinking_ends == std::vector<std::string>{"</think>"}));
  REQUIRE(format->parser != nullptr);
  EXPECT(format->parser->reasoning_format == COMMON_REASONING_FORMAT_DEEPSEEK);
  EXPECT(!format->parser->is_continuation);
  EXPECT(!format->parser->parser.empty());
  EXPECT(Made(Found(), {.continue_last = true})->parser->is_continuation);
  // Without tools there is nothing to enforce.
  EXPECT(format->grammar.empty() && !format->trigger.has_value());
}

Tool Named(const std::string& name, bool strict = false) {
  return {.name = name, .parameters = "{\"type\":\"object\"}", .strict = strict};
}

// The same with a mark.
common_chat_params FoundWithMark() {
  common_chat_params found = Found();
  found.grammar = "root ::= [a-z]*";  // llama.cpp's own, in place of which ours is made
  found.grammar_lazy = true;
  found.grammar_triggers = {{.type = COMMON_GRAMMAR_TRIGGER_TYPE_WORD, .value = "<call>"},
                            {.type = COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN, .value = "<[cd]all>"},
                            {.type = COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL, .value = "x*y"}};
  return found;
}

TEST(TheGrammarOfCallsBeginsWithTheirMark) {
  const ChatOptions options{.tools = {Named("a")}};
  const auto format = Made(FoundWithMark(), options);
  EXPECT(!format->grammar.empty());
  REQUIRE(format->trigger.has_value());
  EXPECT((format->trigger->words == std::vector<std::string>{"<call>"}));
  EXPECT((format->trigger->patterns == std::vector<std::string>{"<[cd]all>", "^x*y$"}));
  // Where no call is possible there is none.
  for (const ChatOptions& none :
       {ChatOptions{}, ChatOptions{.tools = {Named("a")}, .tool_choice = ToolChoice::kNone}}) {
    EXPECT(Made(FoundWithMark(), none)->grammar.empty());
    EXPECT(!Made(FoundWithMark(), none)->trigger.has_value());
  }
}

TEST(TheGrammarIsOfTheWholeAnswerIfThePromptEndsWithTheMark) {
  const ChatOptions options{.tools = {Named("a")}};
  common_chat_params found = FoundWithMark();
  found.generation_prompt = "<|assistant|><call>";
  EXPECT(!Made(found, options)->trigger.has_value());
  EXPECT(!Made(found, options)->grammar.empty());
  common_chat_params eager = FoundWithMark();
  eager.grammar_lazy = false;
  EXPECT(!Made(eager, options)->trigger.has_value());
  EXPECT(!Made(eager, options)->grammar.empty());
  EXPECT(Made(eager, options)->grammar != Made(FoundWithMark(), options)->grammar);
}

TEST(ATextThatIsContinuedIsNotSearchedForMarks) {
  common_chat_params found = FoundWithMark();
  found.generation_prompt = "<|assistant|>Write <call> and";
  const ChatOptions continuing{.tools = {Named("a")}, .continue_last = true};
  EXPECT(Made(found, continuing)->trigger.has_value());
  EXPECT(MakeFormatWithCalls(found, found, continuing).ok());
  // Only the end of a template's own text is.
  found.generation_prompt = "<call>" + std::string(GrammarTrigger::kWindow, ' ');
  EXPECT(Made(found, {.tools = {Named("a")}})->trigger.has_value());
}

TEST(WithoutAMarkCallsThatMustHappenCannotBeEnforced) {
  const auto status = [](const ChatOptions& options) {
    return MakeAnswerFormat(Found(), options).status();
  };
  EXPECT(status({.tools = {Named("a")}}).ok());
  EXPECT(status({.tools = {Named("a", true)}, .tool_choice = ToolChoice::kNone}).ok());
  EXPECT(status({.tool_choice = ToolChoice::kRequired}).ok());
  for (const ChatOptions& options :
       {ChatOptions{.tools = {Named("a")}, .tool_choice = ToolChoice::kRequired},
        ChatOptions{.tools = {Named("a"), Named("b", true)}}}) {
    EXPECT_EQ(status(options).code(), StatusCode::kInvalidRequest);
    EXPECT_EQ(status(options).param(), "tools");
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
