// With every chat template of llama.cpp's tree, tools and arguments keep their names in calls, also
// those to which llama.cpp gives one rule, or a rule of its own.
#include "engine/llama/answer/distinct_rules.h"

#include <exception>

#include "engine/grammar/grammar_constraint.h"
#include "engine/llama/chat/chat_renderer.h"
#include "engine/llama/chat/own_calls.h"
#include "test.h"
#include "tool_templates.h"

namespace svc {
namespace {

// llama.cpp gives several of these one rule ("tool-get-weather"), or a rule that it has already
// ("tool-call").
const std::vector<std::string> kNames = {"get_weather", "get-weather", "天气",     "时间",
                                         "call",        "calls",       "call-root"};
const std::vector<std::string> kArguments = {"城市", "日期"};
constexpr const char* kParameters =
    R"({"type":"object","properties":{"城市":{"type":"string"},"日期":{"type":"string"}},)"
    R"("required":["城市","日期"]})";

Tool ToolOf(const std::string& name, std::size_t index) {
  const std::string prefix = "arguments-" + std::to_string(index) + "-";
  const std::string text = prefix + "text";
  Tool tool{.name = name, .description = "About " + name, .parameters = kParameters};
  tool.grammar = prefix + R"(root ::= "{\"城市\": " )" + text + R"( ", \"日期\": " )" + text +
                 " \"}\"\n" + text + R"( ::= "\"" [a-z]+ "\"")" + "\n";
  tool.tagged_grammar = "tagged-" + std::to_string(index) +
                        R"(-root ::= "{城市:<|\"|>" [a-z]+ "<|\"|>,日期:<|\"|>" [a-z]+ "<|\"|>}")"
                        "\n";
  tool.arguments.emplace();
  for (const std::string& argument : kArguments) {
    tool.arguments->push_back({.name = argument,
                               .required = true,
                               .json = text,
                               .any_text = true,
                               .text_may_be_json = true});
  }
  tool.strict = true;
  return tool;
}

ChatOptions Options(ToolChoice choice) {
  ChatOptions options;
  for (const std::string& name : kNames)
    options.tools.push_back(ToolOf(name, options.tools.size()));
  options.reasoning_effort = ReasoningEffort::kNone;
  options.tool_choice = choice;
  return options;
}

std::shared_ptr<const AnswerFormat> FormatOf(const ChatRenderer& renderer, const char* name,
                                             const ChatOptions& options) {
  auto prompt = renderer.RenderTokens({{"user", "Which weather?"}}, options);
  if (prompt.ok()) return std::move(prompt.value().format);
  test::Fail(name, 0, prompt.status().message());
  return nullptr;
}

common_chat_templates_inputs Question(const std::vector<Tool>& tools) {
  common_chat_templates_inputs question;
  question.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  question.enable_thinking = false;
  question.parallel_tool_calls = true;
  question.messages.emplace_back();
  question.messages.back().role = "user";
  question.messages.back().content = "Which weather?";
  for (const Tool& tool : tools) {
    question.tools.push_back({tool.name, tool.description, tool.parameters});
  }
  return question;
}

void ExpectInGrammar(const char* template_name, const std::string& grammar,
                     const std::string& name) {
  if (grammar.find(name) == std::string::npos) {
    test::Fail(template_name, 0, "the grammar allows no " + name);
  }
}

void CheckTemplate(const test::Template& each, const ChatRenderer& renderer) {
  const char* const name = each.name.c_str();
  // Formats without a mark for calls have no grammar for calls that may happen.
  ChatOptions options = Options(ToolChoice::kRequired);
  const auto forced = FormatOf(renderer, name, options);
  if (forced == nullptr) return;
  const auto grammar = CompileGrammar(forced->grammar);
  if (!grammar.ok()) test::Fail(name, 0, grammar.status().message());
  for (const std::string& tool : kNames) ExpectInGrammar(name, forced->grammar, tool);
  for (const std::string& argument : kArguments) ExpectInGrammar(name, forced->grammar, argument);

  options.tool_choice = ToolChoice::kAuto;
  for (Tool& tool : options.tools) tool.strict = false;
  const auto format = FormatOf(renderer, name, options);
  if (format == nullptr) return;
  for (const std::string& tool : kNames) {
    const auto written = OwnCalls(each.parsed.get(), Question(options.tools), format,
                                  {{tool, R"({"城市":"ulm","日期":"today"})", "abcdefghi"}});
    if (!written) test::Fail(name, 0, "no call of " + tool + " is read");
  }
}

TEST(ToolsAndArgumentsWithLikeNamesAreKeptApart) { test::ForEachThatCallsTools(CheckTemplate); }

// The second analysis would double the time.
TEST(OtherToolsAreAnalyzedOnce) {
  constexpr const char* kMany =
      R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":["string","null"]},)"
      R"("c":{"anyOf":[{"type":"integer"},{"type":"array","items":{"type":"string"}}]},)"
      R"("d":{"type":"object","properties":{"a":{"type":"array","items":{"type":"number"}}}},)"
      R"("e":{"enum":["x","y"]}},"required":["a","b","c"]})";
  std::size_t analyzed = 0;
  for (const test::Template& each : test::Templates()) {
    common_chat_templates_inputs inputs = Question(
        {{.name = "get_weather", .parameters = kMany}, {.name = "get", .parameters = kMany}});
    for (const auto choice : {COMMON_CHAT_TOOL_CHOICE_AUTO, COMMON_CHAT_TOOL_CHOICE_REQUIRED}) {
      inputs.tool_choice = choice;
      try {
        const auto found = common_chat_templates_apply(each.parsed.get(), inputs);
        WithDistinctRules(found, inputs, [&](const common_chat_templates_inputs&) {
          test::Fail(each.name.c_str(), 0, "two rules have the same name");
          return found;
        });
        ++analyzed;
      } catch (const std::exception&) {
        // The template refuses these parameters.
      }
    }
  }
  std::printf("%zu analyses\n", analyzed);
  EXPECT(analyzed >= 100);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
