// With every chat template of llama.cpp's tree, a tool may have a schema that llama.cpp cannot
// convert.
#include "test.h"
#include "tool_templates.h"

namespace svc {
namespace {

const std::vector<std::string> kSchemas = {
    R"({"type":"object","properties":{"v":true}})",
    R"({"type":"object","properties":{"v":false}})",
    R"({"type":"object","properties":{"v":{"type":"array","items":true}}})",
    R"({"type":"object","properties":{"v":{"type":"array","items":[{"type":"number"}]}}})",
    R"({"type":"object","properties":{"v":{"type":"array","prefixItems":[{"type":"number"}],)"
    R"("items":false}}})",
    R"({"type":"object","properties":{"v":{"$ref":"#"}}})",
    R"({"type":"object","properties":{"v":{"$ref":"#/$defs/a~1b"}},"$defs":{"a/b":{}}})",
    R"({"type":"object","properties":{"v":{"$ref":"#/components/schemas/v"}}})",
    R"({"type":"object","properties":{"v":{"$ref":"https://example.org/v"}}})",
    R"({"type":"object","properties":{"v":{"type":"any"}}})",
    R"({"type":"object","properties":{"v":{"type":"STRING"}}})",
    R"({"type":"object","properties":{"v":{"enum":[]}}})",
    R"({"type":"object","properties":{"v":{"enum":null}}})",
    R"({"type":"object","properties":{"v":{"anyOf":[]}}})",
    R"({"type":"object","properties":{"v":{"type":"string","pattern":"^("}}})",
    R"({"type":"object","properties":{"v":{"type":"string","pattern":null}}})",
    R"({"type":"object","properties":{"v":{"type":"integer","minimum":null}}})",
    R"({"type":"object","properties":{"v":{"type":"array","maxItems":100000000000}}})",
    R"({"type":"object","properties":{"v":{"type":"string","maxLength":-1}}})",
    R"({"type":"object","properties":null})",
    R"({"type":"object","properties":{"v":{}},"additionalProperties":7})",
    R"({"type":"object","properties":{"v":{}},"required":null})",
    R"({"type":"any"})",
    R"({"type":null})",
    "{}",
};

TEST(SchemasThatLlamaCppCannotConvertAreShownToTheModel) {
  ChatOptions options;
  options.reasoning_effort = ReasoningEffort::kNone;
  for (const std::string& schema : kSchemas) {
    const std::string name = "phase_" + std::to_string(options.tools.size());
    options.tools.push_back({.name = name, .description = "Of", .parameters = schema});
  }
  ChatOptions none = options;
  none.tool_choice = ToolChoice::kNone;
  test::ForEachThatTakesTools([&](const test::Template& each, const ChatRenderer& renderer) {
    const auto prompt = renderer.Render({{"user", "Which phase?"}}, options);
    if (!prompt.ok()) return test::Fail(each.name.c_str(), 0, prompt.status().message());
    for (const Tool& tool : options.tools) {
      const bool is_there = prompt.value().find(tool.name) != std::string::npos;
      if (!is_there) test::Fail(each.name.c_str(), 0, "no " + tool.name);
    }
    // As in the next turn, whose prompt is rendered without the analysis.
    const auto plain = renderer.Render({{"user", "Which phase?"}}, none);
    if (!plain.ok() || plain.value() != prompt.value()) {
      test::Fail(each.name.c_str(), 0, "another prompt than without calls");
    }
  });
}

}  // namespace
}  // namespace svc

TEST_MAIN()
