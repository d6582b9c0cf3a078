// Grammars as a whole, from their text to the texts that they match: meaning, errors, attacks.
#include "engine/grammar/grammar.h"

#include <string>
#include <vector>

#include "engine/grammar/gbnf.h"
#include "engine/grammar/grammar_automaton.h"
#include "engine/grammar/grammar_constraint.h"
#include "test.h"

namespace svc {
namespace {

std::string Refusal(const std::string& gbnf) {
  const auto compiled = CompileGrammar(gbnf);
  if (compiled.ok()) return "";
  EXPECT_EQ(compiled.status().code(), StatusCode::kInvalidRequest);
  EXPECT_EQ(compiled.status().param(), "grammar");
  return compiled.status().message();
}

enum class Match { kNo, kBeginning, kWhole };

Match Try(const std::string& gbnf, const std::string& text) {
  const auto compiled = CompileGrammar(gbnf);
  if (!compiled.ok()) {
    test::Fail(__FILE__, __LINE__, gbnf + ": " + compiled.status().message());
    return Match::kNo;
  }
  GrammarAutomaton& automaton = *compiled.value()->automaton;
  auto state = automaton.start();
  for (const char c : text) state = automaton.Next(state, static_cast<std::uint8_t>(c));
  if (state == GrammarAutomaton::kDead) return Match::kNo;
  return automaton.IsComplete(state) ? Match::kWhole : Match::kBeginning;
}

void Expect(const std::string& gbnf, const std::vector<std::string>& whole,
            const std::vector<std::string>& not_whole) {
  for (const std::string& text : whole) {
    if (Try(gbnf, text) != Match::kWhole) test::Fail(__FILE__, __LINE__, gbnf + " rejects " + text);
  }
  for (const std::string& text : not_whole) {
    if (Try(gbnf, text) == Match::kWhole) test::Fail(__FILE__, __LINE__, gbnf + " accepts " + text);
  }
}

// ---- parsing ------------------------------------------------------------------------------------

TEST(TextsAlternativesAndRepetitions) {
  Expect("root ::= \"yes\" | \"no\" reason{0,2}\nreason ::= \" because \" [a-z]+",
         {"yes", "no", "no because x", "no because of because rain"},
         {"", "ye", "yes because x", "no because ", "no because a because b because c"});
  Expect("root ::= \"a\"? \"b\"* [0-9]{2} (\"x\" | \"y\"){1,}", {"12x", "ab12xy", "bbb99y"},
         {"1x", "12", "a12"});
  Expect("root ::= [a-c]{3,}", {"abc", "aaaa"}, {"ab", "abd"});
  Expect("root ::= (\"ab\"){2}", {"abab"}, {"ab", "ababab"});
  Expect("root ::= \"a\" (\n  \"b\" # why\n  | \"c\"\n)\n# the end\n", {"ab", "ac"}, {"a"});
  Expect("root ::= \"\" | \"x\"", {"", "x"}, {"xx"});
}

TEST(ClassesOverAllCharacters) {
  Expect("root ::= [^a-y\\n]", {"z", "é", "你", "👋", "-"}, {"a", "m", "\n", "zz", "\xC3", "\xA0"});
  Expect("root ::= [à-ö一-龠😀-😎]+", {"é", "中é😃"}, {"e", "ø", "あ", "😐", "\xED\xA0\x80"});
  Expect("root ::= .", {"a", "\n", "é", "\U0010FFFF"}, {"", "ab", "\xF4\x90\x80\x80"});
  Expect("root ::= [-a] [a-] [\\]\\[\\-\\\\]", {"-a]", "a-["}, {"ba]"});
  Expect("root ::= \"\\x41\\u00e9\\U0001F600\\t\\\"\"", {"Aé😀\t\""}, {"A"});
}

TEST(RulesThatCallEachOther) {
  Expect("root ::= \"(\" root \")\" | \"x\"", {"x", "((x))"}, {"(x", "x)", "()"});
  Expect("root ::= item (\",\" item)*\nitem ::= [a-z]+ | \"[\" root? \"]\"",
         {"a,b", "[[],[a,b]],c"}, {"a,", "[a"});
  // Tail recursion: the stack does not grow.
  Expect("root ::= [a-z] root | \"\"", {"", std::string(5000, 'k')}, {"K"});
}

TEST(ErrorsTellLineAndColumn) {
  EXPECT_EQ(Refusal("root ::= \"a\n"),
            "line 2, column 1: the grammar ends inside a string or a character class");
  EXPECT_EQ(Refusal("root ::= x\ny ::= \"é\" z"), "line 1, column 10: there is no rule named x");
  EXPECT_EQ(Refusal("# é\nroot = x"), "line 2, column 6: expected ::= after the name of a rule");
  EXPECT_EQ(Refusal("root ::= \"é\" *\n *"), "line 2, column 2: expected the name of a rule");
  EXPECT_EQ(Refusal("root ::= \"a\"\nroot ::= \"b\""), "line 2, column 1: duplicate rule root");
  EXPECT_EQ(Refusal("start ::= \"a\""), "line 1, column 1: there is no rule named root");
  EXPECT_EQ(Refusal(""), "line 1, column 1: there is no rule named root");
  EXPECT_EQ(Refusal("root ::= + \"a\""),
            "line 1, column 10: there is nothing to repeat before this");
  EXPECT_EQ(Refusal("root ::= \"a\"{3,2}"),
            "line 1, column 13: the lower bound exceeds the upper bound");
  EXPECT_EQ(Refusal("root ::= [z-a]"), "line 1, column 10: the character range is reversed");
  EXPECT_EQ(Refusal("root ::= []"), "line 1, column 10: empty character class");
  EXPECT_EQ(
      Refusal("root ::= \"\\q\""),
      "line 1, column 11: invalid escape (valid: \\x \\u \\U \\t \\r \\n \\\\ \\\" \\[ \\] \\-)");
  EXPECT_EQ(Refusal("root ::= \"\\x4g\""), "line 1, column 11: expected 2 hexadecimal digits");
  EXPECT_EQ(Refusal("root ::= \"\\U00110000\""),
            "line 1, column 11: the code point is above 10FFFF");
  EXPECT_EQ(Refusal("root ::= <think>"), "line 1, column 10: token references are not supported");
  EXPECT_EQ(Refusal("root ::= (\"a\""), "line 1, column 14: expected )");
  EXPECT_EQ(Refusal("root ::= \"a\" )"), "line 1, column 14: expected the end of the line");
  EXPECT_EQ(Refusal(std::string("root ::= \"a\0b\"", 14)),
            "line 1, column 12: invalid UTF-8 or a null character");
}

// ---- attacks ------------------------------------------------------------------------------------

TEST(LeftRecursionIsRefused) {
  const std::string refusal = "the grammar has a rule that begins with itself (left recursion)";
  EXPECT_EQ(Refusal("root ::= root \"a\" | \"b\""), refusal);
  EXPECT_EQ(Refusal("root ::= a\na ::= \"x\"? b\nb ::= a"), refusal);
  // Left recursion hidden behind rules that can be empty indirectly.
  EXPECT_EQ(Refusal("root ::= e root \"x\" | \"y\"\ne ::= f f\nf ::= g | \"z\"\ng ::= \"\""),
            refusal);
  EXPECT_EQ(Refusal("root ::= (\"\" | root)* \"x\""), refusal);
  EXPECT_EQ(Refusal("root ::= \"a\"\nunused ::= unused"), refusal);
}

TEST(WhatIsTooLargeIsRefused) {
  EXPECT(Refusal("root ::= \"a\"{100001}").find("more than 100000 repetitions") !=
         std::string::npos);
  EXPECT(Refusal("root ::= \"a\"{99999999999999999999}").find("more than") != std::string::npos);
  EXPECT(Refusal("root ::= (((\"a\"{1000}){1000}){1000}){1000}").find("too large") !=
         std::string::npos);
  EXPECT(Refusal("root ::= " + std::string(60'000, '(') + "\"a\"").find("nested deeper") !=
         std::string::npos);
  EXPECT(Refusal("root ::= \"a\"" + std::string(60'000, '*')).find("needs parentheses") !=
         std::string::npos);
  EXPECT(Refusal("root ::= \"" + std::string(kMaxGrammarBytes, 'a') + "\"").find("longer than") !=
         std::string::npos);
}

// Each rule begins with the next one in two alternatives: 2^60 paths, too many to follow.
TEST(ManyPathsAreNoWork) {
  std::string gbnf = "root ::= r0\n";
  for (int i = 0; i < 60; ++i) {
    const std::string next = "r" + std::to_string(i + 1);
    gbnf += "r" + std::to_string(i) + " ::= " + next + " \"x\" | " + next + " \"y\"\n";
  }
  gbnf += "r60 ::= \"z\"\n";
  EXPECT_EQ(Refusal(gbnf), "the grammar is too ambiguous at its beginning, or matches nothing");
}

TEST(ManyWaysToReadAreBounded) {
  // Every position in every repetition is another way to parse the text.
  EXPECT(!Refusal("root ::= (\"a\"? | \"b\"?){50000}").empty());
  // Accepted: the ways merge.
  Expect("root ::= ((\"a\"*)*)* ", {std::string(1000, 'a')}, {"b"});
  Expect("root ::= (\"a\" | \"a\" \"a\")* \"b\"", {std::string(1000, 'a') + "b"}, {});
  Expect("root ::= (\"a\"?){1000}", {std::string(1000, 'a')}, {std::string(1001, 'a')});
}

}  // namespace
}  // namespace svc

TEST_MAIN()
