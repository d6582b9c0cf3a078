// Templates that never end, or need memory without bound, rendered by llama.cpp's interpreter.
#include "engine/llama/jinja/template_limit.h"

#include <sys/resource.h>

#include <exception>
#include <memory>
#include <string>

#include "chat.h"
#include "engine/base/thread_clock.h"
#include "engine/base/work_limit.h"
#include "models.h"
#include "parsed_template.h"
#include "test.h"

namespace svc {
namespace {

constexpr double kCpuSeconds = 0.2;

using test::Parse;

std::string Render(const common_chat_templates* templates, const std::string& content) {
  common_chat_templates_inputs inputs;
  inputs.force_pure_content = true;
  common_chat_msg& message = inputs.messages.emplace_back();
  message.role = "user";
  message.content = content;
  return ApplyTemplates(templates, inputs).prompt;
}

// Returns a template that is harmless unless a message is "spin", so that llama.cpp's analysis of
// the template ends.
std::string WhenAsked(const std::string& spinning) {
  return "{% if messages[0].content == 'spin' %}" + spinning +
         "{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}";
}

// Renders "spin" under a limit, and returns the error it ends with.
std::string EndOf(const common_chat_templates* templates, double max_cpu_seconds) {
  const WorkLimit limit(max_cpu_seconds);
  try {
    (void)Render(templates, "spin");
  } catch (const std::exception& error) {
    EXPECT(WorkLimit::IsExceeded());
    return error.what();
  }
  return "none";
}

void ExpectEnded(const std::string& text, double max_cpu_seconds) {
  const common_chat_templates_ptr templates = Parse(text);
  REQUIRE(templates != nullptr);
  EXPECT_EQ(Render(templates.get(), "hello"), "hello");
  const std::string end = EndOf(templates.get(), max_cpu_seconds);
  if (end.find("runs for too long, or needs too much memory") == std::string::npos) {
    test::Fail(__FILE__, __LINE__, text + " ended with: " + end);
  }
}

std::string Repeat(const std::string& text, int times) {
  std::string repeated;
  for (int i = 0; i < times; ++i) repeated += text;
  return repeated;
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
    ExpectEnded(text, kCpuSeconds);
  }
}

// Each would need gigabytes, or years.
TEST(WhatGrowsIsEnded) {
  const std::string shared = "{% set a = ['x'] %}" + Repeat("{% set a = [a, a] %}", 60);
  const std::string own = "{% set a = [] %}{% set b = a.append(a) %}";
  const std::string large = "{% set s = 'x' * 1000000 %}";
  for (const std::string& text : {
           std::string("{{ range(1000000000000) }}"),
           std::string("{% set x = range(0, 9223372036854775807, 9223372036854775806) %}"),
           std::string("{% set x = range(1000000000000, 0, -1)|list %}"),
           std::string("{{ 'x' * 1000000000000 }}"),
           std::string("{{ 1000000000000 * '' }}"),
           std::string("{% set ns = namespace(s='x') %}{% for i in range(60) %}"
                       "{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
           std::string("{% set ns = namespace(s=[1]) %}{% for i in range(60) %}"
                       "{% set ns.s = ns.s + ns.s %}{% endfor %}"),
           std::string("{% set ns = namespace(s=[]) %}{% for i in range(100000) %}"
                       "{% set ns.s = ns.s + [('x' * 1000)|upper] %}{% endfor %}"),
           "{% set s = 'x' %}" + Repeat("{% set s = s ~ s %}", 60),
           "{% set s = 'x' %}" + Repeat("{% set s %}{{ s }}{{ s }}{% endset %}", 60),
           "{% macro d(s) %}{{ s }}{{ s }}{% endmacro %}{% set s = 'x' %}" +
               Repeat("{% set s = d(d(d(s))) %}", 20),
           "{% set s = 'x' %}" + Repeat("{% set s = s|replace('x', 'xxxxxxxx') %}", 20),
           "{% set s = 'x' %}" + Repeat("{% set s = s|replace('', 'xxxxxxxx') %}", 20),
           large + "{{ s.split('x') }}",
           large + "{{ [s, s, s, s]|join(s) ~ (range(1000)|join(s)) }}",
           large + "{{ s in (s ~ s) }}",
           large + "{{ s|indent(1000000000000) }}",
           large + "{{ s|indent(s * 50, true) }}",
           large + Repeat("{{ s }}", 2000),
           std::string("{{ [[[1]]]|tojson(indent=1000000000) }}"),
           std::string("{{ {'a': {'b': 1}}|tojson(separators=['x' * 100000000, ':']) }}"),
           shared + "{{ a|tojson }}",
           shared + "{{ a|string }}",
           shared + "{{ a }}",
           shared + "{{ 'x' ~ a }}",
           shared + "{{ a == a }}",
           shared + "{{ 1 in a }}",
           shared + "{{ a|sort }}",
           Repeat("{% set t = (t, t) %}", 60) + "{% set o = {t: 1} %}",
           Repeat("{% set t = (t, t) %}", 60) + "{{ {'a': 1}[t] }}",
       }) {
    ExpectEnded(WhenAsked(text), WorkLimit::kMaxCpuSeconds);
  }
  for (const char* use : {"{{ a }}", "{{ a|tojson }}", "{{ a == [a] }}"}) {
    ExpectEnded(WhenAsked(own + use), WorkLimit::kMaxCpuSeconds);
  }
  if (test::kSanitized) return;  // a sanitizer keeps freed memory
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  EXPECT(usage.ru_maxrss < 1L << 20);  // KiB
}

TEST(ATemplateThatNeverEndsIsNotLoaded) {
  static const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const std::string loops =
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}";
  for (const std::string& text : {
           loops,
           "{% if tools %}" + loops + "{% endif %}",
           std::string("{{ range(1000000000000) }}"),
           "{% set s = 'x' %}" + Repeat("{% set s = s ~ s %}", 60),
       }) {
    const double before = ThreadCpuSeconds();
    const Result<Templates> templates = InitTemplates(model->get(), text);
    // The clock is read between a template's steps; a sanitizer makes one of them take seconds.
    EXPECT(test::kSanitized || ThreadCpuSeconds() - before < 2 * kAnalysisCpuSeconds);
    REQUIRE(!templates.ok());
    EXPECT(templates.status().code() == StatusCode::kModelInvalid);
    EXPECT(templates.status().message().find("even for a short chat") != std::string::npos);
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
