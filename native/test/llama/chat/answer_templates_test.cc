// Every chat template of llama.cpp's tree: calls as the template itself writes them are read back,
// also cut at every character, and the grammars of its calls compile in svc's own automaton. What a
// template can do is compared with the table in docs/models.md.
#include <algorithm>
#include <exception>
#include <optional>
#include <set>

#include "answer_test.h"
#include "doc_table.h"
#include "engine/grammar/grammar_constraint.h"
#include "engine/llama/chat/chat_renderer.h"
#include "models.h"
#include "templates.h"
#include "test.h"

namespace svc {
namespace {

using test::Template;
using test::Templates;

constexpr const char* kParameters =
    R"({"type":"object","properties":{"day":{"type":"string"},"n":{"type":"integer"}},)"
    R"("required":["day","n"]})";

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
  inputs.tools.push_back({"moon_phase_on", "Phase of the moon", kParameters});
  inputs.tool_choice = choice;
  return inputs;
}

ChatOptions Options(ToolChoice choice) {
  ChatOptions options;
  options.tools.push_back({.name = "moon_phase_on",
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

// True if the answer consists of the first `count` calls.
bool IsTheCalls(const test::Answer& answer, std::size_t count) {
  if (answer.calls.size() != count || !answer.is_sound) return false;
  try {
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_right = answer.calls[i].name == kCalls[i].name &&
                            common_json::parse(answer.calls[i].arguments).dump() ==
                                common_json::parse(kCalls[i].arguments).dump();
      if (!is_right) return false;
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// The text that a model would write for the first `count` calls: the part of the history in which
// calls differ from a text in their place, without the end of the turn. Absent: none of it is read
// as these calls.
std::optional<std::string> WrittenCalls(const common_chat_templates* parsed,
                                        const std::shared_ptr<const AnswerFormat>& format,
                                        std::size_t count) {
  common_chat_templates_inputs inputs = Question(COMMON_CHAT_TOOL_CHOICE_AUTO);
  inputs.add_generation_prompt = false;
  inputs.messages.emplace_back();
  inputs.messages.back().role = "assistant";
  inputs.messages.back().content = "\u00A4text\u00A4";
  const std::string text = common_chat_templates_apply(parsed, inputs).prompt;
  inputs.messages.back().content.clear();
  inputs.messages.back().tool_calls.assign(kCalls.begin(),
                                           kCalls.begin() + static_cast<std::ptrdiff_t>(count));
  const std::string call = common_chat_templates_apply(parsed, inputs).prompt;

  const auto differs = static_cast<std::size_t>(
      std::mismatch(text.begin(), text.end(), call.begin(), call.end()).second - call.begin());
  // Both may begin with the same tag, or with the first characters of different ones.
  std::vector<std::size_t> begins = {differs};
  for (const char first : {'<', '[', ' '}) {
    const std::size_t before = call.rfind(first, differs);
    if (before != std::string::npos && differs - before < 32) begins.push_back(before);
  }
  // After a prompt that opens the reasoning, the model ends it first.
  std::vector<std::string> befores = {""};
  if (OpensThinking(*format)) befores = {"I think" + format->thinking_ends.front()};
  for (const std::size_t begin : begins) {
    for (const std::string& before : befores) {
      for (std::size_t end = call.size(); end > begin; --end) {
        std::string written = before + call.substr(begin, end - begin);
        if (IsTheCalls(test::ReadPieces(format, {written}), count)) return written;
      }
    }
  }
  return std::nullopt;
}

TEST(ACallIsReadAsTheTemplateWritesIt) {
  std::size_t read = 0;
  for (const Template& each : Templates()) {
    const char* const name = each.name.c_str();
    const auto format = MakeAnswerFormat(
        common_chat_templates_apply(each.parsed.get(), Question(COMMON_CHAT_TOOL_CHOICE_AUTO)),
        Options(ToolChoice::kAuto));
    REQUIRE(format.ok());
    const std::optional<std::string> call = WrittenCalls(each.parsed.get(), format.value(), 1);
    if (call.has_value() == kNoCallIsRead.contains(each.name)) {
      test::Fail(name, 0, call ? "a call was read" : "no call was read");
    }
    if (!call) continue;
    ++read;
    const test::Answer whole = test::ReadPieces(format.value(), {*call});
    const std::vector<std::string_view> characters = test::Characters(*call);
    test::ExpectEqual(name, 0, "character by character",
                      test::ReadPieces(format.value(), characters), whole);
    for (const std::string_view character : characters) {
      const auto cut = static_cast<std::size_t>(character.data() - call->data());
      const std::string_view all = *call;
      test::ExpectEqual(name, static_cast<int>(cut), "cut",
                        test::ReadPieces(format.value(), {all.substr(0, cut), all.substr(cut)}),
                        whole);
    }
  }
  std::printf("%zu templates\n", read);
}

const char* YesOrNo(bool is_so) { return is_so ? "yes" : "no"; }

// Calls in one answer may be more than a template writes: then it refuses the chat.
bool ReadsCalls(const Template& each, const std::shared_ptr<const AnswerFormat>& format,
                std::size_t count) {
  try {
    return WrittenCalls(each.parsed.get(), format, count).has_value();
  } catch (const std::exception&) {
    return false;
  }
}

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
    const auto format = MakeAnswerFormat(
        common_chat_templates_apply(each.parsed.get(), Question(COMMON_CHAT_TOOL_CHOICE_AUTO)),
        Options(ToolChoice::kAuto));
    REQUIRE(renderer.ok() && format.ok());
    table.Expect(row, "reasoning", Reasoning(*renderer.value()));
    const bool calls_tools = renderer.value()->calls_tools();
    table.Expect(row, "tools", YesOrNo(calls_tools));
    if (!calls_tools) {
      for (const char* title : {"own call read", "several calls"}) table.Expect(row, title, "–");
      continue;
    }
    const bool is_read = ReadsCalls(each, format.value(), 1);
    table.Expect(row, "own call read", YesOrNo(is_read));
    // Otherwise answer_cases_test knows.
    if (is_read) table.Expect(row, "several calls", YesOrNo(ReadsCalls(each, format.value(), 2)));
  }
  table.ExpectRows(rows);
}

// Half tags, repeated tags and other garbage end in some answer, the same wherever it is cut.
TEST(GarbageIsReadToo) {
  std::uint32_t state = 1;
  const auto random = [&](std::size_t below) {
    state = state * 1664525 + 1013904223;
    return static_cast<std::size_t>(state >> 8U) % below;
  };
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
        text += part.substr(0, 1 + random(part.size()));
      }
      const std::vector<std::string_view> characters = test::Characters(text);
      const test::Answer answer = test::ReadPieces(format.value(), characters);
      if (!answer.is_sound) test::Fail(each.name.c_str(), i, text);
    }
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
