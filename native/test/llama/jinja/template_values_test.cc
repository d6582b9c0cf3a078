// Hostile values in templates: each kind of value that contains itself, or is nested hundreds of
// thousands of levels deep, in each operation that follows values. None may end the process.
#include <sys/resource.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat.h"
#include "child_process.h"
#include "engine/base/json_depth.h"
#include "engine/base/private_bytes.h"
#include "engine/base/work_limit.h"
#include "engine/llama/chat/chat_renderer.h"
#include "engine/llama/jinja/template_limit.h"
#include "models.h"
#include "parsed_template.h"
#include "test.h"

namespace svc {
namespace {

using test::Parse;

std::string Render(const common_chat_templates* templates, const std::string& content) {
  const WorkLimit limit;
  common_chat_templates_inputs inputs;
  inputs.force_pure_content = true;
  for (const char* role : {"user", "assistant", "user"}) {
    common_chat_msg& message = inputs.messages.emplace_back();
    message.role = role;
    message.content = content;
  }
  try {
    return ApplyTemplates(templates, inputs).prompt;
  } catch (const std::exception& error) {
    return std::string("error: ") + error.what();
  }
}

// The analysis at load meets no "spin", so it does not meet the hostile value.
std::string WhenAsked(const std::string& hostile) {
  return "{% if messages[0].content == 'spin' %}" + hostile +
         "{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}";
}

struct Named {
  std::string name;
  std::string text;
};

// Each leaves a value in `a`.
std::vector<Named> ValuesInThemselves() {
  return {
      {"list", "{% set a = [1] %}{% set _ = a.append(a) %}"},
      {"list of lists", "{% set b = [] %}{% set a = [b, [b]] %}{% set _ = b.append(a) %}"},
      {"namespace", "{% set a = namespace(x=1) %}{% set a.x = a %}"},
      {"dictionary", "{% set a = {'x': 1, 2: 3} %}{% set a.y = a %}"},
      {"dictionary of lists", "{% set b = [] %}{% set a = {'x': b} %}{% set _ = b.append(a) %}"},
      {"tuple", "{% set b = [] %}{% set a = (b, 1) %}{% set _ = b.append(a) %}"},
      {"messages", "{% set a = messages %}{% set _ = a.append(a) %}"},
      {"message", "{% set a = messages[0] %}{% set a.content = a %}"},
      {"method", "{% set a = [] %}{% set _ = a.append(a.append) %}"},
      {"method of a namespace", "{% set a = namespace() %}{% set a.x = a.items %}"},
      {"loop",
       "{% set ns = namespace() %}{% for i in [1] %}{% set loop.x = loop %}{% set ns.l = loop %}"
       "{% endfor %}{% set a = [ns.l] %}"},
      {"caller",
       "{% set a = namespace() %}{% macro f() %}{% set a.x = caller %}{{ caller() }}{% endmacro %}"
       "{% call f() %}{% endcall %}"},
      {"keyword argument", "{% set a = [] %}{% set _ = a.append(k=a) %}"},
      {"keyword argument as a key",
       "{% set b = [] %}{% set _ = b.append(k=b) %}{% set a = {b[0]: 1} %}"},
  };
}

// Returns a loop that makes `ns.a` deeper with each iteration.
std::string Nested(const std::string& step, int times) {
  return "{% set ns = namespace(a=1, b=[]) %}{% for i in range(" + std::to_string(times) + ") %}" +
         step + "{% endfor %}{% set a = ns.a %}";
}

std::vector<Named> DeepValues() {
  // Forty levels in one step.
  const auto forty = [](const std::string& before, const std::string& after) {
    std::string text = "{% set ns.a = ";
    for (int i = 0; i < 40; ++i) text += before;
    text += "ns.a";
    for (int i = 0; i < 40; ++i) text += after;
    return text + " %}";
  };
  const std::string grow =
      "{% set n = [] %}{% set _ = ns.b.append(n) %}{% set ns.b = n %}";  // at the leaf
  std::string leaf;
  for (int i = 0; i < 5; ++i) leaf += grow;
  return {
      {"deep list", Nested(forty("[", "]"), 1'000)},
      {"deep tuple", Nested(forty("(", ", 1)"), 1'000)},
      {"deep dictionary", Nested(forty("{'x': ", "}"), 1'000)},
      {"deep namespace", Nested(forty("namespace(x=", ")"), 1'000)},
      {"deep leaf", "{% set ns = namespace(b=[]) %}{% set a = [ns.b] %}{% for i in range(2000) %}" +
                        leaf + "{% endfor %}"},
      {"deep pairs", Nested("{% set ns.a = ({'x': ns.a}.items()|list)[0] %}", 8'000)},
      {"deep loops",
       Nested("{% for x in [ns.a, 1] %}{% if loop.last %}{% set ns.a = loop %}{% endif %}"
              "{% endfor %}",
              11'000)},
      {"deep pairs of loops",
       Nested("{% for k, v in {'x': ns.a, 'y': 1}.items() %}{% if loop.last %}"
              "{% set ns.a = loop.previtem %}{% endif %}{% endfor %}",
              11'000)},
      {"deep methods", Nested("{% set ns.a = [ns.a] %}{% set ns.a = ns.a.append %}", 8'000)},
      {"deep callers", "{% macro f() %}{% set ns.a = caller %}{% endmacro %}" +
                           Nested("{% set before = ns.a %}{% call f() %}{% endcall %}", 11'000)},
      {"deep keyword arguments",
       Nested("{% set b = [] %}{% set _ = b.append(k=ns.a) %}{% set ns.a = b[0] %}", 8'000)},
  };
}

const std::vector<std::string> kOperations = {
    "",
    "{{ a }}",
    "{{ a ~ '' }}",
    "{{ '' + a }}",
    "{{ a + a }}",
    "{{ a * 2 }}",
    "{{ a == a }}",
    "{{ a != [a] }}",
    "{{ a in [a] }}",
    "{{ 1 in a }}",
    "{{ 'zz' not in a }}",
    "{{ a and a }}",
    "{{ a if a else a }}",
    "{{ not a }}",
    "{{ a.x }}",
    "{{ a['x'] }}",
    "{{ a[0] }}",
    "{{ a[1:] }}",
    "{{ [1][a] }}",
    "{{ {'x': 1}[a] }}",
    "{% set b = {a: 1} %}",
    "{% set b = {'x': a} %}{{ b.y }}",
    "{% for x in a %}{{ x }}{% endfor %}",
    "{% for x, y in a.items() %}{{ x }}{{ y }}{% endfor %}",
    "{% for x in a if x == a %}{% endfor %}",
    "{% set b %}{{ a }}{% endset %}",
    "{% filter upper %}{{ a }}{% endfilter %}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(a) }}",
    "{% macro m(x=a) %}{{ x }}{% endmacro %}{{ m() }}",
    "{{ a is eq(a) }}",
    "{{ a is in([a]) }}",
    "{{ 1 is in(a) }}",
    "{{ a is mapping }}",
    "{{ a is iterable }}",
    "{{ 'x{}'.format(a) }}",
    "{{ 'x'.strip(a) }}",
    "{{ 'x'.lstrip(a) }}",
    "{{ 'x'.split(a) }}",
    "{{ 'x'.rsplit(a, 1) }}",
    "{{ 'x'.replace(a, a) }}",
    "{{ 'x'.startswith(a) }}",
    "{{ 'x'|int(a) }}",
    "{{ 'x'|indent(a) }}",
    "{{ ['x', 'y']|join(a) }}",
    "{{ [1]|tojson(separators=[a, a]) }}",
    "{{ [1]|tojson(indent=a) }}",
    "{{ [{'x': 1}, {'x': 2}]|sort(attribute=a) }}",
    "{{ [{'x': 1}]|map(attribute=a)|list }}",
    "{{ [{'x': 1}]|selectattr('x', 'eq', a)|list }}",
    "{{ none|default(a) }}",
    "{{ x|default(default_value=a) }}",
    "{{ {}.get('x', a) }}",
    "{{ {}.get(a) }}",
    "{{ {'y': 1}.get('x', k=a) }}",
    "{{ range(a) }}",
    "{{ namespace(x=a).x }}",
    "{{ raise_exception(a) }}",
    "{{ strftime_now(a) }}",
    "{% set _ = a.pop() %}",
    "{% set _ = a.append(a) %}{{ a }}",
};

const std::vector<std::string> kFilters = {"tojson",
                                           "tojson(indent=2)",
                                           "string",
                                           "safe",
                                           "list",
                                           "length",
                                           "count",
                                           "first",
                                           "last",
                                           "reverse",
                                           "sort",
                                           "sort(reverse=true)",
                                           "sort(attribute='x')",
                                           "min",
                                           "max",
                                           "join",
                                           "join(',')",
                                           "join(attribute='x')",
                                           "map(attribute='x')|list",
                                           "select|list",
                                           "selectattr('x')|list",
                                           "rejectattr('x', 'eq', 1)|list",
                                           "unique|list",
                                           "dictsort",
                                           "dictsort(by='value')",
                                           "items|list",
                                           "keys()|list",
                                           "values()|list",
                                           "upper",
                                           "lower",
                                           "title",
                                           "capitalize",
                                           "trim",
                                           "strip",
                                           "replace('x', 'y')",
                                           "wordcount",
                                           "int",
                                           "float",
                                           "abs",
                                           "default(1)",
                                           "d(1, true)",
                                           "escape",
                                           "e",
                                           "indent",
                                           "truncate",
                                           "sum"};

std::vector<std::string> Operations() {
  std::vector<std::string> all = kOperations;
  for (const std::string& filter : kFilters) all.push_back("{{ a|" + filter + " }}");
  return all;
}

// A small stack overflows sooner.
constexpr rlim_t kStackBytes = 1U << 20U;

// Renders in a child process; returns false if a signal ended it.
bool Survives(const common_chat_templates* templates) {
  const std::string end = test::EndOfChild([&] {
    const rlimit small = {.rlim_cur = kStackBytes, .rlim_max = kStackBytes};
    setrlimit(RLIMIT_STACK, &small);
    (void)Render(templates, "spin");
    // A later chat with the same template.
    EXPECT_EQ(Render(templates, "hello"), "hellohellohello");
  });
  return end.empty();
}

void ExpectSurvival(const std::vector<Named>& values, const std::vector<std::string>& operations) {
  // A sanitizer makes a fork slow: there, each value meets a fourth of the operations, and the
  // next value another fourth.
  const std::size_t step = test::kSanitized && operations.size() > 4 ? 4 : 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t at = i % step; at < operations.size(); at += step) {
      const auto templates = Parse(WhenAsked(values[i].text + operations[at]));
      if (templates != nullptr && !Survives(templates.get())) {
        test::Fail(__FILE__, __LINE__, "ended by: " + values[i].name + " " + operations[at]);
      }
    }
  }
}

TEST(ValuesThatContainThemselvesEndNoProcess) {
  ExpectSurvival(ValuesInThemselves(), Operations());
}

TEST(DeepValuesEndNoProcess) {
  ExpectSurvival(DeepValues(), {""});
  ExpectSurvival({DeepValues().front()}, {"{{ a }}", "{{ a == a }}", "{{ a|tojson|upper }}"});
}

TEST(ValuesThatContainThemselvesAreFreed) {
  if (test::kSanitized) return;  // a sanitizer keeps freed memory, and finds leaks by itself
  const std::string large = "{% set s = 'x' * 20000 %}";
  for (const Named& value : ValuesInThemselves()) {
    const common_chat_templates_ptr templates =
        Parse(WhenAsked(large + value.text + "{% set ns = namespace(s=s) %}"));
    REQUIRE(templates != nullptr);
    (void)Render(templates.get(), "spin");
    const std::optional<std::uint64_t> before = PrivateBytes();
    for (int i = 0; i < 20; ++i) (void)Render(templates.get(), "spin");
    const std::optional<std::uint64_t> after = PrivateBytes();
    if (before && after && *after > *before + (8U << 20U)) {
      test::Fail(__FILE__, __LINE__, value.name + " is not freed");
    }
  }
}

TEST(ATemplateThatNestsDeepIsNotLoaded) {
  static const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const std::string rest = "{% for m in messages %}{{ m.content }}{% endfor %}";
  std::vector<Named> values = ValuesInThemselves();
  values.erase(values.end() - 3, values.end());  // callers cannot be looked into
  values.push_back({"deep", Nested("{% set ns.a = [ns.a] %}", 1500)});
  for (const Named& value : values) {
    const auto templates = InitTemplates(model->get(), value.text + rest);
    if (templates.ok()) {
      test::Fail(__FILE__, __LINE__, value.name + " is loaded");
    } else {
      // Under a sanitizer the analysis may reach its limit of processor time first.
      const std::string& message = templates.status().message();
      EXPECT(message.find("contain themselves") != std::string::npos ||
             (test::kSanitized && message.find("takes too long") != std::string::npos));
    }
  }
}

std::string Brackets(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(DeepJsonIsRefused) {
  static const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const auto renderer = ChatRenderer::New(
      *model,
      "{% for m in messages %}{{ m.content }}{% if m.tool_calls %}{% for c in m.tool_calls %}"
      "{{ c.function.name }}{{ c.function.arguments|tojson }}{% endfor %}{% endif %}{% endfor %}");
  REQUIRE(renderer.ok());
  const auto render = [&](const std::string& arguments) {
    ChatMessage call = {.role = "assistant", .content = ""};
    call.tool_calls.push_back({.id = "c", .name = "f", .arguments = arguments});
    const WorkLimit limit;
    return renderer.value()->Render({{"user", "hi"}, call}).status();
  };
  const std::size_t most = kMaxJsonDepth - 1;  // below the object
  EXPECT(render("{\"a\": " + Brackets(most) + "}").ok());
  for (const std::size_t depth : {most + 1, std::size_t{1'000'000}}) {
    for (const std::string& json :
         {"{\"a\": " + Brackets(depth) + "}", std::string(depth + 1, '[')}) {
      const Status status = render(json);
      EXPECT(status.code() == StatusCode::kInvalidRequest);
      EXPECT(status.message().find("nested deeper than 64 levels") != std::string::npos);
    }
  }
  EXPECT_EQ(JsonDepth(R"({"a": "[[[[\"[[", "b": [1, {"c": []}]})"), 4U);
  EXPECT_EQ(JsonDepth("]]]["), 1U);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
