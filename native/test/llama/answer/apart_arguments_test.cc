// Grammars of calls with arguments apart from each other, over parsers made by hand: every order of
// the arguments, and values of each kind.
#include "engine/llama/answer/apart_arguments.h"

#include <algorithm>
#include <cstdint>
#include <functional>

#include "chat-peg-parser.h"
#include "engine/grammar/grammar_automaton.h"
#include "engine/grammar/grammar_constraint.h"
#include "json-schema-to-grammar.h"
#include "test.h"

namespace svc {
namespace {

using Builder = common_chat_peg_builder;
using Part = common_peg_parser;
using Make = std::function<Part(Builder&)>;

// Ways in which a format reads a value.
Part Json(Builder& p) { return p.tool_arg_value(p.json_number()); }
Part JsonUpToTag(Builder& p) { return p.tool_arg_value(p.until("</p>")); }
Part Bare(Builder& p) { return p.tool_arg_string_value(p.until("</p>")); }
Part BareOrJson(Builder& p) { return p.choice({Json(p), Bare(p)}); }
Part BareUnlessTag(Builder& p) { return p.negate(p.literal("<![")) + Bare(p); }

// The parser of the calls of a tool with the arguments a, b and c. Tagged: "<p=a>1</p> <p=b>2</p>";
// otherwise at least one, "a=1,b=2".
common_peg_arena ParserOf(bool is_tagged, const Make& value) {
  Builder p;
  auto any = p.choice();
  for (const char* name : {"c", "a", "b"}) {
    const Part open = p.tool_arg_name(p.literal(name));
    any |= is_tagged ? p.tool_arg(p.tool_arg_open("<p=" + open + ">") + value(p) + "</p>")
                     : p.tool_arg(p.tool_arg_open(open + "=") + value(p));
  }
  const auto all = is_tagged ? p.zero_or_more(any + p.space()) : any + p.zero_or_more("," + any);
  p.set_root(p.tool(p.tool_open(p.tool_name(p.literal("f")) + "(") + p.tool_args(all) +
                    p.tool_close(p.literal(")"))));
  return p.build();
}

Tool ToolWith(std::optional<std::vector<ToolArgument>> arguments) {
  const std::string rules = "f-root ::= \"\"\nf-n ::= [0-9]\nf-t ::= \"new\" | \"full\"";
  return {.name = "f", .grammar = rules, .arguments = std::move(arguments)};
}

// The grammar of the calls; null: the format cannot follow the tool.
std::shared_ptr<GrammarAutomaton> Follow(common_peg_arena parser, const Tool& tool) {
  const std::string before = parser.save();
  ApartArguments apart(&parser);
  const bool follows = apart.Follow(tool, parser.root());
  EXPECT_EQ(parser.save() != before, follows);
  if (!follows) return nullptr;
  const auto build = [&](const common_grammar_builder& builder) { parser.build_grammar(builder); };
  const auto grammar = CompileGrammar(build_grammar(build) + "\n" + tool.grammar + apart.rules());
  EXPECT_EQ(grammar.status().message(), "");
  return grammar.ok() ? grammar.value()->automaton : nullptr;
}

bool Reads(GrammarAutomaton& automaton, const std::string& text) {
  GrammarAutomaton::State state = automaton.start();
  for (const char byte : text) state = automaton.Next(state, static_cast<std::uint8_t>(byte));
  return automaton.IsComplete(state);
}

// True if a call may have these arguments. Capital letters in `all` are those that are required.
bool MayBe(const std::string& arguments, std::string all) {
  std::stable_partition(all.begin(), all.end(), [](char each) { return each < 'a'; });
  std::size_t at = 0;
  for (const char each : all) {
    const bool is_next = at < arguments.size() && arguments[at] == (each | 0x20);
    if (each < 'a' && !is_next) return false;
    at += is_next ? 1 : 0;
  }
  return at == arguments.size();
}

TEST(ArgumentsComeInTheirOrderEachOnceThoseThatAreRequiredFirst) {
  for (const std::string all : {"abc", "abC", "aBc", "aBC", "Abc", "AbC", "ABc", "CBA", "b", "C"}) {
    for (const bool is_tagged : {false, true}) {
      std::vector<ToolArgument> arguments;
      for (const char each : all) {
        const std::string name(1, static_cast<char>(each | 0x20));
        arguments.push_back(
            {.name = name, .required = each < 'a', .json = "f-n", .any_text = is_tagged});
      }
      const Make value = is_tagged ? Bare : Json;
      const auto automaton = Follow(ParserOf(is_tagged, value), ToolWith(arguments));
      REQUIRE(automaton != nullptr);
      std::vector<std::string> lists = {""};
      for (std::size_t i = 0; i < lists.size(); ++i) {
        std::string text;
        for (const char each : lists[i]) {
          text += text.empty() ? "" : is_tagged ? "\n" : ",";
          text += is_tagged ? std::string("<p=") + each + ">7</p>" : each + std::string("=7");
        }
        const bool may_be = (is_tagged || !text.empty()) && MayBe(lists[i], all);
        if (Reads(*automaton, "f(" + text + ")") != may_be) test::Fail(all.c_str(), 0, text);
        if (lists[i].size() == 4) continue;
        for (const char each : {'a', 'b', 'c'}) lists.push_back(lists[i] + each);
      }
    }
  }
}

// The values that the argument may have, of a few; "none": the format cannot follow it.
std::string Values(const Make& value, ToolArgument argument) {
  argument.name = "a";
  const auto automaton = Follow(ParserOf(true, value), ToolWith({{argument}}));
  if (automaton == nullptr) return "none";
  std::string values;
  for (const std::string each : {"7", "new", "other", "<i>", "i<i", "<![", "", "a</p>b", "7</p>"}) {
    if (Reads(*automaton, "f(<p=a>" + each + "</p>)")) values += "[" + each + "]";
  }
  return values;
}

TEST(AValueFollowsItsRuleInTheWayTheFormatWritesIt) {
  EXPECT_EQ(Values(Json, {.json = "f-n"}), "[7]");
  EXPECT_EQ(Values(JsonUpToTag, {.json = "f-n", .scalar = true}), "[7]");
  EXPECT_EQ(Values(Bare, {.text = "f-t"}), "[new]");
  EXPECT_EQ(Values(Bare, {.any_text = true}), "[7][new][other][<i>][i<i][<![][]");
  EXPECT_EQ(Values(BareUnlessTag, {.any_text = true}), "[7][new][other][i<i][]");
  const ToolArgument text_or_json = {.text = "f-t", .other = "f-n", .text_may_be_json = true};
  EXPECT_EQ(Values(BareOrJson, text_or_json), "[7][new]");
  EXPECT_EQ(Values(BareOrJson, {.text = "f-t", .text_may_be_json = true}), "[new]");
  EXPECT_EQ(Values(BareOrJson, {.other = "f-n", .text_may_be_json = true}), "[7]");
}

TEST(WhatTheFormatCannotEnforceIsRefused) {
  EXPECT_EQ(Values(JsonUpToTag, {.json = "f-n"}), "none");
  EXPECT_EQ(Values(Bare, {.json = "f-n"}), "none");
  EXPECT_EQ(Values(BareOrJson, {.text = "f-t", .other = "f-n"}), "none");
  EXPECT_EQ(Values([](Builder& p) { return p.any(); }, {.json = "f-n"}), "none");
  EXPECT_EQ(Values([](Builder& p) { return p.tool_arg(Json(p)); }, {.json = "f-n"}), "none");
  EXPECT(Follow(ParserOf(true, Json), ToolWith(std::nullopt)) == nullptr);
  EXPECT(Follow(ParserOf(true, Json), ToolWith({{{.name = "d", .json = "f-n"}}})) == nullptr);
  // Only one of the formats writes calls without arguments.
  EXPECT(Follow(ParserOf(false, Json), ToolWith(std::vector<ToolArgument>())) == nullptr);
  EXPECT(Follow(ParserOf(true, Json), ToolWith(std::vector<ToolArgument>())) != nullptr);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
