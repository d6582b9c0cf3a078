// Values nested as deep as a client allows, and far deeper, in every notation.
#include "engine/llama/answer/bounded_nesting.h"

#include <pthread.h>

#include <functional>
#include <map>
#include <utility>

#include "answer_test.h"
#include "chat-peg-parser.h"
#include "engine/base/json_depth.h"
#include "engine/llama/answer/call_parts.h"
#include "engine/llama/chat/own_calls.h"
#include "engine/llama/devices.h"
#include "models.h"
#include "templates.h"
#include "test.h"

namespace svc {
namespace {

using Builder = common_chat_peg_builder;
using test::Template;
using test::Templates;

constexpr const char* kParameters = R"({"type":"object","properties":{"a":{}},"required":["a"]})";
constexpr std::size_t kFarTooDeep = 100'000;
// Notations differ by a few levels.
constexpr std::size_t kSurelyRead = kMaxJsonDepth - 4;

std::string Repeat(const std::string& text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

// The stack of a thread is 8 MiB on Linux. A sanitizer's frames are larger.
void OnSmallStack(std::function<void()> work) {
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, (test::kSanitized ? 8U : 1U) << 20U) == 0);
  pthread_t thread{};
  const auto run = [](void* work) -> void* {
    (*static_cast<std::function<void()>*>(work))();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, run, &work) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

std::shared_ptr<const AnswerFormat> FormatOf(const Template& each, common_chat_tool_choice theirs,
                                             ToolChoice ours) {
  common_chat_templates_inputs inputs;
  inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  inputs.enable_thinking = false;
  inputs.messages.emplace_back();
  inputs.messages.back().role = "user";
  inputs.messages.back().content = "Go";
  inputs.tools.push_back({"go", "Goes", kParameters});
  inputs.tool_choice = theirs;
  ChatOptions options;
  options.tools.push_back({.name = "go", .description = "Goes", .parameters = kParameters});
  options.tool_choice = ours;
  try {
    auto format = MakeAnswerFormat(common_chat_templates_apply(each.parsed.get(), inputs), options);
    return format.ok() ? std::move(format.value()) : nullptr;
  } catch (const std::exception&) {
    return nullptr;  // a template that takes no argument of any type
  }
}

// A call as the template writes it, whose argument is "q7"; empty: it has no form for calls.
std::string WrittenCall(const Template& each, const std::shared_ptr<const AnswerFormat>& format) {
  common_chat_templates_inputs inputs;
  inputs.enable_thinking = false;
  inputs.messages.emplace_back();
  inputs.messages.back().role = "user";
  inputs.messages.back().content = "Go";
  inputs.tools.push_back({"go", "Goes", kParameters});
  try {
    return OwnCalls(each.parsed.get(), inputs, format, {{"go", R"({"a":"q7"})", "abcdefghi"}})
        .value_or("");
  } catch (const std::exception&) {
    return "";
  }
}

// What of the call stands before its argument, and behind it.
using Around = std::pair<std::string, std::string>;

// The argument begins with its text, or with the mark before the text, if there is one.
std::vector<Around> AroundArgument(const std::string& call) {
  std::vector<Around> found;
  for (const std::string mark : {"", "\"", "'", "<|\"|>"}) {
    const std::string argument = mark + "q7" + mark;
    const std::size_t at = call.find(argument);
    if (at == std::string::npos) continue;
    found.emplace_back(call.substr(0, at), call.substr(at + argument.size()));
  }
  return found;
}

struct Format {
  std::string name;  // of the template
  std::shared_ptr<const AnswerFormat> format;
  std::vector<Around> around;  // a call's argument; empty: it has no form for calls
};

// Two of each template: where calls may and where they must happen.
const std::vector<Format>& Formats() {
  static const std::vector<Format> all = [] {
    test::LoadModules();
    SetLogSink(nullptr);  // llama.cpp warns of what it cannot read
    std::vector<Format> formats;
    for (const Template& each : Templates()) {
      for (const auto& [theirs, ours] :
           {std::pair{COMMON_CHAT_TOOL_CHOICE_AUTO, ToolChoice::kAuto},
            std::pair{COMMON_CHAT_TOOL_CHOICE_REQUIRED, ToolChoice::kRequired}}) {
        const auto format = FormatOf(each, theirs, ours);
        if (format == nullptr) continue;
        formats.push_back({each.name, format, AroundArgument(WrittenCall(each, format))});
      }
    }
    return formats;
  }();
  return all;
}

TEST(NothingThatAModelWritesOverflowsTheStack) {
  std::size_t calls = 0;
  for (const Format& each : Formats()) {
    std::vector<Around> beginnings = each.around;
    calls += beginnings.empty() ? 0 : 1;
    beginnings.emplace_back();  // a plain content
    for (const auto& [beginning, end] : beginnings) {
      for (const std::string opening : {"[", "{\"k\":", "{'k':", "{k:"}) {
        const std::string text = beginning + Repeat(opening, kFarTooDeep);
        OnSmallStack([&] {
          for (const ToolCall& made : test::ReadPieces(each.format, {text}).calls) {
            if (JsonDepth(made.arguments) <= kMaxJsonDepth) continue;
            test::Fail(each.name.c_str(), 0, made.arguments);
          }
        });
      }
    }
  }
  std::printf("%zu formats of calls\n", calls);
  EXPECT(calls > 80);
}

TEST(DeepArgumentsAreReadInEveryFormat) {
  const std::string deep = Repeat("[", kSurelyRead - 1) + Repeat("]", kSurelyRead - 1);
  for (const Format& each : Formats()) {
    if (each.around.empty()) continue;
    const auto& [beginning, end] = each.around.back();
    const test::Answer answer = test::ReadPieces(each.format, {beginning + deep + end});
    if (answer.calls.size() == 1 && answer.calls[0].arguments.find(deep) != std::string::npos) {
      continue;
    }
    test::Fail(each.name.c_str(), 0, test::Show(answer));
  }
}

TEST(NoPartOfABoundedParserLeadsBackToItself) {
  for (const Format& each : Formats()) {
    const common_peg_arena& parser = each.format->parser->parser;
    std::map<CallPart, bool> seen;  // true: all below it has been, too
    const std::function<void(CallPart)> walk = [&](CallPart part) {
      const auto [found, is_new] = seen.try_emplace(part, false);
      if (!is_new && !found->second) test::Fail(each.name.c_str(), 0, "a part leads back");
      if (!is_new) return;
      for (const CallPart below : PartsBelow(parser, part)) walk(below);
      seen[part] = true;
    };
    walk(parser.root());
  }
}

struct Nesting {
  const char* name;
  std::function<common_peg_parser(Builder&)> make;
  std::string opening;
  std::string closing;
  std::size_t levels = 1;  // that it opens
  std::string innermost = "1";
};

const std::vector<Nesting> kNestings = {
    {"lists", [](Builder& p) { return p.json() + p.end(); }, "[", "]"},
    {"second items", [](Builder& p) { return p.json() + p.end(); }, "[\"]\", ", "]"},
    {"objects", [](Builder& p) { return p.json() + p.end(); }, "{\"[\": ", "}"},
    {"both", [](Builder& p) { return p.json() + p.end(); }, "{\"a\": 1, \"b\": [", "]}", 2},
    {"an object", [](Builder& p) { return p.json_object() + p.end(); }, "{\"k\": ", "}", 1, "{}"},
    {"Python", [](Builder& p) { return p.python_value() + p.end(); }, "{'k': ['[', ", "]}", 2},
};

TEST(ValuesAreReadUpToTheDepthThatAClientMaySend) {
  for (const Nesting& nesting : kNestings) {
    const std::string saved = build_chat_peg_parser(nesting.make).save();
    const common_peg_arena bounded = LoadBounded(saved);
    common_peg_arena unbounded;
    unbounded.load(saved);
    for (std::size_t depth = nesting.levels; depth < 200; depth += nesting.levels) {
      const std::size_t count = depth / nesting.levels;
      const std::string text =
          Repeat(nesting.opening, count) + nesting.innermost + Repeat(nesting.closing, count);
      EXPECT(!RefusedAt(unbounded, text));
      const bool is_read = !RefusedAt(bounded, text);
      if (depth <= kSurelyRead && !is_read) test::Fail(nesting.name, 0, "refuses " + text);
      if (depth > kMaxJsonDepth && is_read) test::Fail(nesting.name, 0, "reads " + text);
    }
  }
}

TEST(AParserWithoutNestingStaysAsItIs) {
  const auto make = [](Builder& p) { return p.content(p.until("<")) + "<" + p.end(); };
  const common_peg_arena parser = LoadBounded(build_chat_peg_parser(make).save());
  EXPECT(!RefusedAt(parser, Repeat("[", kFarTooDeep) + "<"));
  EXPECT(RefusedAt(parser, "a<b").has_value());
}

}  // namespace
}  // namespace svc

TEST_MAIN()
