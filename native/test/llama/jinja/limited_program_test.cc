// Templates with the checks of a limit inserted: what they write stays the same, and they end once
// the limit is exceeded. The interpreter's functions and filters stay unlimited here.
#include "engine/llama/jinja/limited_program.h"

#include <string>
#include <vector>

#include "engine/base/work_limit.h"
#include "engine/llama/jinja/template_value.h"
#include "rendered.h"
#include "test.h"

namespace svc {
namespace {

using jinja::mk_val;
using jinja::value;
using test::Dictionary;
using test::kEnded;
using test::List;
using test::Number;
using test::Text;

// Values that every template below may use.
value SomeVariables() {
  auto object = mk_val<jinja::value_object>();
  object->insert("a", Number(1));
  object->insert("b", List({Text("x"), Text("y")}));
  return Dictionary({{"n", Number(3)},
                     {"s", Text("Some text")},
                     {"list", List({Number(3), Number(1), Number(2)})},
                     {"object", object}});
}

std::string Plain(const std::string& text, const value& variables = nullptr) {
  return test::Rendered(test::ParseProgram(text), variables);
}

std::string Limited(const std::string& text, const value& variables = nullptr) {
  jinja::program program = test::ParseProgram(text);
  LimitProgram(&program);
  return test::Rendered(program, variables);
}

std::string LimitedWithin(double cpu_seconds, const std::string& text,
                          const value& variables = nullptr) {
  const WorkLimit limit(cpu_seconds);
  return Limited(text, variables);
}

// Every kind of statement and expression.
const std::vector<std::string> kTemplates = {
    "",
    "just text",
    "a {{ s }} b {# comment #} c",
    "{{ n }}{{ -n }}{{ 1.5 }}{{ true }}{{ none }}{{ missing }}{{ not n }}",
    "{{ n + 2 * 3 - 4 / 2 % 3 }} {{ s ~ n ~ list }} {{ s + '!' }} {{ 'ab' * 3 }}",
    "{{ [1, 2] + [3] }}{{ 3 * 'ab' }}{{ 0 * 'ab' }}",
    "{{ n == 3 }}{{ n != 3 }}{{ n < 4 }}{{ n >= 4 }}{{ s == 'Some text' }}{{ list == [3, 1, 2] }}",
    "{{ 1 in list }}{{ 7 not in list }}{{ 'text' in s }}{{ 'a' in object }}",
    // The second operand is used only where it is needed.
    "{{ false and raise_exception('x') }}{{ true or raise_exception('x') }}",
    "{{ missing and missing.member }}{{ n and s }}{{ '' or s }}",
    "{{ s if n == 3 else raise_exception('x') }}{{ raise_exception('x') if false else 'else' }}",
    "{{ 'only if' if n == 4 }}",
    "{{ object.a }}{{ object['a'] }}{{ object.b[1] }}{{ object['b'][-1] }}{{ object.missing }}",
    "{{ list[0] }}{{ list[1:] }}{{ list[:2] }}{{ list[::-1] }}{{ s[5:] }}{{ s[n] }}",
    "{{ [s, [n, []], (1, 2)] }}{{ {'k': [n], n: 'v'}[n] }}{{ {'k': {'l': 1}}.k.l }}{{ (1, 'b') }}",
    "{{ s | upper }}{{ s | replace('text', 'words') | lower }}{{ list | length }}{{ n | string }}",
    "{{ list | join(', ') }}{{ list | sort | first }}{{ object | tojson }}{{ s.split(' ') }}",
    "{{ s.upper().lower() }}{{ object.items() | list }}{{ object.get('z', default='d') }}",
    "{{ n is odd }}{{ n is not even }}{{ missing is defined }}{{ list is iterable }}",
    "{{ n is divisibleby(3) }}{{ 3 is in(list) }}{{ list | map('string') | join }}",
    "{% if n == 1 %}one{% elif n == 3 %}three{% else %}more{% endif %}{% if missing %}x{% endif %}",
    "{% for i in list %}{{ loop.index }}{{ i }}{{ ',' if not loop.last }}{% endfor %}",
    "{% for i in [] %}x{% else %}empty{% endfor %}{% for k, v in object.items() %}{{ k }}{% endfor "
    "%}",
    "{% for i in list if i > 1 %}{{ i }}{% endfor %}{% for c in 'abc' %}{{ c }}.{% endfor %}",
    "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% elif i == 3 %}{% break %}{% endif %}"
    "{{ i }}{% endfor %}",
    "{% for i in list %}{% for j in list %}{{ i * j }} {% endfor %}{{ loop.index0 }}{% endfor %}",
    "{% for i in list %}{% endfor %}{% for i in list %}text only{% endfor %}",
    "{% set x = n + 1 %}{{ x }}{% set y %}block {{ x }}{% endset %}{{ y }}{% set a, b = 1, 2 %}{{ "
    "b }}",
    "{% set ns = namespace(x=1) %}{% for i in list %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x "
    "}}",
    "{% set object.c = 5 %}{{ object.c }}{% set _ = list.append(9) %}{{ list }}",
    "{% macro m(a, b='d') %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }}{{ m(2, b=3) }}{{ m(m(4)) }}",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}inner {{ n }}{% endcall %}",
    "{% macro m(n) %}{% if n > 0 %}{{ n }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(4) }}",
    "{% filter upper %}text {{ s }}{% endfilter %}{% filter replace('a', 'b') %}aaa{% endfilter %}",
    "{% generation %}x{{ n }}{% endgeneration %}",
    "{{ 'long text, which is a literal of its own: " + std::string(600, 'x') + "' | length }}",
    "{{ raise_exception('an error') }}",
    "{{ missing.member.member }}",
    "{{ 1 + 'x' }}",
    "{{ s | no_such_filter }}",
    "{{ {[1]: 2} }}",
};

TEST(WhatIsWrittenStaysTheSame) {
  for (const std::string& text : kTemplates) {
    const std::string plain = Plain(text, SomeVariables());
    for (const bool within_limit : {false, true}) {
      const std::string limited =
          within_limit ? LimitedWithin(WorkLimit::kMaxCpuSeconds, text, SomeVariables())
                       : Limited(text, SomeVariables());
      if (limited != plain) {
        test::Fail(__FILE__, __LINE__, text + " writes " + limited + ", not " + plain);
      }
    }
  }
}

TEST(ErrorsNameTheSamePlace) {
  const std::string text = "line one\n{% for i in [1] %}\n  {{ i + [] }}{{ i.x.y }}\n{% endfor %}";
  EXPECT(Plain(text).starts_with("error: "));
  EXPECT_EQ(Limited(text), Plain(text));
}

// Where nothing is written, it is the checks in loops and macros that end a template.
TEST(OnceTheLimitIsExceededEachStatementEndsTheTemplate) {
  for (const char* text : {
           "x",
           "{{ 1 }}",
           "{% if true %}x{% endif %}",
           "{% if false %}{% else %}{{ 1 }}{% endif %}",
           "{% for i in [1] %}{% endfor %}",
           "{% for i in [] %}{% else %}x{% endfor %}",
           "{% macro m() %}{% endmacro %}{% set x = m() %}",
           "{% macro m() %}{% set x = caller() %}{% endmacro %}{% call m() %}{% endcall %}",
           "{% set x %}x{% endset %}",
           "{% filter upper %}x{% endfilter %}",
           "{% set x = 1 + 2 %}",
           "{% set x = 'a' ~ 'b' %}",
           "{% set x = [] %}",
           "{% set x = {} %}",
           "{% set x = (1, 2) %}",
           "{% set x = 1 if 2 == 2 %}",
           "{% set x = -(1 + 2) %}",
           "{% set x = {3: 1}[1 + 2] %}",
           "{% set x = n[(1 + 2):] %}",
           "{% set x = [n][:(1 + 2)] %}",
           "{% set x = range(1 + 2) %}",
           "{% set x = namespace(y=1 + 2) %}",
           "{% set x = (1 + 2) | string %}",
           "{% set x = 'a' | replace('b', 'c' + 'd') %}",
           "{% set x = (1 + 2) is odd %}",
           "{% set x = 3 is divisibleby(1 + 2) %}",
           "{% set x = true and (1 + 2) %}",
           "{% set x = false or (1 + 2) %}",
           "{% set x = (1 + 2) if true else 0 %}",
           "{% set x = 0 if false else (1 + 2) %}",
           "{% set x = 'a'.replace('a', 'b' + 'c') %}",
           "{% set ns = namespace() %}{% set ns.x = 1 + 2 %}",
           "{% macro m(a=1 + 2) %}{% endmacro %}{% set x = m() %}",
       }) {
    const std::string ended = LimitedWithin(0, text, Dictionary({{"n", List({Number(1)})}}));
    if (ended != kEnded)
      test::Fail(__FILE__, __LINE__, std::string(text) + " ends with " + ended.substr(0, 200));
    EXPECT(!Limited(text, Dictionary({{"n", List({Number(1)})}})).starts_with(kEnded));
  }
}

TEST(WhatCannotBeEndlessEndsByItself) {
  EXPECT_EQ(LimitedWithin(0, ""), "");
  EXPECT_EQ(LimitedWithin(0, "{% set x = 1 %}"), "");
  EXPECT_EQ(LimitedWithin(0, "{% if false %}x{% endif %}"), "");
  EXPECT_EQ(LimitedWithin(0, "{% for i in n %}x{% endfor %}", Dictionary({{"n", List({})}})),
            kEnded);
  EXPECT_EQ(LimitedWithin(0, "{% macro m() %}x{% endmacro %}"), "");
}

// ---- sizes --------------------------------------------------------------------------------------

constexpr std::int64_t kTooMuch = WorkLimit::kMaxAllocationBytes + 1;

// A value of a few kilobytes that is larger than an allocation may be when it is written out.
value Doubled() {
  value doubled = List({Text(std::string(1000, 'x'))});
  for (int i = 0; i < 17; ++i) doubled = List({doubled, doubled});
  return doubled;
}

void ExpectEnded(const std::string& text, const value& variables) {
  const std::string ended = LimitedWithin(WorkLimit::kMaxCpuSeconds, text, variables);
  if (ended != kEnded) test::Fail(__FILE__, __LINE__, text + " ends with " + ended.substr(0, 200));
}

TEST(OperatorsDoNotMakeWhatIsTooLarge) {
  const value variables =
      Dictionary({{"many", Number(kTooMuch)},
                  {"mib", Text(std::string(std::size_t{1} << 20U, 'x'))},
                  {"empty", mk_val<jinja::value_string>(jinja::string())},
                  {"half", Text(std::string(static_cast<std::size_t>(kTooMuch) / 2 + 1, 'x'))},
                  {"doubled", Doubled()}});
  for (const char* expression : {
           "mib * 65",
           "65 * mib",
           "empty * many",
           // repeated
           "half ~ half",
           "half + half",
           "half ~ doubled",
           "doubled ~ ''",
           "'' ~ doubled",
           "doubled == doubled",
           "doubled != 1",
           "doubled in [1]",
           "1 in doubled",
           "1 not in [doubled]",

       }) {
    ExpectEnded("{% set x = " + std::string(expression) + " %}", variables);
  }
  EXPECT_EQ(
      LimitedWithin(WorkLimit::kMaxCpuSeconds,
                    "{{ ('x' * 1000) | length }}{{ (doubled + doubled) | length }}", variables),
      "10004");
}

TEST(OperatorsAreLimitedWhereverTheyStand) {
  const value variables = Dictionary({{"mib", Text(std::string(std::size_t{1} << 20U, 'x'))}});
  const std::string large = "(mib * 65)";
  for (const std::string& text : {
           "{% set x = [" + large + "] %}",
           "{% set x = (1, " + large + ") %}",
           "{% set x = {'k': " + large + "} %}",
           "{% set x = {" + large + ": 1} %}",
           "{% set x = [1][" + large + " | length] %}",
           "{% set x = mib[" + large + " | length:] %}",
           "{% set x = mib[:" + large + " | length] %}",
           "{% set x = mib[::" + large + " | length] %}",
           "{% set x = 1 if " + large + " else 2 %}",
           "{% set x = " + large + ".upper() %}",
           "{% set x = range(" + large + " | length) %}",
           "{% set x = namespace(y=" + large + ") %}",
           "{% set x = not " + large + " %}",
           "{% set x = " + large + " is string %}",
           "{% set x = " + large + " | length %}",
           "{% set x = 'a' | replace('a', " + large + ") %}",
           "{% if " + large + " %}{% endif %}",
           "{% for c in " + large + " %}{% break %}{% endfor %}",
           "{% for i in [1] if " + large + " %}{% endfor %}",
           "{% macro m(a=" + large + ") %}{% endmacro %}{% set x = m() %}",
           "{% macro m(a) %}{% endmacro %}{% call m(" + large + ") %}{% endcall %}",
           "{% filter replace('a', " + large + ") %}a{% endfilter %}",
           "{% filter upper %}{% set x = " + large + " %}{% endfilter %}",
           "{% set y %}{% set x = " + large + " %}{% endset %}",
           "{% if true %}{% set x = " + large + " %}{% endif %}",
       }) {
    ExpectEnded(text, variables);
  }
}

TEST(ComparisonsDoNotTakeTooLong) {
  // Each search reads the whole text.
  const value variables = Dictionary({{"text", Text(std::string(std::size_t{4} << 20U, 'x'))}});
  ExpectEnded("{% set x = text in text %}", variables);
  EXPECT_EQ(
      LimitedWithin(WorkLimit::kMaxCpuSeconds, "{{ 'yy' in text }}{{ text == text }}", variables),
      "FalseTrue");
}

TEST(WhatIsWrittenIsLimitedInAll) {
  const value variables = Dictionary({{"large", Text(std::string(std::size_t{32} << 20U, 'x'))},
                                      {"object", mk_val<jinja::value_object>()},
                                      {"doubled", Doubled()}});
  ExpectEnded("{{ doubled }}", variables);
  ExpectEnded(
      "{% for i in [1, 2, 3, 4, 5, 6, 7, 8, 9] %}{% set x %}{{ large }}{% endset %}"
      "{% endfor %}",
      variables);
  for (const char* text :
       {"{% if true %}{{ doubled }}{% endif %}", "{% if false %}{% else %}{{ doubled }}{% endif %}",
        "{% for i in [1] %}{{ doubled }}{% endfor %}",
        "{% for i in [] %}{% else %}{{ doubled }}{% endfor %}",
        "{% set x %}{{ doubled }}{% endset %}", "{% filter upper %}{{ doubled }}{% endfilter %}",
        "{% macro m() %}{{ doubled }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ doubled }}{% endcall %}"}) {
    ExpectEnded(text, variables);
  }
  // An object writes nothing.
  EXPECT_EQ(LimitedWithin(WorkLimit::kMaxCpuSeconds, "{{ object }}", variables),
            Plain("{{ object }}", variables));
}

TEST(AFilterOfTextTakesNoValueThatIsTooLong) {
  const value variables = Dictionary({{"doubled", Doubled()}});
  for (const char* filter :
       {"capitalize", "lower", "replace", "strip", "title", "trim", "upper", "wordcount"}) {
    ExpectEnded("{% set x = doubled | " + std::string(filter) + " %}", variables);
  }
}

TEST(AKeyThatIsHashedMayNotBeTooLarge) {
  value doubled = Number(1);
  for (int i = 0; i < 40; ++i) {
    doubled = mk_val<jinja::value_tuple>(std::vector<value>{doubled, doubled});
  }
  const value variables = Dictionary({{"key", doubled}});
  ExpectEnded("{% set x = {key: 1} %}", variables);
  ExpectEnded("{% set x = {1: 2}[key] %}", variables);
}

TEST(ALoopIsLimitedByItsItemsAndByTheVariablesItCopies) {
  // Each iteration copies all variables, and each place of the template may make one.
  const value variables = Dictionary({{"items", List(std::vector<value>(200'000, Number(1)))}});
  std::string sets;
  for (int i = 0; i < 400; ++i) sets += "{% set v" + std::to_string(i) + " = 1 %}";
  const std::string iterations = "{% for i in items %}{% break %}{% endfor %}";
  EXPECT_EQ(LimitedWithin(WorkLimit::kMaxCpuSeconds, iterations, variables), "");
  ExpectEnded(sets + iterations, variables);
  ExpectEnded(sets + "{% for i in items if false %}{% endfor %}", variables);
  // So many items have no place.
  const std::string loop = "{% for i in items %}{% break %}{% endfor %}";
  const double most = WorkLimit::kMaxAllocationBytes / kValueBytes;
  const auto with = [](std::size_t count) {
    return Dictionary({{"items", List(std::vector<value>(count, Number(1)))}});
  };
  EXPECT_EQ(LimitedWithin(WorkLimit::kMaxCpuSeconds, loop, with(static_cast<std::size_t>(most))),
            "");
  ExpectEnded(loop, with(static_cast<std::size_t>(most) + 1));
}

TEST(WithoutALimitNothingIsEnded) {
  const std::size_t length = WorkLimit::kMaxAllocationBytes / 64;
  const value variables = Dictionary({{"text", Text(std::string(length, 'x'))}});
  const std::string text = "{{ (text * 65) | length }}";
  EXPECT_EQ(Limited(text, variables), std::to_string(65 * length));
  EXPECT_EQ(LimitedWithin(WorkLimit::kMaxCpuSeconds, text, variables), kEnded);
}

// ---- what is freed ------------------------------------------------------------------------------

// Each template makes a value that contains itself, which counted references alone never free.
TEST(ValuesThatATemplateMakesOrChangesAreKept) {
  for (const char* text : {
           "{% set a = [item] %}{% set _ = a.append(a) %}",
           "{% set a = {'x': item} %}{% set a.y = a %}",
           "{% set b = [] %}{% set a = (item, b) %}{% set _ = b.append(a) %}",
           "{% set b = [] %}{% set a = [item] + [b] %}{% set _ = b.append(a) %}",
           "{% for i in [1] %}{% set loop.x = item %}{% set loop.y = loop %}{% endfor %}",
           "{% set given.x = item %}{% set given.y = given %}",
       }) {
    value item = List({});
    const std::weak_ptr<jinja::value_t> seen = item;
    EXPECT_EQ(LimitedWithin(WorkLimit::kMaxCpuSeconds, text,
                            Dictionary({{"item", item}, {"given", Dictionary({})}})),
              "");
    item = nullptr;
    if (!seen.expired()) test::Fail(__FILE__, __LINE__, std::string(text) + " leaks");
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
