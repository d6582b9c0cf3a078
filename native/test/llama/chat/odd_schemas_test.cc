// With every chat template of llama.cpp's tree, a tool may have a schema that llama.cpp cannot
// convert: the model reads it as it is, and calls the tool.
#include <algorithm>

#include "engine/llama/chat/answer_format.h"
#include "engine/llama/chat/chat_renderer.h"
#include "models.h"
#include "templates.h"
#include "test.h"

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

ChatOptions Options(const std::string& schema) {
  ChatOptions options;
  options.tools.push_back({.name = "phase_of", .description = "Of", .parameters = schema});
  options.tools.push_back(
      {.name = "tide_at",
       .description = "At",
       .parameters = R"({"type":"object","properties":{"t":{"type":"string"}}})"});
  options.reasoning_effort = ReasoningEffort::kNone;
  return options;
}

TEST(ASchemaThatLlamaCppCannotConvertIsShownToTheModel) {
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  for (const test::Template& each : test::Templates()) {
    const auto renderer = ChatRenderer::New(*model, each.source);
    REQUIRE(renderer.ok());
    if (!renderer.value()->calls_tools()) continue;
    for (const std::string& schema : kSchemas) {
      const std::string which = each.name + " with " + schema;
      ChatOptions options = Options(schema);
      const auto prompt = renderer.value()->RenderTokens({{"user", "Which phase?"}}, options);
      if (!prompt.ok()) {
        test::Fail(which.c_str(), 0, prompt.status().message());
        continue;
      }
      // As in the next turn, whose prompt is rendered without the analysis.
      options.tool_choice = ToolChoice::kNone;
      const auto plain = renderer.value()->RenderTokens({{"user", "Which phase?"}}, options);
      if (!plain.ok() || plain.value().tokens != prompt.value().tokens) {
        test::Fail(which.c_str(), 0, "another prompt than without calls");
      }
    }
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
