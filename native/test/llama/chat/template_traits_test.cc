// What a load finds out about templates of llama.cpp's tree, and about some that are made for this.
#include "engine/llama/chat/template_traits.h"

#include "engine/llama/jinja/template_limit.h"
#include "models.h"
#include "templates.h"
#include "test.h"

namespace svc {
namespace {

TemplateTraits TraitsOf(const std::string& source) {
  auto templates = InitTemplates(nullptr, source);
  EXPECT(templates.ok());
  return templates.ok() ? LearnTraits(templates.value()) : TemplateTraits{};
}

TemplateTraits TraitsOfNamed(const std::string& name) {
  for (const test::Template& each : test::Templates()) {
    if (each.name == name + ".jinja") return TraitsOf(each.source);
  }
  test::Fail(name.c_str(), 0, "there is no such template");
  return {};
}

TEST(ReasoningIsFound) {
  const TemplateTraits qwen3 = TraitsOfNamed("Qwen-Qwen3-0.6B");
  EXPECT(qwen3.thinks && qwen3.can_answer_at_once && !qwen3.knows_efforts);
  EXPECT_EQ(qwen3.thinking->thinking_start, "<think>");
  EXPECT(qwen3.answering->generation_prompt.find("</think>") != std::string::npos);
  const TemplateTraits gpt_oss = TraitsOfNamed("openai-gpt-oss-120b");
  EXPECT(gpt_oss.thinks && !gpt_oss.can_answer_at_once && gpt_oss.knows_efforts);
  EXPECT(gpt_oss.is_specialized && !qwen3.is_specialized);
  EXPECT(!TraitsOfNamed("Qwen-Qwen2.5-7B-Instruct").thinks);
}

TEST(WhatIsWrittenIsFound) {
  const TemplateTraits qwen = TraitsOfNamed("Qwen-Qwen2.5-7B-Instruct");
  EXPECT(qwen.writes_systems && qwen.writes_late_systems && qwen.writes_calls);
  EXPECT(qwen.writes_several_calls && qwen.calls_tools);
  const TemplateTraits llama = TraitsOfNamed("meta-llama-Llama-3.1-8B-Instruct");
  EXPECT(llama.calls_tools && llama.writes_calls && !llama.writes_several_calls);
  const TemplateTraits gemma = TraitsOfNamed("google-gemma-2-2b-it");
  EXPECT(gemma.writes_systems && !gemma.writes_late_systems);
  EXPECT(!gemma.writes_calls && !gemma.calls_tools);
  // It lists tools, but writes no call.
  EXPECT(!TraitsOfNamed("ibm-granite-granite-3.3-2B-Instruct").writes_calls);
}

TEST(ATemplateThatRefusesEveryChatHasPlainAnswers) {
  const TemplateTraits traits = TraitsOf("{{ raise_exception('only for embeddings') }}");
  EXPECT(!traits.thinks && !traits.calls_tools && !traits.writes_systems && !traits.writes_calls);
  REQUIRE(traits.thinking != nullptr && traits.answering != nullptr);
  EXPECT(traits.thinking->parser == nullptr && traits.thinking->stop.empty());
}

// ChatML; its end of a turn may be no token of the vocabulary.
TEST(WithoutATemplateTheEndOfATurnIsAStopString) {
  const auto gpt2 =
      test::LoadVocabulary(std::string(SVC_LLAMA_SOURCE_DIR) + "/models/ggml-vocab-gpt-2.gguf");
  REQUIRE(gpt2 != nullptr);
  const auto templates = InitTemplates(gpt2->get(), "");
  REQUIRE(templates.ok());
  const TemplateTraits traits = LearnTraits(templates.value());
  EXPECT(traits.stop == std::vector<std::string>{"<|im_end|>"});
  EXPECT(traits.answering->stop == traits.stop && traits.writes_systems);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
