// Grammars without a model: parsing, refusals, and the tokens allowed next.
#include "engine/grammar/grammar.h"

#include <cctype>
#include <chrono>
#include <set>

#include "engine/grammar/gbnf.h"
#include "engine/grammar/grammar_automaton.h"
#include "engine/grammar/grammar_cache.h"
#include "engine/grammar/grammar_constraint.h"
#include "engine/grammar/vocabulary_index.h"
#include "test.h"

namespace svc {
namespace {

std::string Refusal(const std::string& gbnf) {
  const auto compiled = CompileGrammar(gbnf);
  if (compiled.ok()) return "";
  EXPECT_EQ(compiled.status().code(), StatusCode::kInvalidRequest);
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

// A small vocabulary: the printable ASCII characters and some longer pieces.
std::vector<std::string> Pieces() {
  std::vector<std::string> pieces = {
      "",    "{\"",      "na",   "name",         "\":", "true", "tr", "ue",
      "\"}", "\xE4\xBD", "\xA0", "\xE4\xBD\xA0", ", ",  "fal",  "se"};
  for (char c = ' '; c <= '~'; ++c) pieces.emplace_back(1, c);
  return pieces;
}
constexpr Token kEnd = 0;

std::shared_ptr<const VocabularyIndex> Index() {
  return std::make_shared<VocabularyIndex>(Pieces(), std::vector<Token>{kEnd});
}

// Splits the text greedily into the longest pieces.
std::vector<Token> Tokenise(const std::string& text) {
  const std::vector<std::string> pieces = Pieces();
  std::vector<Token> tokens;
  for (std::size_t at = 0; at < text.size();) {
    Token longest = 0;
    for (std::size_t i = 1; i < pieces.size(); ++i) {
      if (text.compare(at, pieces[i].size(), pieces[i]) == 0 &&
          pieces[i].size() > pieces[longest].size()) {
        longest = static_cast<Token>(i);
      }
    }
    if (longest == 0) return {};
    tokens.push_back(longest);
    at += pieces[longest].size();
  }
  return tokens;
}

GrammarConstraint Constraint(const std::string& gbnf) {
  auto compiled = CompileGrammar(gbnf);
  if (!compiled.ok()) test::Fail(__FILE__, __LINE__, compiled.status().message());
  return {compiled.value(), Index(), Tokenise};
}

std::set<std::string> Allowed(GrammarConstraint& constraint) {
  std::set<std::string> names;
  const TokenSet& allowed = constraint.Allowed();
  const std::vector<std::string> pieces = Pieces();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto token = static_cast<Token>(i);
    EXPECT_EQ(allowed.Has(token), constraint.Allows(token));
    if (allowed.Has(token)) names.insert(token == kEnd ? "<end>" : pieces[i]);
  }
  return names;
}

Token Named(const std::string& piece) {
  const std::vector<std::string> pieces = Pieces();
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    if (pieces[i] == piece) return static_cast<Token>(i);
  }
  test::Fail(__FILE__, __LINE__, "no piece " + piece);
  return 0;
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
  EXPECT(Refusal("root ::= \"" + std::string(300'000, 'a') + "\"").find("longer than") !=
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

// A text whose stack grows with every byte.
TEST(MemoryIsBounded) {
  GrammarConstraint constraint =
      Constraint("root ::= (\"(\" | \"[\") root (\")\" | \"]\") | \"x\"");
  const Token open = Named("(");
  const Token bracket = Named("[");
  for (int i = 0; i < 30'000; ++i) {
    const Token token = i % 3 == 0 ? open : bracket;
    if (i % 16 == 0) EXPECT(constraint.Allowed().Has(token));
    REQUIRE(constraint.Allows(token));
    constraint.Accept(token);
  }
  EXPECT(constraint.Allows(Named("x")));
  EXPECT(!constraint.Allows(Named(")")));
}

// Every character is allowed at many places, and the stack grows: no state repeats, and each costs
// thousands of operations per byte.
TEST(AGrammarThatTakesTooLongIsNoticed) {
  std::string any;
  for (char c = '0'; c <= 'z'; ++c) {
    if (std::isalnum(c) != 0) any += std::string(any.empty() ? "" : " | ") + "\"" + c + "\"?";
  }
  GrammarConstraint slow =
      Constraint("root ::= item root \">\" | \"<\"\nitem ::= \"-\" (" + any + "){60}");
  int tokens = 0;
  for (; tokens < 20'000 && !slow.is_too_slow(); ++tokens) {
    const Token token = Named(tokens % 2 == 0 ? "-" : "A");
    REQUIRE(slow.Allowed().Has(token));
    slow.Accept(token);
  }
  EXPECT(tokens < 20'000);

  GrammarConstraint quick = Constraint("root ::= [a-z]*");
  for (int i = 0; i < 20'000; ++i) {
    REQUIRE(quick.Allowed().Has(Named("a")));
    quick.Accept(Named("a"));
  }
  EXPECT(!quick.is_too_slow());
}

// ---- tokens -------------------------------------------------------------------------------------

TEST(AllowedTokensAreThoseThatFit) {
  GrammarConstraint constraint =
      Constraint("root ::= \"{\\\"name\\\":\" (\"true\" | \"false\") \"}\"");
  EXPECT_EQ(Allowed(constraint) == std::set<std::string>({"{", "{\""}), true);
  constraint.Accept(Named("{\""));
  EXPECT_EQ(Allowed(constraint) == std::set<std::string>({"n", "na", "name"}), true);
  constraint.Accept(Named("name"));
  constraint.Accept(Named("\":"));
  EXPECT_EQ(Allowed(constraint) == std::set<std::string>({"t", "tr", "true", "f", "fal"}), true);
  constraint.Accept(Named("true"));
  EXPECT(!constraint.ended());
  constraint.Accept(Named("}"));
  EXPECT(constraint.ended());
  EXPECT_EQ(Allowed(constraint) == std::set<std::string>({"<end>"}), true);
}

TEST(TokensMayEndInsideACharacter) {
  GrammarConstraint constraint = Constraint("root ::= [一-龠]{2}");
  EXPECT_EQ(Allowed(constraint) == std::set<std::string>({"\xE4\xBD", "\xE4\xBD\xA0"}), true);
  constraint.Accept(Named("\xE4\xBD"));
  EXPECT_EQ(Allowed(constraint) == std::set<std::string>({"\xA0"}), true);
  constraint.Accept(Named("\xA0"));
  EXPECT_EQ(Allowed(constraint) == std::set<std::string>({"\xE4\xBD", "\xE4\xBD\xA0"}), true);
}

TEST(TheTextMayEndWhereTheGrammarMay) {
  GrammarConstraint constraint = Constraint("root ::= \"na\" \"me\"?");
  EXPECT(!constraint.Allows(kEnd));
  constraint.Accept(Named("na"));
  EXPECT(constraint.Allows(kEnd));
  EXPECT(!constraint.ended());
  EXPECT_EQ(Allowed(constraint) == std::set<std::string>({"<end>", "m"}), true);
}

TEST(WhatMustFollowIsForced) {
  GrammarConstraint constraint =
      Constraint("root ::= \"{\\\"name\\\":\" (\"true\" | \"false\") \"}\"");
  // The last token is held back, because a longer token may begin there.
  EXPECT(constraint.Force() == std::vector<Token>({Named("{\""), Named("name")}));
  EXPECT(constraint.Force().empty());
  constraint.Accept(Named("\":"));
  EXPECT(constraint.Force().empty());
  constraint.Accept(Named("t"));
  // At the end of the text no longer token is possible.
  EXPECT(constraint.Force() == std::vector<Token>({Named("r"), Named("ue"), Named("}")}));
  EXPECT(constraint.ended());
}

TEST(ForcedTextWithoutTokensForItIsDrawn) {
  auto compiled = CompileGrammar("root ::= \"name\" \"true\"");
  GrammarConstraint constraint(compiled.value(), Index(),
                               [](const std::string&) { return std::vector<Token>{Named(" ")}; });
  EXPECT(constraint.Force().empty());
  EXPECT(constraint.Allows(Named("name")));
}

TEST(TextForEverIsForcedPieceByPiece) {
  GrammarConstraint constraint = Constraint("root ::= \"a\" root");
  const std::size_t forced = constraint.Force().size();
  EXPECT(forced > 100 && forced <= 1024);
  EXPECT(!constraint.ended());
}

// ---- the cache ----------------------------------------------------------------------------------

std::string Numbered(int i) { return "root ::= \"text " + std::to_string(i) + "\""; }

TEST(GrammarsAreCompiledOnce) {
  GrammarCache cache;
  const auto first = cache.Get(Numbered(0)).value();
  for (int i = 1; i < static_cast<int>(GrammarCache::kEntries); ++i) (void)cache.Get(Numbered(i));
  EXPECT(cache.Get(Numbered(0)).value() == first);
  // The least recently used grammar is evicted, which is not the first.
  const auto second = cache.Get(Numbered(1)).value();
  (void)cache.Get(Numbered(0));
  for (int i = 100; i < 99 + static_cast<int>(GrammarCache::kEntries); ++i) {
    (void)cache.Get(Numbered(i));
  }
  EXPECT(cache.Get(Numbered(0)).value() == first);
  EXPECT(cache.Get(Numbered(1)).value() != second);
  EXPECT(!cache.Get("root ::= nothing").ok());
}

TEST(GrammarsAliveAreBounded) {
  GrammarCache cache;
  std::vector<std::shared_ptr<CompiledGrammar>> held;
  bool busy = false;
  for (int i = 0; i < 1000 && !busy; ++i) {
    auto grammar = cache.Get("root ::= [a-z]{100000} \"" + std::to_string(i) + "\"");
    if (grammar.ok()) {
      held.push_back(grammar.value());
    } else {
      EXPECT_EQ(grammar.status().code(), StatusCode::kBusy);
      busy = true;
    }
  }
  EXPECT(busy);
  held.clear();
  EXPECT(cache.Get(Numbered(0)).ok());
}

}  // namespace
}  // namespace svc

TEST_MAIN()
