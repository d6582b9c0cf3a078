// The tree that a grammar's text is parsed into, and the limits and errors of the parser.
#include "engine/grammar/gbnf.h"

#include <random>
#include <string>

#include "test.h"

namespace svc {
namespace {

using Kind = GbnfExpression::Kind;

std::string Hex(std::uint32_t number) {
  char text[16];
  std::snprintf(text, sizeof(text), "%X", number);
  return text;
}

// An expression in one line: [sequence], (alternative|alternative), 'text', <ranges>, #rule, and
// {least,most} before what is repeated.
std::string Show(const GbnfExpression& expression) {
  std::string shown;
  const auto join = [&](char open, const char* between, char close) {
    shown = open;
    for (const GbnfExpression& part : expression.parts) {
      if (shown.size() > 1) shown += between;
      shown += Show(part);
    }
    shown += close;
  };
  switch (expression.kind) {
    case Kind::kSequence:
      join('[', " ", ']');
      break;
    case Kind::kAlternatives:
      join('(', "|", ')');
      break;
    case Kind::kText:
      shown = "'" + expression.text + "'";
      break;
    case Kind::kClass:
      for (const CharRange& range : expression.ranges) {
        shown += (shown.empty() ? "" : ",") + Hex(range.first) + "-" + Hex(range.last);
      }
      shown = "<" + shown + ">";
      break;
    case Kind::kRule:
      shown = "#" + std::to_string(expression.rule);
      break;
    case Kind::kRepeat:
      EXPECT_EQ(expression.parts.size(), 1U);
      shown = "{" + std::to_string(expression.min) + "," +
              (expression.max == GbnfExpression::kUnbounded ? "" : std::to_string(expression.max)) +
              "}" + Show(expression.parts.front());
      break;
  }
  return shown;
}

// All rules, or the error.
std::string Parsed(const std::string& text) {
  const Result<Gbnf> grammar = ParseGbnf(text);
  if (!grammar.ok()) {
    EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidRequest);
    return grammar.status().message();
  }
  std::string shown;
  for (const GbnfExpression& rule : grammar.value().rules) {
    shown += (shown.empty() ? "" : " ") + Show(rule);
  }
  return shown;
}
std::string Root(const std::string& body) { return Parsed("root ::= " + body); }

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(RulesAreNumberedInTheOrderInWhichTheyAreFirstNamed) {
  const Result<Gbnf> grammar =
      ParseGbnf("b ::= c a\nroot ::= b a\nc ::= \"c\"\na ::= \"a\" root?\n");
  REQUIRE(grammar.ok());
  EXPECT_EQ(grammar.value().root, 3U);
  EXPECT_EQ(Parsed("b ::= c a\nroot ::= b a\nc ::= \"c\"\na ::= \"a\" root?\n"),
            "[#1 #2] ['c'] ['a' {0,1}#3] [#0 #2]");
}

TEST(PartsNestAsTheyAreWritten) {
  EXPECT_EQ(Root("\"a\" \"b\" | \"c\""), "(['a' 'b']|['c'])");
  EXPECT_EQ(Root("\"a\" (\"b\" | \"c\") \"d\""), "['a' (['b']|['c']) 'd']");
  EXPECT_EQ(Root("((\"a\"))"), "[[['a']]]");
  // Empty alternatives, groups and rules.
  EXPECT_EQ(Root("| \"a\" |"), "([]|['a']|[])");
  EXPECT_EQ(Root("()"), "[[]]");
  EXPECT_EQ(Root("\n"), "[]");
  EXPECT_EQ(Root("\"\""), "['']");
}

TEST(SpaceAndCommentsMayStandBetweenParts) {
  const std::string expected = "['a' (['b']|['c'])]";
  EXPECT_EQ(Root("\"a\"(\"b\"|\"c\")"), expected);
  EXPECT_EQ(Root("\t \"a\"  (\t\"b\" | \"c\" ) \t# the end"), expected);
  // Inside a group, behind ::= and behind |, also line breaks.
  EXPECT_EQ(Root("\n\n\"a\" (\r\n# comment ) \" |\n\"b\"\n|\n\"c\"\n)\n\n"), expected);
  EXPECT_EQ(Parsed("# first\r\n\r  root::=\"a\" |\n\n \"b\"\n"), "(['a']|['b'])");
  EXPECT_EQ(Parsed("# null: " + std::string(1, '\0') + "\nroot ::= \"a\""), "['a']");
  // A line break ends a rule.
  EXPECT_EQ(Root("\"a\"\n\"b\""), "line 2, column 1: expected the name of a rule");
  EXPECT_EQ(Parsed("root\n::= \"a\""), "line 1, column 5: expected ::= after the name of a rule");
}

TEST(RepetitionsApplyToThePartBeforeThem) {
  EXPECT_EQ(Root("\"a\" \"b\"*"), "['a' {0,}'b']");
  EXPECT_EQ(Root("\"ab\"+ [x]? (\"a\" \"b\")*"), "[{1,}'ab' {0,1}<78-78> {0,}['a' 'b']]");
  EXPECT_EQ(Root(".{3} .{2,} .{2,5} .{0,0}"),
            "[{3,3}<0-10FFFF> {2,}<0-10FFFF> {2,5}<0-10FFFF> {0,0}<0-10FFFF>]");
  EXPECT_EQ(Root(".{ 2 ,\n 5 }"), "[{2,5}<0-10FFFF>]");
  EXPECT_EQ(Root(". \t *"), "[{0,}<0-10FFFF>]");
  // Only `?`, that it may be left out, can follow a repetition.
  EXPECT_EQ(Root(".*? .+? .?? .{1,3}?"),
            "[{0,}<0-10FFFF> {0,}<0-10FFFF> {0,1}<0-10FFFF> {0,3}<0-10FFFF>]");
  for (const char* twice : {".**", ".+*", ".?+", ".{2,3}?", ".{2}{2}"}) {
    EXPECT(Has(Root(twice), "a repetition of a repetition needs parentheses"));
  }
  EXPECT_EQ(Root("(.{2,3})?"), "[{0,1}[{2,3}<0-10FFFF>]]");
  for (const char* none : {"*", "| +", "(?)", "{2}"}) {
    EXPECT(Has(Root(none), "there is nothing to repeat before this"));
  }
  EXPECT_EQ(Root(".{}"), "line 1, column 12: expected a number");
  EXPECT_EQ(Root(".{,3}"), "line 1, column 12: expected a number");
  EXPECT_EQ(Root(".{-1}"), "line 1, column 12: expected a number");
  EXPECT_EQ(Root(".{2 3}"), "line 1, column 14: expected }");
  EXPECT_EQ(Root(".{2"), "line 1, column 13: expected }");
}

TEST(EscapesStandForOneCharacter) {
  EXPECT_EQ(Root(R"("\t\r\n\\\"\[\]\-")"), "['\t\r\n\\\"[]-']");
  EXPECT_EQ(Root(R"("\x41\x7e" "\u00e9\u4F60" "\U0001f600\U0010FFFF")"),
            "['A~' 'é你' '😀\U0010FFFF']");
  // Four digits are read, and the fifth character is itself.
  EXPECT_EQ(Root(R"("\u00e91")"), "['é1']");
  for (const char* wrong : {R"("\q")", R"("\")", R"("\')", R"("\0")"}) {
    EXPECT(Has(Root(wrong), R"(invalid escape)") || Has(Root(wrong), "ends inside a string"));
  }
  EXPECT_EQ(Root(R"("\x4")"), "line 1, column 11: expected 2 hexadecimal digits");
  EXPECT_EQ(Root(R"("\u123)"), "line 1, column 11: expected 4 hexadecimal digits");
  EXPECT_EQ(Root(R"("\U0001F60")"), "line 1, column 11: expected 8 hexadecimal digits");
  EXPECT_EQ(Root(R"("\x-1")"), "line 1, column 11: expected 2 hexadecimal digits");
  EXPECT_EQ(Root(R"("\U00110000")"), "line 1, column 11: the code point is above 10FFFF");
  EXPECT_EQ(Root(R"("\UFFFFFFFF")"), "line 1, column 11: the code point is above 10FFFF");
}

TEST(RangesOfAClassAreSortedAndDisjoint) {
  EXPECT_EQ(Root("[cab]"), "[<61-63>]");
  EXPECT_EQ(Root("[x-za-cb-ee]"), "[<61-65,78-7A>]");
  EXPECT_EQ(Root("[acb-b]"), "[<61-63>]");
  EXPECT_EQ(Root("[a-zc-d]"), "[<61-7A>]");
  EXPECT_EQ(Root("[é你😀]"), "[<E9-E9,4F60-4F60,1F600-1F600>]");
  EXPECT_EQ(Root("[^a]"), "[<0-60,62-10FFFF>]");
  EXPECT_EQ(Root("[^x-za-cb-ee]"), "[<0-60,66-77,7B-10FFFF>]");
  EXPECT_EQ(Root(R"([^\x00-\x1f])"), "[<20-10FFFF>]");
  EXPECT_EQ(Root(R"([^b-\U0010FFFF])"), "[<0-61>]");
  EXPECT_EQ(Root(R"([^\x00-\U0010FFFF])"), "[<>]");
  // A minus at the end, and a ^ that is not at the beginning, are themselves.
  EXPECT_EQ(Root("[a-]"), "[<2D-2D,61-61>]");
  EXPECT_EQ(Root("[-a]"), "[<2D-2D,61-61>]");
  EXPECT_EQ(Root("[a^]"), "[<5E-5E,61-61>]");
  EXPECT_EQ(Root("[\"']"), "[<22-22,27-27>]");
  EXPECT(Has(Root("[^]"), "empty character class"));
  EXPECT(Has(Root("[a"), "ends inside a string or a character class"));
}

TEST(TextThatIsNotUtf8IsRefused) {
  const std::string refusal = "line 1, column 11: invalid UTF-8 or a null character";
  for (const char* wrong : {
           "\x80", "\xBF", "\xC0\x80", "\xC1\xBF",          // no first byte, or one too long
           "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",              // more bytes than needed
           "\xC3", "\xE4\xBD", "\xF0\x9F\x98",              // cut off before the quote
           "\xC3z", "\xE4z\xA0", "\xF0\x9F\x98z",           // a letter in between
           "\xF4\x90\x80\x80", "\xF8\x88\x80\x80", "\xFF",  // above 10FFFF
       }) {
    EXPECT_EQ(Root("\"" + std::string(wrong) + "\""), refusal);
    EXPECT_EQ(Root("[" + std::string(wrong) + "]"), refusal);
  }
  EXPECT_EQ(Root("\"\xE4\xBD"), refusal);
  EXPECT_EQ(Root("\"" + std::string(1, '\0') + "\""), refusal);
  EXPECT_EQ(Root("\"\xF4\x8F\xBF\xBF\""), "['\U0010FFFF']");
}

TEST(UndefinedAndRepeatedRulesAreErrorsWhereTheyStand) {
  EXPECT_EQ(Parsed("root ::= a\na ::= \"é\" nobody\n"),
            "line 2, column 11: there is no rule named nobody");
  EXPECT_EQ(Parsed("root ::= a\na ::= \"x\"\n a ::= \"y\""), "line 3, column 2: duplicate rule a");
  EXPECT_EQ(Parsed("Root ::= \"a\""), "line 1, column 1: there is no rule named root");
  EXPECT_EQ(Parsed("# only this"), "line 1, column 1: there is no rule named root");
  // Names have letters, digits and minus; of a long one, the message has the beginning.
  EXPECT_EQ(Parsed("root ::= -a1\n-a1 ::= \"x\""), "[#1] ['x']");
  EXPECT_EQ(Root("a_b"), "line 1, column 11: expected the end of the line");
  EXPECT_EQ(Root(std::string(1000, 'n')),
            "line 1, column 10: there is no rule named " + std::string(64, 'n'));
}

TEST(ErrorsContainNothingElseOfTheText) {
  for (const char* wrong : {"\"secret\" )", "[secret", "\"secret\\q\"", "\"secret\"{9,1}",
                            "\"secret\" <secret>", "(\"secret\"", "\"secret\"{999999}"}) {
    const std::string message = Root(wrong);
    EXPECT(message.starts_with("line 1, column "));
    EXPECT(!Has(message, "secret"));
  }
}

TEST(WhatIsAtALimitIsParsedAndOneMoreIsNot) {
  const auto groups = [](std::uint32_t count) {
    return Root(std::string(count, '(') + "\"a\"" + std::string(count, ')'));
  };
  EXPECT(groups(kMaxGroupDepth).starts_with("[[["));
  EXPECT_EQ(groups(kMaxGroupDepth + 1), "line 1, column " + std::to_string(10 + kMaxGroupDepth) +
                                            ": groups are nested deeper than " +
                                            std::to_string(kMaxGroupDepth));
  // Groups beside each other are not nested.
  std::string many;
  for (int i = 0; i < 200; ++i) many += "(\"a\")";
  EXPECT(Root(many).starts_with("[['a'] ['a']"));

  const std::string most = std::to_string(kMaxRepetitions);
  EXPECT_EQ(Root(".{" + most + "}"), "[{" + most + "," + most + "}<0-10FFFF>]");
  EXPECT_EQ(Root(".{000000" + most + ",}"), "[{" + most + ",}<0-10FFFF>]");
  EXPECT(Has(Root(".{" + std::to_string(kMaxRepetitions + 1) + "}"), "more than " + most));
  EXPECT(Has(Root(".{1," + std::to_string(kMaxRepetitions + 1) + "}"), "more than " + most));
  EXPECT(Has(Root(".{4294967296}"), "more than " + most));
  EXPECT(Has(Root(".{18446744073709551617}"), "more than " + most));

  const std::string start = "root ::= \"a\" #";
  EXPECT_EQ(Parsed(start + std::string(kMaxGrammarBytes - start.size(), 'x')), "['a']");
  EXPECT_EQ(Parsed(start + std::string(kMaxGrammarBytes - start.size() + 1, 'x')),
            "the grammar is longer than " + std::to_string(kMaxGrammarBytes) + " bytes");
}

// Names in texts, classes, counts and comments are none.
TEST(APrefixStandsBeforeTheNamesOfRulesOnly) {
  EXPECT_EQ(
      WithPrefix("root ::= \"a \\\"b\" [c\\]d] e-2{3,4} # f\n\ne-2 ::= (root|\"g\")?\n", "p-"),
      "p-root ::= \"a \\\"b\" [c\\]d] p-e-2{3,4} # f\n\np-e-2 ::= (p-root|\"g\")?\n");
  const std::string whole =
      "root ::= \"x\\\\\" [\"\\-#] a1 | .b{2} # \"\nb ::= [^a]+ # [\r\n\na1::=b\"é\"(root)*";
  EXPECT_EQ(Parsed("root ::= p-root\n" + WithPrefix(whole, "p-")),
            "[#1] " + Parsed("start ::= root\n" + whole).substr(5));
}

// No text makes the parser read behind its end; a sanitizer would notice it.
TEST(EveryBeginningOfAGrammarIsParsedOrRefused) {
  const std::string whole =
      "root ::= \"y\\x41\\u00e9é\" | [^a-z\\]😀] item{1,5}? # why\n"
      "item ::= (\"a\" | ( .* )+ root)\n";
  EXPECT(ParseGbnf(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string begun(whole, 0, size);
    const Result<Gbnf> grammar = ParseGbnf(std::string_view(begun.data(), size));
    EXPECT(grammar.ok() || Has(grammar.status().message(), "line "));
  }
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = whole;
    for (int changes = 0; changes < 3; ++changes) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    const Result<Gbnf> grammar = ParseGbnf(damaged);
    EXPECT(grammar.ok() || Has(grammar.status().message(), "line "));
  }
}

TEST(ACodePointIsWrittenInUtf8) {
  EXPECT_EQ(Utf8Of(0), std::string(1, '\0'));
  EXPECT_EQ(Utf8Of(0x7F), "\x7F");
  EXPECT_EQ(Utf8Of(0x80), "\xC2\x80");
  EXPECT_EQ(Utf8Of(0x7FF), "\xDF\xBF");
  EXPECT_EQ(Utf8Of(0x800), "\xE0\xA0\x80");
  EXPECT_EQ(Utf8Of(0xFFFF), "\xEF\xBF\xBF");
  EXPECT_EQ(Utf8Of(0x10000), "\xF0\x90\x80\x80");
  EXPECT_EQ(Utf8Of(0x10FFFF), "\xF4\x8F\xBF\xBF");
}

}  // namespace
}  // namespace svc

TEST_MAIN()
