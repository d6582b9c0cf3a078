// Every chat template of llama.cpp's tree: calls as the template itself writes them, and answers
// with reasoning, content and a call, are read back wherever they are cut; a call, its result and
// the answer to it make a chat; the grammars of calls compile in svc's own automaton. What a
// template can do is compared with the table in docs/models.md.
#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "answer_test.h"
#include "doc_table.h"
#include "engine/grammar/grammar_constraint.h"
#include "engine/llama/chat/chat_renderer.h"
#include "engine/llama/chat/own_calls.h"
#include "models.h"
#include "test.h"
#include "tool_templates.h"

namespace svc {
namespace {

using test::Template;
using test::Templates;

constexpr const char* kParameters =
    R"({"type":"object","properties":{"day":{"type":"string"},"n":{"type":"integer"}},)"
    R"("required":["day","n"]})";

// The first one's name is the beginning of the other one's.
constexpr std::array<const char*, 2> kTools = {"moon_phase", "moon_phase_on"};

// Templates that write no call into the history: they have no form for calls, or (LFM2, SmolLM3)
// only for those that the model is about to make, which answer_cases_test reads.
const std::set<std::string> kNoCallIsRead = {
    "LFM2-8B-A1B.jinja",
    "LFM2.5-Instruct.jinja",
    "HuggingFaceTB-SmolLM3-3B.jinja",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja",
    "google-gemma-2-2b-it.jinja",
    "ibm-granite-granite-3.3-2B-Instruct.jinja",
    "llama-cpp-rwkv-world.jinja",
    "microsoft-Phi-3.5-mini-instruct.jinja",
    // llama.cpp's analysis does not read the calls that this template writes.
    "upstage-Solar-Open-100B.jinja",
};

common_chat_templates_inputs Question(common_chat_tool_choice choice) {
  common_chat_templates_inputs inputs;
  inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  inputs.enable_thinking = false;
  inputs.parallel_tool_calls = true;
  inputs.messages.emplace_back();
  inputs.messages.back().role = "user";
  inputs.messages.back().content = "Which phase?";
  for (const char* name : kTools) inputs.tools.push_back({name, "Phase of the moon", kParameters});
  inputs.tool_choice = choice;
  return inputs;
}

ChatOptions Options(ToolChoice choice) {
  ChatOptions options;
  options.tools.push_back(
      {.name = kTools[0], .description = "Phase of the moon", .parameters = kParameters});
  options.tools.push_back({.name = kTools[1],
                           .description = "Phase of the moon",
                           .parameters = kParameters,
                           .grammar = "moon-root ::= \"{\\\"day\\\": \\\"\" [a-z0-9]+ \"\\\"}\""});
  options.tool_choice = choice;
  return options;
}

// The calls of one answer.
const std::vector<common_chat_tool_call> kCalls = {
    {"moon_phase_on", R"({"day":"q7","n":3})", "abcdefghi"},
    {"moon_phase_on", R"({"day":"q8","n":4})", "jklmnopqr"}};

// The text that a model would write for the first `count` calls; absent: the template has no form
// for them, or refuses so many.
std::optional<std::string> WrittenCalls(const Template& each,
                                        const std::shared_ptr<const AnswerFormat>& format,
                                        std::ptrdiff_t count) {
  try {
    return OwnCalls(each.parsed.get(), Question(COMMON_CHAT_TOOL_CHOICE_AUTO), format,
                    {kCalls.begin(), kCalls.begin() + count});
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::shared_ptr<const AnswerFormat> FormatOf(const Template& each,
                                             const common_chat_templates_inputs& inputs,
                                             const ChatOptions& options) {
  auto format = MakeAnswerFormat(common_chat_templates_apply(each.parsed.get(), inputs), options);
  if (format.ok()) return std::move(format.value());
  test::Fail(each.name.c_str(), 0, format.status().message());
  return nullptr;
}

TEST(ACallIsReadAsTheTemplateWritesIt) {
  test::LoadModules();
  std::size_t read = 0;
  for (const Template& each : Templates()) {
    const char* const name = each.name.c_str();
    const auto format =
        FormatOf(each, Question(COMMON_CHAT_TOOL_CHOICE_AUTO), Options(ToolChoice::kAuto));
    REQUIRE(format != nullptr);
    const std::optional<std::string> call = WrittenCalls(each, format, 1);
    if (call.has_value() == kNoCallIsRead.contains(each.name)) {
      test::Fail(name, 0, call ? "a call was read" : "no call was read");
    }
    if (!call) continue;
    ++read;
    test::ExpectTheSameWhereverItIsCut(name, 0, format, *call);
  }
  std::printf("%zu templates\n", read);
}

const char* YesOrNo(bool is_so) { return is_so ? "yes" : "no"; }

std::string Reasoning(const ChatRenderer& renderer) {
  if (!renderer.thinks()) return "no";
  return std::string(renderer.can_answer_at_once() ? "can be left out" : "always") +
         (renderer.opens_thinking() ? ", opened by the prompt" : "");
}

TEST(TheDocumentationShowsWhatTemplatesCanDo) {
  // Its vocabulary makes no difference.
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  test::DocTable table(SVC_MODELS_PAGE, "template");
  std::set<std::string> rows;
  for (const Template& each : Templates()) {
    const std::string row = "`" + each.name.substr(0, each.name.rfind('.')) + "`";
    rows.insert(row);
    const auto renderer = ChatRenderer::New(*model, each.source);
    const auto format =
        FormatOf(each, Question(COMMON_CHAT_TOOL_CHOICE_AUTO), Options(ToolChoice::kAuto));
    REQUIRE(renderer.ok() && format != nullptr);
    table.Expect(row, "reasoning", Reasoning(*renderer.value()));
    const bool calls_tools = renderer.value()->calls_tools();
    EXPECT(renderer.value()->takes_tools());
    table.Expect(row, "tools", calls_tools ? "yes" : "as text");
    table.Expect(row, "several calls",
                 YesOrNo(!calls_tools || WrittenCalls(each, format, 2).has_value()));
  }
  table.ExpectRows(rows);
}

const std::string kReasoning = "I count the days.";
const std::string kContent = "It is \u00E9 7.";

// What stands around a content that is not just the text after the reasoning.
const std::map<std::string, std::pair<std::string, std::string>> kAroundContent = {
    {"openai-gpt-oss-120b.jinja", {"<|start|>assistant<|channel|>final<|message|>", ""}},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja",
     {"<|START_RESPONSE|>", "<|END_RESPONSE|>"}},
    {"Cohere2MoE.jinja", {"<|START_TEXT|>", "<|END_TEXT|>"}},
    {"meetkai-functionary-medium-v3.2.jinja", {"all\n", ""}},
};
// Formats whose tags for reasoning are read only in some prompts: llama.cpp looks for them in the
// template (LFM2), or the template thinks only with an effort (Hy3).
const std::set<std::string> kReasoningIsOptional = {"LFM2-8B-A1B.jinja", "LFM2.5-Instruct.jinja",
                                                    "tencent-Hy3.jinja"};
// Formats in which a content before a call has another form than one alone; answer_cases_test has
// such answers.
const std::set<std::string> kContentBeforeCallsDiffers = {
    "openai-gpt-oss-120b.jinja",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja",
    "Cohere2MoE.jinja",
    "CohereForAI-c4ai-command-r-plus-tool_use.jinja",
    "meetkai-functionary-medium-v3.2.jinja",
    "muse-glimmer.jinja"};

bool HasReasoning(const Template& each, const AnswerFormat& format) {
  return !format.thinking_ends.empty() && !kReasoningIsOptional.contains(each.name);
}

std::string WrittenContent(const Template& each) {
  const auto found = kAroundContent.find(each.name);
  if (found == kAroundContent.end()) return kContent;
  return found->second.first + kContent + found->second.second;
}

// The text of an answer with a reasoning, if the template has one, and a content.
std::string WrittenAnswer(const Template& each, const AnswerFormat& format) {
  if (!HasReasoning(each, format)) return WrittenContent(each);
  return (OpensThinking(format) ? "" : format.thinking_start) + kReasoning +
         format.thinking_ends.front() + WrittenContent(each);
}

// Some prompts begin the reasoning with words or white space of their own.
void ExpectParts(const Template& each, const AnswerFormat& format, const test::Answer& answer,
                 std::size_t calls, const std::string& text) {
  const bool has_reasoning = HasReasoning(each, format);
  const bool is_right = answer.content.find(kContent) != std::string::npos &&
                        answer.content.size() <= kContent.size() + 4 &&
                        (answer.reasoning.find(kReasoning) != std::string::npos) == has_reasoning &&
                        answer.reasoning.size() <= kReasoning.size() + 40 &&
                        answer.calls.size() == calls && answer.is_sound;
  if (!is_right) test::Fail(each.name.c_str(), 0, text + "\n  -> " + test::Show(answer));
}

// Stop strings that occur in the reasoning and in the arguments end nothing there; one that occurs
// in the content ends it.
void ExpectStopsInContentOnly(const Template& each,
                              const std::shared_ptr<const AnswerFormat>& format,
                              const std::string& text) {
  const test::Answer whole = test::ReadPieces(format, {text});
  const std::vector<std::string_view> characters = test::Characters(text);
  const std::vector<std::string> outside = {"count the", "days", "s.", "q7", "day"};
  test::ExpectEqual(each.name.c_str(), 0, "stop strings outside the content",
                    test::ReadTokens(format, characters, outside), whole);
  for (const char* const stop : {"\u00E9", "is", " ", "7."}) {
    for (const auto& tokens : {characters, {text}}) {
      const test::Answer stopped = test::ReadTokens(format, tokens, {stop});
      const std::string left = whole.content.substr(0, whole.content.find(stop));
      const bool is_right =
          stopped.content == left && stopped.reasoning == whole.reasoning && stopped.calls.empty();
      if (!is_right) {
        test::Fail(each.name.c_str(), 0,
                   text + "\n  stopped by " + stop + " -> " + test::Show(stopped));
      }
    }
  }
}

TEST(ReasoningContentAndACallAreRead) {
  for (const Template& each : Templates()) {
    const char* const name = each.name.c_str();
    common_chat_templates_inputs question = Question(COMMON_CHAT_TOOL_CHOICE_AUTO);
    question.enable_thinking = true;
    const std::vector<common_chat_tool> tools = std::exchange(question.tools, {});
    const auto plain = FormatOf(each, question, {});
    REQUIRE(plain != nullptr);
    const std::string text = WrittenAnswer(each, *plain);
    ExpectParts(each, *plain, test::ReadPieces(plain, {text}), 0, text);
    test::ExpectTheSameWhereverItIsCut(name, 0, plain, text);
    ExpectStopsInContentOnly(each, plain, text);

    const auto silent =
        FormatOf(each, Question(COMMON_CHAT_TOOL_CHOICE_AUTO), Options(ToolChoice::kAuto));
    question.tools = tools;
    const auto calling = FormatOf(each, question, Options(ToolChoice::kAuto));
    REQUIRE(silent != nullptr && calling != nullptr);
    std::optional<std::string> call = WrittenCalls(each, silent, 1);
    if (!call || kContentBeforeCallsDiffers.contains(each.name)) continue;
    if (OpensThinking(*silent)) {
      const std::string& end = silent->thinking_ends.front();
      call->erase(0, call->find(end) + end.size());
    }
    const std::string all = WrittenAnswer(each, *calling) + *call;
    ExpectParts(each, *calling, test::ReadPieces(calling, {all}), 1, all);
    test::ExpectTheSameWhereverItIsCut(name, 1, calling, all);
    ExpectStopsInContentOnly(each, calling, all);
  }
}

// A model writes a call; the call and its result are in the next prompt, and the answer to it is
// read.
TEST(ACallItsResultAndTheAnswer) {
  test::ForEachThatCallsTools([](const Template& each, const ChatRenderer&) {
    const char* const name = each.name.c_str();
    common_chat_templates_inputs chat = Question(COMMON_CHAT_TOOL_CHOICE_AUTO);
    const auto asked = FormatOf(each, chat, Options(ToolChoice::kAuto));
    REQUIRE(asked != nullptr);
    const std::optional<std::string> call = WrittenCalls(each, asked, 1);
    REQUIRE(call.has_value());
    const test::Answer first = test::ReadPieces(asked, {*call});
    REQUIRE(first.calls.size() == 1);

    const ToolCall& made = first.calls[0];
    const std::string id = made.id.empty() ? "abcdefghi" : made.id;
    chat.messages.emplace_back();
    chat.messages.back().role = "assistant";
    chat.messages.back().tool_calls = {{made.name, made.arguments, id}};
    chat.messages.emplace_back();
    chat.messages.back().role = "tool";
    chat.messages.back().content = "waxing gibbous";
    chat.messages.back().tool_name = made.name;
    chat.messages.back().tool_call_id = id;
    const std::string prompt = common_chat_templates_apply(each.parsed.get(), chat).prompt;
    for (const char* part : {"q7", "waxing gibbous"}) {
      if (prompt.find(part) == std::string::npos)
        test::Fail(name, 0, std::string("without ") + part);
    }
    const auto told = FormatOf(each, chat, Options(ToolChoice::kAuto));
    REQUIRE(told != nullptr);
    const bool is_open = OpensThinking(*told);
    const std::string text =
        (is_open ? kReasoning + told->thinking_ends.front() : "") + WrittenContent(each);
    const test::Answer last = test::ReadPieces(told, {text});
    if (last.content.find(kContent) == std::string::npos || !last.calls.empty()) {
      test::Fail(name, 0, text + "\n  -> " + test::Show(last));
    }
  });
}

// True if the parser reads the whole text.
bool IsReadable(const AnswerFormat& format, const std::string& text) {
  try {
    (void)common_chat_parse(text, /*is_partial=*/false, *format.parser);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Half tags, repeated tags and other garbage end in some answer. What the parser can read is read
// the same wherever it is cut. Of other text, delivered parts are not taken back.
TEST(GarbageIsReadToo) {
  std::uint32_t state = 1;
  const auto random = [&](std::size_t below) {
    state = state * 1664525 + 1013904223;
    return static_cast<std::size_t>(state >> 8U) % below;
  };
  int readable = 0;
  for (const Template& each : Templates()) {
    const common_chat_params found =
        common_chat_templates_apply(each.parsed.get(), Question(COMMON_CHAT_TOOL_CHOICE_AUTO));
    const auto format = MakeAnswerFormat(found, Options(ToolChoice::kAuto));
    REQUIRE(format.ok());
    std::vector<std::string> parts = {"{", "}", "\"", "[", "moon_phase_on", " ", "\n", "text", "é"};
    for (const std::string& token : found.preserved_tokens) parts.push_back(token);
    for (const std::string& tag : found.thinking_end_tags) parts.push_back(tag);
    for (const common_grammar_trigger& trigger : found.grammar_triggers) {
      parts.push_back(trigger.value);
    }
    for (int i = 0; i < (test::kSanitized ? 3 : 20); ++i) {
      std::string text;
      for (std::size_t n = 1 + random(12); n > 0; --n) {
        const std::string& part = parts[random(parts.size())];
        const std::vector<std::string_view> characters = test::Characters(part);
        const std::string_view last = characters[random(characters.size())];
        text += part.substr(0, static_cast<std::size_t>(last.data() + last.size() - part.data()));
      }
      const test::Answer answer = test::ReadGenerated(format.value(), text);
      if (!answer.is_sound) test::Fail(each.name.c_str(), i, text);
      if (!IsReadable(*format.value(), text)) continue;
      ++readable;
      test::ExpectTheSameWhereverItIsCut(each.name.c_str(), i, format.value(), text);
    }
  }
  std::printf("%d texts are readable\n", readable);
  EXPECT(readable > 100);
}

common_chat_templates_inputs PlainQuestion() {
  common_chat_templates_inputs question = Question(COMMON_CHAT_TOOL_CHOICE_AUTO);
  question.enable_thinking = true;
  question.tools.clear();
  return question;
}

const Template& TemplateOf(const std::string& name) {
  static const std::vector<Template> all = Templates();
  return *std::find_if(all.begin(), all.end(), [&](const Template& t) { return t.name == name; });
}

// gpt-oss often writes other headers than those that llama.cpp knows.
TEST(TheContentBehindAnUnknownHeaderIsRead) {
  const Template& each = TemplateOf("openai-gpt-oss-120b.jinja");
  const auto format = FormatOf(each, PlainQuestion(), {});
  REQUIRE(format != nullptr);
  const std::string analysis = "<|channel|>analysis<|message|>I see.<|end|>";
  for (const std::string before : {"", "<|start|>assistant"}) {
    for (const std::string header : {"<|channel|>final <|constrain|>json<|message|>",
                                     "<|channel|>final json<|message|>", "<|message|>"}) {
      const std::string text = (before.empty() ? "" : analysis + before) + header;
      const test::Answer expected{.content = "{\"a\": 1}",
                                  .reasoning = before.empty() ? "" : "I see."};
      EXPECT_EQ(test::ReadPieces(format, {text + "{\"a\": 1}"}), expected);
      EXPECT_EQ(test::ReadPieces(format, {text + "{\"a\": 1}<|end|>"}), expected);
      test::ExpectTheSameWhereverItIsCut(header.c_str(), 0, format, text + "{\"a\": 1}<|end|>");
    }
  }
}

// In every format all of the text is read if something unknown follows the reasoning.
TEST(WhatFollowsAReasoningIsNeverLost) {
  for (const Template& each : Templates()) {
    common_chat_templates_inputs question = Question(COMMON_CHAT_TOOL_CHOICE_AUTO);
    question.enable_thinking = true;
    const auto format = FormatOf(each, question, Options(ToolChoice::kAuto));
    REQUIRE(format != nullptr);
    if (!HasReasoning(each, *format)) continue;
    const std::string text = (OpensThinking(*format) ? "" : format->thinking_start) + kReasoning +
                             format->thinking_ends.front() + "{\"a\": [moon";
    const test::Answer answer = test::ReadPieces(format, {text});
    if (answer.reasoning.find(kReasoning) == std::string::npos ||
        !answer.content.ends_with("{\"a\": [moon")) {
      test::Fail(each.name.c_str(), 0, text + "\n  -> " + test::Show(answer));
    }
    test::ExpectTheSameWhereverItIsCut(each.name.c_str(), 0, format, text);
  }
}

// A call of these formats begins with a mere "{": one that begins no call does not stop the stream.
TEST(ABraceThatBeginsNoCallIsContentAtOnce) {
  const Template& each = TemplateOf("meta-llama-Llama-3.1-8B-Instruct.jinja");
  const auto format =
      FormatOf(each, Question(COMMON_CHAT_TOOL_CHOICE_AUTO), Options(ToolChoice::kAuto));
  REQUIRE(format != nullptr);
  AnswerStream stream(format);
  test::Answer answer;
  const auto read = [&](const std::string& text) {
    GenerationOutput output;
    stream.Read(text, /*last=*/false, &output);
    answer.Add(output);
  };
  read("A set: {");
  read("1, 2");
  EXPECT_EQ(answer.content, "A set: {1, 2");
  read("}.");
  EXPECT_EQ(answer.content, "A set: {1, 2}.");
}

// The formats of chats without tools are kept from load on.
TEST(APlainChatIsReadAsTheAnalysisFindsIt) {
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  for (const Template& each : Templates()) {
    const auto renderer = ChatRenderer::New(*model, each.source);
    REQUIRE(renderer.ok());
    const auto prompt = renderer.value()->RenderTokens({{"user", "Which phase?"}});
    const auto analysed = FormatOf(each, PlainQuestion(), {});
    REQUIRE(prompt.ok() && analysed != nullptr);
    const auto& format = prompt.value().format;
    const std::string text = WrittenAnswer(each, *analysed);
    const test::Answer answer = format->parser == nullptr ? test::Answer{.content = text}
                                                          : test::ReadPieces(format, {text});
    test::ExpectEqual(each.name.c_str(), 0, "it", answer, test::ReadPieces(analysed, {text}));
  }
}

// Its messages to itself are its reasoning; no tags are known that could end it.
TEST(AReasoningWithoutTagsHasEffortsButNoBudget) {
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const auto renderer = ChatRenderer::New(*model, TemplateOf("muse-glimmer.jinja").source);
  REQUIRE(renderer.ok());
  EXPECT(renderer.value()->thinks());
  const std::vector<ChatMessage> chat = {{"user", "Which phase?"}};
  ChatOptions options;
  options.reasoning_effort = ReasoningEffort::kLow;
  const auto prompt = renderer.value()->Render(chat, options);
  REQUIRE(prompt.ok());
  EXPECT(prompt.value().find("Reasoning strength: low.") != std::string::npos);
  options.reasoning_budget_tokens = 1;
  EXPECT_EQ(renderer.value()->Render(chat, options).status().param(), "reasoning_budget_tokens");

  const auto format = renderer.value()->RenderTokens(chat).value().format;
  REQUIRE(format->parser != nullptr);
  const std::string text = " to=self<|message|>I see.<|eom|><|start|>assistant to=user<|message|>7";
  const test::Answer expected{.content = "7", .reasoning = "I see."};
  EXPECT_EQ(test::ReadPieces(format, {text}), expected);
  test::ExpectTheSameWhereverItIsCut("muse", 0, format, text);
}

// As llama-server does: the variable also decides how the answer is read.
TEST(AVariableTurnsTheReasoningOffAsNoEffortDoes) {
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const std::vector<ChatMessage> chat = {{"user", "Which phase?"}};
  for (const char* name : {"deepseek-ai-DeepSeek-V4.jinja", "Qwen-Qwen3-0.6B.jinja"}) {
    const auto renderer = ChatRenderer::New(*model, TemplateOf(name).source);
    REQUIRE(renderer.ok());
    ChatOptions options = Options(ToolChoice::kAuto);
    options.reasoning_effort = ReasoningEffort::kNone;
    const auto none = renderer.value()->RenderTokens(chat, options);
    options.reasoning_effort = ReasoningEffort::kDefault;
    options.template_variables = {{"enable_thinking", "false"}};
    const auto off = renderer.value()->RenderTokens(chat, options);
    REQUIRE(none.ok() && off.ok());
    EXPECT(off.value().tokens == none.value().tokens);
    EXPECT_EQ(test::ReadPieces(off.value().format, {kContent}),
              test::ReadPieces(none.value().format, {kContent}));
    EXPECT_EQ(test::ReadPieces(off.value().format, {kContent}), test::Answer{.content = kContent});
    options.template_variables = {{"enable_thinking", "\"false\""}};
    EXPECT_EQ(renderer.value()->Render(chat, options).status().param(), "chat_template_kwargs");
  }
}

TEST(GrammarsOfCallsCompile) {
  std::size_t compiled = 0;
  for (const Template& each : Templates()) {
    for (const auto& [theirs, ours] :
         {std::pair{COMMON_CHAT_TOOL_CHOICE_AUTO, ToolChoice::kAuto},
          std::pair{COMMON_CHAT_TOOL_CHOICE_REQUIRED, ToolChoice::kRequired}}) {
      for (const bool parallel : {false, true}) {
        common_chat_templates_inputs inputs = Question(theirs);
        inputs.parallel_tool_calls = parallel;
        ChatOptions options = Options(ours);
        options.parallel_tool_calls = parallel;
        const auto format =
            MakeAnswerFormat(common_chat_templates_apply(each.parsed.get(), inputs), options);
        if (!format.ok() || format.value()->grammar.empty()) continue;
        const auto grammar = CompileGrammar(format.value()->grammar);
        if (!grammar.ok()) {
          test::Fail(each.name.c_str(), parallel ? 1 : 0, grammar.status().message());
          continue;
        }
        ++compiled;
        if (format.value()->trigger) continue;
        GrammarAutomaton& automaton = *grammar.value()->automaton;
        GrammarAutomaton::State state = automaton.start();
        for (const char byte : format.value()->generation_prompt) {
          state = automaton.Next(state, static_cast<std::uint8_t>(byte));
        }
        if (state == GrammarAutomaton::kDead) {
          test::Fail(each.name.c_str(), 0, "the grammar does not allow its own prompt");
        }
      }
    }
  }
  std::printf("%zu grammars\n", compiled);
  EXPECT(compiled >= 200);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
