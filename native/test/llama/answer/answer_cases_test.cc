// Every case of llama.cpp's tests/test-chat.cpp that has a template, a text and a message: the
// text, whole and cut at every byte, gives that message. How many cases a template has stands
// in docs/models.md.
//
// The cases are code, so that file is compiled here, with its check replaced by ours
// (native/test/CMakeLists.txt).
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "answer_test.h"
#include "chat-auto-parser.h"
#include "doc_table.h"
#include "log.h"
#include "test.h"

namespace svc {
namespace {

struct Count {
  int cases = 0;
  std::map<std::string, int> of_template;
} count;

// JSON in one spelling.
std::string Normal(const std::string& json) {
  try {
    return common_json::parse(json).dump();
  } catch (const std::exception&) {
    return json;
  }
}

ChatOptions OptionsOf(const common_chat_templates_inputs& inputs) {
  ChatOptions options;
  for (const common_chat_tool& tool : inputs.tools) {
    options.tools.push_back(
        {.name = tool.name, .description = tool.description, .parameters = tool.parameters});
  }
  if (inputs.tool_choice == COMMON_CHAT_TOOL_CHOICE_NONE) options.tool_choice = ToolChoice::kNone;
  options.parallel_tool_calls = inputs.parallel_tool_calls;
  options.continue_last = inputs.continue_final_message != COMMON_CHAT_CONTINUATION_NONE;
  return options;
}

test::Answer Expected(const common_chat_msg& message) {
  test::Answer answer{.content = message.content, .reasoning = message.reasoning_content};
  for (const common_chat_tool_call& call : message.tool_calls) {
    answer.calls.push_back({.id = call.id, .name = call.name, .arguments = Normal(call.arguments)});
  }
  return answer;
}

// White space at the ends is left out, as in the bundle's own check.
std::string Trimmed(const std::string& text) {
  const auto is_space = [](unsigned char each) { return std::isspace(each) != 0; };
  const auto first = std::find_if_not(text.begin(), text.end(), is_space);
  const auto last = std::find_if_not(text.rbegin(), text.rend(), is_space).base();
  return first < last ? std::string(first, last) : "";
}

// The expected answer without the part of a continued message that the prompt has.
test::Answer Rest(test::Answer answer, const AnswerFormat& format) {
  if (!format.parser->is_continuation) return answer;
  const common_chat_msg before = common_chat_parse("", /*is_partial=*/true, *format.parser);
  const auto remove = [](const std::string& part, std::string* text) {
    if (text->starts_with(part)) text->erase(0, part.size());
  };
  remove(Trimmed(before.content), &answer.content);
  remove(Trimmed(before.reasoning_content), &answer.reasoning);
  return answer;
}

test::Answer Normalised(test::Answer answer) {
  answer.content = Trimmed(answer.content);
  answer.reasoning = Trimmed(answer.reasoning);
  for (ToolCall& call : answer.calls) call.arguments = Normal(call.arguments);
  return answer;
}

}  // namespace

void CheckCase(const common_chat_templates* templates, const std::string& path,
               const common_chat_templates_inputs& given, const std::string& text,
               const common_chat_msg& expected, bool is_partial) {
  common_chat_templates_inputs inputs = given;
  if (inputs.messages.empty()) {
    inputs.messages.emplace_back();
    inputs.messages.back().role = "user";
    inputs.messages.back().content = "Hey there!";
  }
  if (is_partial) return;  // the message is that of a text that goes on
  const common_chat_params found = common_chat_templates_apply(templates, inputs);
  const auto format = MakeAnswerFormat(found, OptionsOf(inputs));
  if (!format.ok()) {
    test::Fail(path.c_str(), 0, format.status().message() + ": " + text);
    return;
  }
  ++count.cases;
  ++count.of_template[path];

  const test::Answer whole = Normalised(test::ReadPieces(format.value(), {text}));
  const test::Answer right = Normalised(Rest(Expected(expected), *format.value()));
  if (!(whole == right)) {
    test::ExpectEqual(path.c_str(), count.cases, "the whole", whole, right);
    return;
  }
  test::ExpectTheSameWhereverItIsCut(path.c_str(), count.cases, format.value(), text);
}

}  // namespace svc

// Defines test_template_output_peg_parsers, which calls svc::CheckCase for each case.
#include "chat_cases.inc"

TEST(EveryCaseOfTheBundle) {
  test_template_output_peg_parsers(/*detailed_debug=*/false);
  EXPECT(svc::count.cases >= 400);
  EXPECT(svc::count.of_template.size() >= 50);
  std::printf("%d cases of %zu templates\n", svc::count.cases, svc::count.of_template.size());
}

// After the test above, which counts. answer_templates_test knows the rows.
TEST(TheDocumentationShowsTheCases) {
  if (svc::count.cases == 0) test_template_output_peg_parsers(/*detailed_debug=*/false);
  svc::test::DocTable table(SVC_MODELS_PAGE, "template");
  std::set<std::string> rows;
  for (const auto& entry : std::filesystem::directory_iterator("models/templates")) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string path = "models/templates/" + entry.path().filename().string();
    const std::string row = "`" + entry.path().stem().string() + "`";
    rows.insert(row);
    const auto found = svc::count.of_template.find(path);
    const bool has_cases = found != svc::count.of_template.end();
    table.Expect(row, "cases", has_cases ? std::to_string(found->second) : "–");
  }
  table.ExpectRows(rows);
}

TEST_MAIN()
