// Endless templates, rendered by llama.cpp's interpreter.
#include "engine/llama/chat/template_limit.h"

#include <chrono>
#include <exception>
#include <string>

#include "chat.h"
#include "engine/base/work_limit.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

constexpr double kCpuSeconds = 0.2;

common_chat_templates_ptr Parse(const std::string& text) {
  static const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::TinyModels()[0]);
  if (model == nullptr) return nullptr;
  common_chat_templates_ptr templates = common_chat_templates_init(model->get(), text);
  LimitTemplates(templates.get());
  return templates;
}

std::string Render(const common_chat_templates* templates, const std::string& content) {
  common_chat_templates_inputs inputs;
  inputs.force_pure_content = true;
  common_chat_msg& message = inputs.messages.emplace_back();
  message.role = "user";
  message.content = content;
  return common_chat_templates_apply(templates, inputs).prompt;
}

// Returns a template that is harmless unless a message is "spin", so that llama.cpp's analysis of
// the template ends.
std::string WhenAsked(const std::string& spinning) {
  return "{% if messages[0].content == 'spin' %}" + spinning +
         "{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}";
}

TEST(WhatRepeatsIsEnded) {
  const std::string loops =
      "{% for i in range(100000) %}{% for j in range(1000) %}{{ j }}{% endfor %}{% endfor %}";
  const std::string inner = "{% for j in range(1000) %}x{% endfor %}";
  for (const std::string& text : {
           WhenAsked(loops),
           WhenAsked("{% set x %}{% if true %}" + loops + "{% endif %}{% endset %}"),
           WhenAsked("{% filter upper %}" + loops + "{% endfilter %}"),
           WhenAsked("{% if false %}{% elif true %}" + loops + "{% endif %}"),
           WhenAsked("{% for i in [] %}{% else %}" + loops + "{% endfor %}"),
           "{% macro f(n) %}{{ f(n) }}{% endmacro %}" + WhenAsked("{{ f(1) }}"),
           "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}" +
               WhenAsked("{{ f(40) }}"),
           "{% macro f() %}{{ caller() }}{% endmacro %}" +
               WhenAsked("{% for i in range(100000) %}{% call f() %}" + inner +
                         "{% endcall %}{% endfor %}"),
           "{% macro f(n) %}" + inner + "{% endmacro %}" +
               WhenAsked("{% for i in range(100000) "
                         "if f(i) == '' %}{% endfor %}"),
       }) {
    const common_chat_templates_ptr templates = Parse(text);
    REQUIRE(templates != nullptr);
    EXPECT_EQ(Render(templates.get(), "hello"), "hello");
    const WorkLimit limit(kCpuSeconds);
    std::string end = "none";
    try {
      (void)Render(templates.get(), "spin");
    } catch (const std::exception& error) {
      end = error.what();
    }
    if (end.find("runs for too long") == std::string::npos) {
      test::Fail(__FILE__, __LINE__, text + " ended with: " + end);
    }
    EXPECT(WorkLimit::IsExceeded());
  }
}

TEST(WhatIsWrittenStaysTheSame) {
  const common_chat_templates_ptr templates = Parse(
      "{% macro twice(s) %}{{ s }}{{ s }}{% endmacro %}{% for m in messages %}{% for i in "
      "range(3) %}{% if i == 1 %}{% continue %}{% endif %}{{ loop.index }}{{ twice(m.content) }}"
      "{% endfor %}{% endfor %}");
  REQUIRE(templates != nullptr);
  const WorkLimit limit(kCpuSeconds);
  EXPECT_EQ(Render(templates.get(), "ab"), "1abab3abab");
  EXPECT(!WorkLimit::IsExceeded());
}

TEST(WithoutALimitNothingIsEnded) {
  EXPECT(!WorkLimit::IsExceeded());
  {
    const WorkLimit outer(kCpuSeconds);
    const WorkLimit inner(0);
    EXPECT(!WorkLimit::IsExceeded());
  }
  const WorkLimit none(0);
  EXPECT(WorkLimit::IsExceeded());
}

}  // namespace
}  // namespace svc

TEST_MAIN()
