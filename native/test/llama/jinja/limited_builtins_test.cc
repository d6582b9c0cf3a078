// The interpreter's functions and filters under a limit: what they return stays the same, and what
// would take too long or too much memory is not begun. The templates have no checks of their own.
#include "engine/llama/jinja/limited_builtins.h"

#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/work_limit.h"
#include "engine/llama/jinja/template_value.h"
#include "rendered.h"
#include "test.h"

namespace svc {
namespace {

using jinja::value;
using test::Dictionary;
using test::kEnded;
using test::List;
using test::Number;
using test::Text;

std::string Rendered(const std::string& text, const value& variables = nullptr) {
  LimitBuiltins();
  return test::Rendered(test::ParseProgram(text), variables);
}

std::string Limited(const std::string& text, const value& variables = nullptr,
                    double cpu_seconds = WorkLimit::kMaxCpuSeconds) {
  const WorkLimit limit(cpu_seconds);
  return Rendered(text, variables);
}

void ExpectEnded(const std::vector<std::string>& expressions, const value& variables) {
  for (const std::string& expression : expressions) {
    const std::string ended = Limited("{% set x = " + expression + " %}", variables);
    if (ended != kEnded)
      test::Fail(__FILE__, __LINE__, expression + " ends with " + ended.substr(0, 200));
  }
}

// The error of `call` under a limit; empty: there is none.
template <typename Call>
std::string ErrorOf(Call call) {
  const WorkLimit limit;
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

// A small value that is larger than an allocation may be when it is written out.
value Doubled() {
  value doubled = List({Text(std::string(1000, 'x'))});
  for (int i = 0; i < 17; ++i) doubled = List({doubled, doubled});
  return doubled;
}

value InItself() {
  const value list = List({});
  list->val_arr = {list};
  return list;
}

constexpr std::size_t kMiB = std::size_t{1} << 20U;

// Calls, filters and tests of every kind; the last ones are errors.
constexpr const char* kExpressions[] = {
    "range(4) | list",
    "range(2, 9, 3) | list",
    "range(5, 0, -2) | list",
    "range(0) | list",
    "'a-b-c'.split('-')",
    "'a b'.split()",
    "'a-b-c'.rsplit('-', 1)",
    "'aXbX'.replace('X', '')",
    "'abc'.replace('', '-')",
    "'abab'.replace('ab', 'c', 1)",
    "' a '.strip()",
    "'xxaxx'.strip('x')",
    "'xa'.lstrip('x')",
    "'ax'.rstrip('x')",
    "' t ' | trim",
    "[1, 2] | join('-')",
    "[1, 2] | join(d='+')",
    "['a', 'b'] | join",
    "'a\nb' | indent",
    "'a\nb' | indent(2, true)",
    "{'a': [1, 2.5, none, true]} | tojson",
    "[1, [2]] | tojson(indent=2)",
    "[1, 'a'] | string",
    "'%s and %d' | format('a', 3)",
    "[3, 1, 2] | sort",
    "['b', 'A'] | sort",
    "[3, 1, 2] | min",
    "[3, 1, 2] | max",
    "{'b': 1, 'a': 2} | dictsort",
    "2 is in([1, 2])",
    "'b' is in('abc')",
    "'aB c' | upper",
    "'aB c' | lower",
    "'ab cd' | title",
    "'ab' | capitalize",
    "'text' | length",
    "[1, 2] | length",
    "missing | default('d')",
    "1 | default(2)",
    "'12' | int",
    "3.7 | int",
    "-3 | abs",
    "[1, 2, 3] | first",
    "[1, 2, 3] | last",
    "[1, 2, 3] | reverse | list",
    "[{'a': 1}, {'a': 2}] | map(attribute='a') | list",
    "[1, 2] | map('string') | list",
    "[{'a': 1}, {}] | selectattr('a') | list",
    "{'a': 1}.get('b', 2)",
    "{'a': 1}.items() | list",
    "{'a': 1}.keys() | list",
    "'abc'.startswith('ab')",
    "'abc'.endswith('ab')",
    "namespace(a=1).a",
    "3 is odd",
    "3 is divisibleby(2)",
    "'a' is string",
    "none is none",
    "raise_exception('message')",
    "range()",
    "'a' | no_such",
    "[1] | join(1, 2, 3)",
};

TEST(WhatTheyReturnStaysTheSame) {
  for (const char* expression : kExpressions) {
    const std::string text = "{% set missing = missing %}{{ " + std::string(expression) + " }}";
    EXPECT_EQ(Limited(text), Rendered(text));
  }
}

TEST(OnceTheLimitIsExceededEachOfThemEndsTheTemplate) {
  for (const char* expression : {"range(3)",
                                 "'a' | upper",
                                 "'a' | length",
                                 "1 | abs",
                                 "1.5 | int",
                                 "true | string",
                                 "[1] | first",
                                 "{} | length",
                                 "none | tojson",
                                 "missing | default(1)",
                                 "namespace(a=1)",
                                 "'a'.split('b')",
                                 "1 is odd",
                                 "missing is defined",
                                 "'a' | replace('b', 'c')",
                                 "'a' | strip",
                                 "[] | sort",
                                 "[1] | join",
                                 "'a' | indent",
                                 "'a' | format(1)"}) {
    const std::string text = "{% set x = " + std::string(expression) + " %}";
    const std::string ended = Limited(text, nullptr, 0);
    if (ended != kEnded)
      test::Fail(__FILE__, __LINE__, text + " ends with " + ended.substr(0, 200));
    EXPECT_EQ(Rendered(text), "");
  }
  // Calls of it again change nothing.
  LimitBuiltins();
  EXPECT_EQ(Limited("{{ range(3) | string }}"), "[0, 1, 2]");
}

TEST(RangesAreNotMadeIfTheyAreTooLong) {
  ExpectEnded({"range(1000000)", "range(1, 1000000)", "range(0, -1000000, -1)",
               "range(0, 9000000000000000000, 1000)", "range(0, 5, 2000000000000000000)",
               "range(2000000000000000000, 2000000000000000002)"},
              nullptr);
  EXPECT_EQ(Limited("{{ range(100000) | length }}"), "100000");
  EXPECT_EQ(Limited("{{ range(0, 1000000000, 100000000) | length }}"), "10");
  // The wrong direction.
  EXPECT_EQ(Limited("{{ range(0, 1000000000, -1) | length }}"), "0");
}

TEST(TextsAreNotMultiplied) {
  const value variables = Dictionary({{"many", Text(std::string(kMiB, 'x'))},
                                      {"half", Text(std::string(32 * kMiB, 'x'))},
                                      {"list", List(std::vector<value>(1000, Number(1)))},
                                      {"lines", Text(std::string(100'000, '\n'))}});
  ExpectEnded({"many.replace('x', 'yyyy' + many[:100])", "many.replace('', many)",
               "half.replace('y', '').replace('', 'y')", "many.split('x')", "many.rsplit('x')",
               "list | join(many)", "list | join(d=many)", "lines | indent(1000)",
               "lines | indent(many)", "'a' | indent(100000000)", "'a' | indent(width=100000000)",
               "[1, [2, 3]] | tojson(indent=100000000)", "'%s%s%s' | format(half, half, half)"},
              variables);
  EXPECT_EQ(Limited("{{ many[:1000].replace('x', 'yy') | length }} {{ many.split('y') | length }} "
                    "{{ list | join('--') | length }}",
                    variables),
            "2000 1 2998");
}

TEST(SearchesAndSortsDoNotTakeTooLong) {
  const value variables = Dictionary({{"text", Text(std::string(16 * kMiB, 'x'))},
                                      {"part", Text(std::string(1 * kMiB, 'y'))},
                                      {"list", List(std::vector<value>(140'000, Number(1)))}});
  ExpectEnded(
      {"text.replace(part, '')", "text.split(part)", "text.strip(part)", "text.lstrip(part)",
       "text.rstrip(chars=part)", "part is in(text)", "list | sort", "list | min", "list | max"},
      variables);
  std::vector<std::pair<std::string, value>> items;
  for (int i = 0; i < 60'000; ++i) items.emplace_back(std::to_string(i), Number(i));
  ExpectEnded({"items | dictsort"}, Dictionary({{"items", Dictionary(items)}}));
  EXPECT_EQ(Limited("{{ list | length }}{{ 'y' is in(text) }}", variables), "140000False");
}

TEST(ValuesThatAreTooLargeOrContainThemselvesAreNotFollowed) {
  const value variables = Dictionary({{"a", Doubled()}, {"b", InItself()}});
  for (const std::string name : {"a", "b"}) {
    ExpectEnded(
        {name + " | string", name + " | tojson", name + " | join", name + " | sort",
         name + " | min", "1 is in(" + name + ")", name + " is in([1])",
         "'%s' | format(" + name + ")", "1 | default(" + name + ")", "{'k': 1}.get(" + name + ")",
         "1 is eq(" + name + ")", "'a' | tojson(separators=" + name + ")"},
        variables);
  }
  // Whatever uses only its items does not follow it.
  EXPECT_EQ(Limited("{{ a | length }}{{ b | length }}{{ (a | first) | length }}", variables),
            "212");
}

TEST(WithoutALimitNothingIsEnded) {
  EXPECT_EQ(Rendered("{{ range(300000) | length }}"), "300000");
  std::string other;
  const WorkLimit limit(0);
  std::thread([&] { other = Rendered("{{ range(300000) | length }}"); }).join();
  EXPECT_EQ(other, "300000");
}

TEST(NamedArgumentsAreNoValues) {
  EXPECT_EQ(Limited("{% set a = [] %}{{ a.append(k=1) }}").substr(0, 6), "error:");
  EXPECT(Limited("{% set a = [] %}{{ a.append(k=1) }}").find("append() takes no keyword") !=
         std::string::npos);
  EXPECT_EQ(Limited("{% set a = [] %}{% set _ = a.append(1) %}{{ a | string }}"), "[1]");
  EXPECT_EQ(Limited("{% set x = missing | default(k=1) %}{{ x is defined }}"), "False");
  // Threads without a limit are as they were.
  EXPECT_EQ(Rendered("{% set a = [] %}{% set _ = a.append(k=1) %}{{ a | length }}"), "1");
}

// The containers that they get and make are kept until the end of the rendering.
TEST(WhatTheyGetAndMakeIsFreedAlthoughItContainsItself) {
  LimitBuiltins();
  for (const char* text :
       {"{% set _ = a.append(a) %}", "{% set n = namespace(x=a) %}{% set n.y = n %}",
        "{% set n = namespace(x=a) %}"
        "{% set _ = a.append(n) %}",
        "{% set i = {'k': a}.items() | list %}{% set _ = a.append(i) %}"}) {
    value list = List({});
    const std::weak_ptr<jinja::value_t> seen = list;
    EXPECT_EQ(Limited(text, Dictionary({{"a", list}})), "");
    list = nullptr;
    if (!seen.expired()) test::Fail(__FILE__, __LINE__, std::string(text) + " leaks");
  }
}

// ---- for other checks ---------------------------------------------------------------------------

TEST(WhatIsTooLargeIsRefusedOnlyUnderALimit) {
  const double most = WorkLimit::kMaxAllocationBytes;
  EXPECT_EQ(ErrorOf([&] { RequireMemory(most); }), "");
  EXPECT_EQ(ErrorOf([&] { RequireMemory(most + 1); }), kEnded);
  EXPECT_EQ(ErrorOf([] { RequireMoves(WorkLimit::kMaxMovedBytes); }), "");
  EXPECT_EQ(ErrorOf([] { RequireMoves(WorkLimit::kMaxMovedBytes * 1.001); }), kEnded);
  RequireMemory(2 * most);
  RequireMoves(2 * WorkLimit::kMaxMovedBytes);
}

TEST(ABoundedValueHasAWeightAndAnotherOneIsRefused) {
  EXPECT_EQ(ErrorOf([] { EXPECT_EQ(RequireBounded(List({Text("a")})).items, 2); }), "");
  EXPECT_EQ(ErrorOf([] { (void)RequireBounded(Doubled()); }), kEnded);
  const value list = InItself();
  EXPECT_EQ(ErrorOf([&] { (void)RequireBounded(list); }), kEnded);
  EXPECT(!RequireBounded(list).is_bounded);
  list->val_arr.clear();
}

TEST(ASearchCostsWhatIsSoughtAtEachPlace) {
  const value long_text = Text(std::string(kMiB, 'x'));
  const value many = List(std::vector<value>(300'000, Number(1)));
  EXPECT_EQ(ErrorOf([&] { CheckMembership(Text("a"), long_text); }), "");
  EXPECT_EQ(ErrorOf([&] { CheckMembership(long_text, Text("a")); }), "");
  EXPECT_EQ(ErrorOf([&] { CheckMembership(long_text, long_text); }), kEnded);
  EXPECT_EQ(ErrorOf([&] { CheckMembership(Number(1), many); }), "");
  EXPECT_EQ(ErrorOf([&] { CheckMembership(long_text, many); }), kEnded);
  EXPECT_EQ(ErrorOf([&] { CheckMembership(Doubled(), List({})); }), kEnded);
  EXPECT_EQ(ErrorOf([&] { CheckMembership(Number(1), Doubled()); }), kEnded);
}

// The year in which a template that believes to be in 1970 renders.
std::string Year() {
  const WorkLimit limit;
  const jinja::program program = test::ParseProgram("{{ strftime_now('%Y') }}");
  jinja::context context;
  context.current_time = 24 * 3600 * 100;
  jinja::runtime runtime(context);
  return jinja::runtime::gather_string_parts(runtime.execute(program))->as_string().str();
}

TEST(TheTimeIsFixedOnThisThread) {
  LimitBuiltins();
  EXPECT_EQ(Year(), "1970");
  {
    const FixedTime time;
    EXPECT(Year() > "2000");
    std::string other;
    std::thread([&] { other = Year(); }).join();
    EXPECT_EQ(other, "1970");
  }
  EXPECT_EQ(Year(), "1970");
}

}  // namespace
}  // namespace svc

TEST_MAIN()
