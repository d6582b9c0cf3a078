// Every chat template of llama.cpp's tree that calls tools: whatever the grammar of a strict call
// allows is read as a call whose arguments are valid, in every format.
#include "engine/llama/answer/call_grammar.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "answer_test.h"
#include "engine/grammar/answer_constraint.h"
#include "engine/grammar/grammar_constraint.h"
#include "engine/llama/chat/chat_renderer.h"
#include "grammar_walker.h"
#include "models.h"
#include "templates.h"
#include "test.h"

namespace svc {
namespace {

using test::Walker;

// A tool with each kind of argument: any text, one of some texts, a text or nothing, a number, a
// list. The text or nothing and the list may be left out.
constexpr const char* kParameters =
    R"({"type":"object","properties":{"day":{"type":"string"},"kind":{"type":"string",)"
    R"("enum":["new moon","full"]},)"
    R"("note":{"type":["string","null"]},"n":{"type":"integer"},)"
    R"("tags":{"type":"array","items":{"type":"string"}}},"required":["day","kind","n"]})";

constexpr const char* kGrammar = R"(arguments-0-root ::= "{" arguments-0-members "}"
arguments-0-members ::= "\"day\": " arguments-0-day arguments-0-others
arguments-0-others ::= ", \"kind\": " arguments-0-kind-json arguments-0-note-or-not arguments-0-end
arguments-0-note-or-not ::= (", \"note\": " arguments-0-note)?
arguments-0-end ::= ", \"n\": " arguments-0-n (", \"tags\": " arguments-0-tags)?
arguments-0-day ::= "\"" arguments-0-character* "\""
arguments-0-character ::= [a-z<>/ ] | "\\" ["\\n]
arguments-0-kind-json ::= "\"new moon\"" | "\"full\""
arguments-0-kind ::= "new moon" | "full"
arguments-0-n ::= "-"? ("0" | [1-9] [0-9]{0,5})
arguments-0-null ::= "null"
arguments-0-note ::= "null" | arguments-0-day
arguments-0-tags ::= "[" (arguments-0-day (", " arguments-0-day)*)? "]"
)";

constexpr const char* kTaggedGrammar = R"(tagged-0-root ::= "{" tagged-0-first tagged-0-rest "}"
tagged-0-first ::= "day:" tagged-0-day ",kind:<|\"|>" ("new moon" | "full") "<|\"|>"
tagged-0-rest ::= (",note:" ("null" | tagged-0-day))? ",n:" tagged-0-n (",tags:" tagged-0-tags)?
tagged-0-n ::= "0" | [1-9] [0-9]{0,5}
tagged-0-tags ::= "[" (tagged-0-day ("," tagged-0-day)*)? "]"
tagged-0-day ::= "<|\"|>" [a-z/ "]* "<|\"|>"
)";

constexpr std::string_view kTextOrNull = R"(["string","null"])";
constexpr std::string_view kList = R"("array","items":{"type":"string"})";

// Formats in which a list cannot be enforced: its items have tags of their own, or a tag within an
// item would end the list.
const std::set<std::string> kNoLists = {"Kimi-K3.jinja", "MiniMax-M3.jinja"};

// Formats in which a text that the grammar of calls allows may be read as content: Kimi's tags may
// have attributes that its parser does not know.
const std::set<std::string> kTextMayLookLikeACall = {"Kimi-K3.jinja"};

Tool MoonTool(bool has_tags) {
  std::vector<ToolArgument> arguments = {
      {.name = "day",
       .required = true,
       .json = "arguments-0-day",
       .any_text = true,
       .text_may_be_json = true},
      {.name = "kind",
       .required = true,
       .json = "arguments-0-kind-json",
       .text = "arguments-0-kind",
       .text_may_be_json = true},
      {.name = "note",
       .json = "arguments-0-note",
       .any_text = true,
       .other = "arguments-0-null",
       .text_may_be_json = true},
      {.name = "n",
       .required = true,
       .json = "arguments-0-n",
       .other = "arguments-0-n",
       .scalar = true},
      {.name = "tags", .json = "arguments-0-tags", .other = "arguments-0-tags"}};
  if (!has_tags) arguments.pop_back();
  std::string parameters = kParameters;
  if (!has_tags) {
    const std::size_t at = parameters.find(",\"tags\"");
    parameters.erase(at, parameters.find("},\"required\"") - at);
  }
  return {.name = "moon_phase_on",
          .description = "Phase of the moon",
          .parameters = parameters,
          .grammar = kGrammar,
          .tagged_grammar = kTaggedGrammar,
          .arguments = arguments,
          .strict = true};
}

// Why the arguments are invalid; empty: they are valid.
std::string Fault(const std::string& text) {
  common_json arguments;
  try {
    arguments = common_json::parse(text);
  } catch (const std::exception&) {
    return "no JSON";
  }
  const auto is_text = [](const common_json& value) { return value.is_string(); };
  std::set<std::string> names;
  for (const auto& each : arguments.items()) names.insert(each.key());
  if (!names.contains("day") || !is_text(arguments.at("day"))) return "no day";
  if (!names.contains("kind")) return "no kind";
  const common_json& kind = arguments.at("kind");
  if (kind != common_json("new moon") && kind != common_json("full")) return "another kind";
  if (!names.contains("n") || !arguments.at("n").is_number_integer()) return "no n";
  if (names.contains("note") && !is_text(arguments.at("note")) && !arguments.at("note").is_null()) {
    return "another note";
  }
  for (const std::string& name : names) {
    const std::string key = "\"" + name + "\":";
    const std::size_t first = text.find(key);
    if (name != "day" && text.find(",\"" + name + "\":", first + 1) != std::string::npos) {
      return name + " twice";
    }
  }
  if (!names.contains("tags")) return "";
  for (const auto& tag : arguments.at("tags")) {
    if (!is_text(tag)) return "another tag";
  }
  return "";
}

// Texts that the parser compares with the input: ends of values among them.
std::vector<std::string> WordsOf(const common_peg_arena& parser) {
  std::vector<std::string> words = {"<", "\n", "null", "\"", "]", "}"};
  for (common_peg_parser_id part = 0; part < parser.size(); ++part) {
    const auto* literal = std::get_if<common_peg_literal_parser>(&parser.get(part));
    if (literal != nullptr && !literal->literal.empty()) words.push_back(literal->literal);
  }
  return words;
}

std::vector<std::string> WordsOf(const common_chat_params& found) {
  common_peg_arena parser;
  parser.load(found.parser);
  return WordsOf(parser);
}

common_chat_params Found(const test::Template& each, const Tool& tool,
                         common_chat_tool_choice choice) {
  common_chat_templates_inputs inputs;
  inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  inputs.enable_thinking = false;
  inputs.messages.emplace_back();
  inputs.messages.back().role = "user";
  inputs.messages.back().content = "Which phase?";
  inputs.tools.push_back({tool.name, tool.description, tool.parameters});
  inputs.tool_choice = choice;
  return common_chat_templates_apply(each.parsed.get(), inputs);
}

// Some templates refuse a list of types, or one of the kinds of arguments at all.
common_chat_params FoundFor(const test::Template& each, Tool tool,
                            common_chat_tool_choice choice = COMMON_CHAT_TOOL_CHOICE_REQUIRED) {
  for (const std::string_view part : {kTextOrNull, kList}) {
    try {
      return Found(each, tool, choice);
    } catch (const std::exception&) {
      const std::size_t at = tool.parameters.find(part);
      if (at != std::string::npos) tool.parameters.replace(at, part.size(), R"("string")");
    }
  }
  return Found(each, tool, choice);
}

// A constraint that waits for the trigger, over a vocabulary of `pieces`, whose last one ends a
// text.
AnswerConstraint Waiting(const AnswerFormat& format, const std::vector<std::string>& pieces,
                         std::unique_ptr<Thinking> thinking = nullptr) {
  AnswerConstraintParts parts;
  parts.thinking = std::move(thinking);
  const Token end = static_cast<Token>(pieces.size()) - 1;
  parts.grammar = std::make_unique<GrammarConstraint>(
      CompileGrammar(format.grammar).value(),
      std::make_shared<VocabularyIndex>(pieces, std::vector<Token>{end}),
      [](const std::string&) { return std::vector<Token>{}; });
  parts.trigger.emplace(*format.trigger);
  parts.piece = [pieces](Token token) { return pieces[static_cast<std::size_t>(token)]; };
  return AnswerConstraint(std::move(parts));
}

// Bytes of `call` up to the end of its trigger.
std::size_t TriggerEnd(const AnswerFormat& format, const std::string& call) {
  const GrammarTrigger trigger(*format.trigger);
  std::size_t end = 1;
  while (end < call.size() && !trigger.Find(call.substr(0, end))) ++end;
  return end;
}

// A model writes the trigger of a call that it may make, with a token that begins at `at` in it and
// goes on after it, if it may. Then it writes anything that may follow. Returns the whole text.
std::string WriteCall(const AnswerFormat& format, const std::string& call, std::size_t at,
                      std::vector<std::string> pieces, Walker& random) {
  const std::size_t end = TriggerEnd(format, call);
  const std::string rest = call.substr(at, end - at);
  const auto letters = static_cast<Token>(pieces.size());
  pieces.push_back(call.substr(0, at));
  for (const char* tail : {"?!", "\n\n\n", "{}", "<", "]", ""}) pieces.push_back(rest + tail);
  pieces.emplace_back();
  AnswerConstraint constraint = Waiting(format, pieces);
  constraint.Begin();
  std::string text;
  const auto write = [&](Token token) {
    if (!constraint.Accept(token)) return false;
    text += pieces[static_cast<std::size_t>(token)];
    return true;
  };
  write(letters);
  for (Token token = letters + 1; !write(token);) ++token;
  const auto last = static_cast<Token>(pieces.size()) - 1;
  for (int i = 0; i < 100000 && !constraint.ended(); ++i) {
    const auto token = static_cast<Token>(random.Random(pieces.size() + 20));
    if (token >= last && constraint.Accept(last)) return text;
    if (token < letters) write(token);
  }
  return constraint.ended() ? text : "";
}

// Templates with a form for calls.
std::vector<test::Template> TemplatesWithCalls() {
  std::vector<test::Template> templates = test::Templates();
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  std::erase_if(templates, [&](const test::Template& each) {
    const auto renderer = ChatRenderer::New(*model, each.source);
    EXPECT(renderer.ok());
    return !renderer.ok() || !renderer.value()->calls_tools();
  });
  return templates;
}

// Fails for each call whose arguments are not valid.
void ExpectValid(const std::vector<ToolCall>& calls, const char* name, int line,
                 const std::string& text) {
  for (const ToolCall& call : calls) {
    const std::string fault = Fault(call.arguments);
    if (!fault.empty()) test::Fail(name, line, fault + ": " + call.arguments + " in " + text);
  }
}

TEST(ACallThatATokenBeginsAndContinuesIsValid) {
  std::size_t formats = 0;
  std::size_t calls = 0;
  for (const test::Template& each : TemplatesWithCalls()) {
    const char* const name = each.name.c_str();
    ChatOptions options;
    options.tools = {MoonTool(!kNoLists.contains(each.name))};
    options.parallel_tool_calls = false;
    const common_chat_params found = FoundFor(each, options.tools[0], COMMON_CHAT_TOOL_CHOICE_AUTO);
    const auto format = MakeAnswerFormat(found, options);
    if (!format.ok() || !format.value()->trigger) continue;
    ++formats;
    const auto grammar = CompileGrammar(format.value()->grammar);
    REQUIRE(grammar.ok());
    std::vector<std::string> pieces = WordsOf(found);
    for (char byte = ' '; byte <= '~'; ++byte) pieces.emplace_back(1, byte);
    Walker walker(*grammar.value()->automaton, WordsOf(found));
    const std::string call = walker.Walk("");
    const std::size_t end = TriggerEnd(*format.value(), call);
    const std::string thought =
        OpensThinking(*format.value()) ? "Hm" + format.value()->thinking_ends.front() : "";
    for (std::size_t at = 0; at < end; ++at) {
      const std::string text = WriteCall(*format.value(), call, at, pieces, walker);
      if (text.empty()) continue;  // cut off
      const test::Answer answer = test::ReadPieces(format.value(), {thought, text});
      ++calls;
      if (answer.calls.empty() && kTextMayLookLikeACall.contains(each.name)) continue;
      if (answer.calls.empty()) {
        test::Fail(name, static_cast<int>(at), test::Show(answer) + " in " + text);
        continue;
      }
      ExpectValid(answer.calls, name, static_cast<int>(at), text);
    }
  }
  std::printf("%zu formats, %zu calls\n", formats, calls);
  EXPECT(calls >= 200);
}

// Some formats read a call without the tag that ends the reasoning before it.
TEST(ACallFromWithinTheReasoningFollowsTheGrammar) {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  pieces.emplace_back();
  std::set<std::string> formats;
  for (const test::Template& each : TemplatesWithCalls()) {
    ChatOptions options;
    options.tools = {MoonTool(!kNoLists.contains(each.name))};
    const common_chat_params found = FoundFor(each, options.tools[0], COMMON_CHAT_TOOL_CHOICE_AUTO);
    const auto made = MakeAnswerFormat(found, options);
    if (!made.ok() || !made.value()->trigger || made.value()->thinking_ends.empty()) continue;
    const AnswerFormat& format = *made.value();
    const auto grammar = CompileGrammar(format.grammar);
    REQUIRE(grammar.ok());
    // Without tags in its values.
    const std::string call = Walker(*grammar.value()->automaton, {"a"}).Walk("");
    const std::string begin = OpensThinking(format) ? "" : format.thinking_start;
    const std::string text = begin + "Hm" + call;
    const test::Answer answer = test::ReadPieces(made.value(), {text});
    if (answer.calls.empty() || answer.reasoning != "Hm") continue;
    formats.insert(each.name);
    const auto tokenize = [](const std::string&) { return std::vector<Token>{}; };
    AnswerConstraint constraint =
        Waiting(format, pieces,
                std::make_unique<Thinking>(
                    ThinkingTags{.start = format.thinking_start, .ends = format.thinking_ends},
                    /*is_open=*/true, std::nullopt, tokenize));
    constraint.Begin();
    for (const char byte : "Hm" + call.substr(0, TriggerEnd(format, call))) {
      EXPECT(constraint.Accept(static_cast<unsigned char>(byte)));
    }
    if (constraint.grammar() == nullptr) test::Fail(each.name.c_str(), 0, "no grammar");
  }
  std::printf("%zu formats\n", formats.size());
  EXPECT(formats.contains("Kimi-K2-Thinking.jinja") && formats.contains("Cohere2MoE.jinja"));
}

// Functionary v3.2: the prompt ends with the mark of a call.
TEST(AnAnswerThatSaysAtItsBeginningWhatItIsIsAContentOrAValidCall) {
  std::set<std::string> formats;
  for (const test::Template& each : test::Templates()) {
    const char* const name = each.name.c_str();
    ChatOptions options;
    options.tools = {MoonTool(!kNoLists.contains(each.name))};
    const common_chat_params found = FoundFor(each, options.tools[0], COMMON_CHAT_TOOL_CHOICE_AUTO);
    const auto format = MakeAnswerFormat(found, options);
    if (!found.grammar_lazy || !format.ok() || format.value()->trigger) continue;
    formats.insert(each.name);
    const auto grammar = CompileGrammar(format.value()->grammar);
    REQUIRE(grammar.ok());
    Walker walker(*grammar.value()->automaton, WordsOf(found));
    std::size_t contents = 0;
    std::size_t calls = 0;
    for (int i = 0; i < (test::kSanitized ? 20 : 200); ++i) {
      const std::string text = walker.Walk(format.value()->generation_prompt);
      if (!walker.is_complete()) continue;
      const test::Answer answer = test::ReadPieces(format.value(), {text});
      EXPECT_EQ(answer.calls.size(), text.starts_with("all\n") ? 0U : 1U);
      ++(answer.calls.empty() ? contents : calls);
      ExpectValid(answer.calls, name, i, text);
    }
    std::printf("%s: %zu contents, %zu calls\n", name, contents, calls);
    EXPECT(contents >= 5 && calls >= 5);
  }
  EXPECT(formats == std::set<std::string>{"meetkai-functionary-medium-v3.2.jinja"});
}

TEST(WhatAStrictCallMayBeIsAValidCall) {
  std::size_t formats = 0;
  std::size_t calls = 0;
  for (const test::Template& each : TemplatesWithCalls()) {
    const char* const name = each.name.c_str();
    ChatOptions options;
    options.tools = {MoonTool(!kNoLists.contains(each.name))};
    options.tool_choice = ToolChoice::kRequired;
    const common_chat_params found = FoundFor(each, options.tools[0]);
    const auto format = MakeAnswerFormat(found, options);
    if (!format.ok()) {
      test::Fail(name, 0, format.status().message());
      continue;
    }
    const auto grammar = CompileGrammar(format.value()->grammar);
    if (!grammar.ok()) {
      test::Fail(name, 0, grammar.status().message());
      continue;
    }
    ++formats;
    Walker walker(*grammar.value()->automaton, WordsOf(found));
    for (int i = 0; i < (test::kSanitized ? 5 : 60); ++i) {
      const std::string text = walker.Walk(format.value()->generation_prompt);
      if (!walker.is_complete()) continue;
      const test::Answer answer = test::ReadPieces(format.value(), {text});
      if (answer.calls.empty()) test::Fail(name, i, "no call: " + text);
      calls += answer.calls.size();
      ExpectValid(answer.calls, name, i, text);
    }
  }
  std::printf("%zu formats, %zu calls\n", formats, calls);
  EXPECT(calls >= formats * (test::kSanitized ? 2 : 20));
}

// Most calls in an answer of `renderer` that must call.
std::size_t MostCalls(const ChatRenderer& renderer, const char* name, bool parallel) {
  ChatOptions options;
  options.tools = {{.name = "moon_phase",
                    .parameters = R"({"type":"object","properties":{"day":{"type":"string"}},)"
                                  R"("required":["day"]})",
                    .grammar = "arguments-0-root ::= \"{\\\"day\\\": \" arguments-0-day \"}\"\n"
                               "arguments-0-day ::= \"\\\"\" [a-z]+ \"\\\"\""}};
  options.tool_choice = ToolChoice::kRequired;
  options.parallel_tool_calls = parallel;
  options.reasoning_effort = ReasoningEffort::kNone;
  options.tools[0].arguments = {{{.name = "day",
                                  .required = true,
                                  .json = "arguments-0-day",
                                  .any_text = true,
                                  .text_may_be_json = true}}};
  const auto prompt = renderer.RenderTokens({{"user", "Which phase?"}}, options);
  if (!prompt.ok()) {
    test::Fail(name, 0, prompt.status().message());
    return 0;
  }
  const std::shared_ptr<const AnswerFormat> format = prompt.value().format;
  const auto grammar = CompileGrammar(format->grammar);
  EXPECT(grammar.ok());
  if (!grammar.ok()) return 0;
  Walker walker(*grammar.value()->automaton, WordsOf(format->parser->parser));
  std::size_t most = 0;
  for (int i = 0; i < 30; ++i) {
    const std::string text = walker.Walk(format->generation_prompt);
    if (walker.is_complete()) most = std::max(most, test::ReadPieces(format, {text}).calls.size());
  }
  return most;
}

// True if the template holds an answer with two calls, and their results.
bool HoldsTwoCalls(const ChatRenderer& renderer) {
  const auto call = [](const char* id, const char* day) {
    return ToolCall{id, "moon_phase", std::string(R"({"day":")") + day + "\"}"};
  };
  const auto prompt = renderer.Render(
      {{.role = "user", .content = "Which phase?"},
       {.role = "assistant", .tool_calls = {call("abcdefghi", "q7"), call("jklmnopqr", "q8")}},
       {.role = "tool", .content = "New.", .tool_call_id = "abcdefghi"},
       {.role = "tool", .content = "Waxing.", .tool_call_id = "jklmnopqr"}});
  return prompt.ok() && prompt.value().find("q8") != std::string::npos &&
         prompt.value().find("Waxing.") != std::string::npos;
}

TEST(ThereIsOneCallIfThereMayBeOnlyOne) {
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  std::set<std::string> singles;
  std::size_t several = 0;
  for (const test::Template& each : TemplatesWithCalls()) {
    const char* const name = each.name.c_str();
    const auto renderer = ChatRenderer::New(*model, each.source);
    REQUIRE(renderer.ok());
    const std::size_t one = MostCalls(*renderer.value(), name, /*parallel=*/false);
    if (one != 1) test::Fail(name, 0, std::to_string(one) + " calls");
    const std::size_t most = MostCalls(*renderer.value(), name, /*parallel=*/true);
    // The next turn has all calls.
    const bool holds_two = HoldsTwoCalls(*renderer.value());
    if (!holds_two) singles.insert(each.name);
    if (most > 1 && !holds_two) test::Fail(name, 0, "the template holds no two calls");
    several += most > 1 ? 1 : 0;
  }
  std::printf("%zu formats have several calls; not those of", several);
  for (const std::string& name : singles) std::printf(" %s", name.c_str());
  std::printf("\n");
  EXPECT(several >= 40);
}

TEST(AListInTagsOfItsOwnIsRefused) {
  for (const test::Template& each : test::Templates()) {
    if (!kNoLists.contains(each.name)) continue;
    ChatOptions options;
    options.tools = {MoonTool(true)};
    options.tool_choice = ToolChoice::kRequired;
    const auto format = MakeAnswerFormat(FoundFor(each, options.tools[0]), options);
    EXPECT(!format.ok() && format.status().param() == "tools");
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
