// Calls as a template writes them into a prompt: they are found with any text around them, but only
// if the parser reads the same calls from them.
#include "engine/llama/chat/own_calls.h"

#include <fstream>
#include <iterator>

#include "engine/llama/jinja/template_limit.h"
#include "parsed_template.h"
#include "test.h"

namespace svc {
namespace {

using Calls = std::vector<common_chat_tool_call>;

const common_chat_tool_call kNew = {"moon", R"({"day":"q7","n":[1,2]})", "abcdefghi"};
const common_chat_tool_call kFull = {"moon", R"({"n":[],"day":"}</x>\n"})", "jklmnopqr"};

// As the templates write them.
const std::string kNewText =
    "<tool_call>\n{\"name\": \"moon\", \"arguments\": {\"day\": \"q7\", \"n\": [1, 2]}}\n"
    "</tool_call>";
const std::string kFullText =
    "<tool_call>\n{\"name\": \"moon\", \"arguments\": {\"n\": [], \"day\": \"}</x>\\n\"}}\n"
    "</tool_call>";

const std::string kArguments = "c.function.arguments | tojson";

// Parts of a template.
struct Form {
  std::string text = "{{ m.content }}";
  std::string calls = "m.tool_calls";
  std::string name = "c.function.name";
  std::string arguments = kArguments;
  std::string end;  // of the prompt
};

std::string TemplateOf(const Form& form) {
  return "{% if tools %}{% for t in tools %}{{ t | tojson }}{% endfor %}\n{% endif %}"
         "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.tool_calls %}"
         "{% for c in " +
         form.calls + " %}<tool_call>\n{\"name\": \"{{ " + form.name + " }}\", \"arguments\": {{ " +
         form.arguments +
         " }}}\n</tool_call>{% endfor %}"
         "{% else %}" +
         form.text + "{% endif %}<|im_end|>\n{% endfor %}" + form.end +
         "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
}

std::string Written(const std::string& chat_template, const Calls& calls) {
  const auto templates = test::Parse(chat_template);
  if (templates == nullptr) return "no template";
  common_chat_templates_inputs question;
  question.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  question.parallel_tool_calls = true;
  question.messages.emplace_back();
  question.messages.back().role = "user";
  question.messages.back().content = "Which phase?";
  ChatOptions options;
  for (const char* name : {"moon", "sun"}) {
    question.tools.push_back({name, "In the sky",
                              R"({"type":"object","properties":{"day":{"type":"string"},)"
                              R"("n":{"type":"array"}}})"});
    options.tools.push_back({.name = name});
  }
  const auto format = MakeAnswerFormat(ApplyTemplates(templates.get(), question), options);
  if (!format.ok()) return format.status().message();
  return OwnCalls(templates.get(), question, format.value(), calls).value_or("absent");
}

TEST(CallsAreTheTextThatTheTemplateWritesForThem) {
  const std::string one = Written(TemplateOf({}), {kNew});
  EXPECT(one.starts_with(kNewText));
  EXPECT_EQ(one.find("<|im_end|>"), std::string::npos);
  EXPECT(Written(TemplateOf({}), {kFull, kNew}).starts_with(kFullText + kNewText));
}

// The prompts with the calls and with a text differ only after the first characters of the tags.
TEST(ATextMayBeginLikeACall) {
  for (const std::string tag : {"<", "<t", "<tool_text>"}) {
    EXPECT(Written(TemplateOf({.text = tag + "{{ m.content }}"}), {kNew}).starts_with(kNewText));
  }
}

TEST(CallsThatAreReadOtherwiseAreAbsent) {
  const auto replaced = [](const std::string& from, const std::string& to) {
    const std::string arguments = kArguments + " | replace('" + from + "', '" + to + "')";
    return Written(TemplateOf({.arguments = arguments}), {kNew});
  };
  EXPECT(replaced("[1, 2]", "[ 1,2 ]").starts_with("<tool_call>"));
  EXPECT_EQ(replaced("q7", "q8"), "absent");
  EXPECT_EQ(replaced("[1, 2]", "[1, 2"), "absent");  // no JSON
  EXPECT_EQ(Written(TemplateOf({.name = "c.function.name | replace('moon', 'sun')"}), {kNew}),
            "absent");
  for (const std::string calls : {"m.tool_calls | reverse", "m.tool_calls[:1]", "[]"}) {
    EXPECT_EQ(Written(TemplateOf({.calls = calls}), {kNew, kFull}), "absent");
  }
}

TEST(APromptMayEndWithInstructionsThatAreNotLong) {
  EXPECT(Written(TemplateOf({.end = std::string(900, '.')}), {kNew}).starts_with(kNewText));
  EXPECT_EQ(Written(TemplateOf({.end = std::string(1100, '.')}), {kNew}), "absent");
}

TEST(AfterAPromptThatOpensTheReasoningItIsEndedFirst) {
  std::ifstream file(std::string(SVC_LLAMA_SOURCE_DIR) + "/models/templates/Qwen-QwQ-32B.jinja");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT(Written(text, {kNew}).starts_with("I think</think>" + kNewText));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
