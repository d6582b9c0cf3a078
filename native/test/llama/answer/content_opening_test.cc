// The templates of llama.cpp's tree: what must precede their contents.
#include "engine/llama/answer/content_opening.h"

#include <map>
#include <utility>

#include "templates.h"
#include "test.h"

namespace svc {
namespace {

using Openings = std::pair<std::string, std::string>;

// Templates that open no reasoning; Cohere2MoE opens it unless it is left out.
const std::map<std::string, Openings> kOpenings = {
    {"openai-gpt-oss-120b.jinja",
     {"<|channel|>final<|message|>", "<|start|>assistant<|channel|>final<|message|>"}},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja",
     {"<|START_RESPONSE|>", "<|START_RESPONSE|>"}},
    {"Cohere2MoE.jinja", {"", "<|START_TEXT|>"}},
    {"meetkai-functionary-medium-v3.2.jinja", {"all\n", ""}},
    {"muse-glimmer.jinja", {"<|message|>", ""}},
};

TEST(FewFormatsWriteATextBeforeAContent) {
  std::size_t found = 0;
  for (const test::Template& each : test::Templates()) {
    for (const bool thinks : {false, true}) {
      common_chat_templates_inputs inputs;
      inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
      inputs.enable_thinking = thinks;
      inputs.messages.emplace_back();
      inputs.messages.back().role = "user";
      inputs.messages.back().content = "Which phase?";
      const auto format =
          MakeAnswerFormat(common_chat_templates_apply(each.parsed.get(), inputs), {});
      REQUIRE(format.ok());
      const auto expected = kOpenings.find(each.name);
      const ContentOpening opening = OpeningOf(*format.value());
      const Openings openings = {opening.at_once, opening.after_reasoning};
      found += openings == Openings() ? 0 : 1;
      if (openings != (expected != kOpenings.end() ? expected->second : Openings())) {
        test::Fail(each.name.c_str(), 0, openings.first + " or " + openings.second);
      }
    }
  }
  EXPECT_EQ(found, 2 * kOpenings.size());
}

TEST(AFormatWithoutAParserNeedsNone) {
  EXPECT_EQ(OpeningOf({}).at_once, "");
  EXPECT_EQ(OpeningOf({}).after_reasoning, "");
}

}  // namespace
}  // namespace svc

TEST_MAIN()
