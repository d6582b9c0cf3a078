// The tokens that one text may have next under its grammar, those that it must have, and the limits
// of following a grammar.
#include "engine/grammar/grammar_constraint.h"

#include <cctype>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/grammar/vocabulary_index.h"
#include "test.h"

namespace svc {
namespace {

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

std::shared_ptr<CompiledGrammar> Compiled(const std::string& gbnf) {
  auto compiled = CompileGrammar(gbnf);
  if (!compiled.ok()) test::Fail(__FILE__, __LINE__, compiled.status().message());
  return compiled.value();
}

GrammarConstraint Constraint(const std::string& gbnf) {
  return {Compiled(gbnf), Index(), Tokenise};
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

TEST(TokensThatSpellAnotherTextAreNotForced) {
  const auto forced = [](const std::vector<std::string>& pieces) {
    GrammarConstraint constraint(Compiled("root ::= \"name\""), Index(),
                                 [&](const std::string& text) {
                                   EXPECT_EQ(text, "name");
                                   std::vector<Token> tokens;
                                   for (const std::string& each : pieces) {
                                     tokens.push_back(each.empty() ? kEnd : Named(each));
                                   }
                                   return tokens;
                                 });
    std::string text;
    for (const Token token : constraint.Force()) text += Pieces()[token];
    // What was not forced is drawn.
    EXPECT(constraint.AllowsText(std::string("name").substr(text.size())));
    EXPECT_EQ(constraint.ended(), text == "name");
    return text;
  };
  EXPECT_EQ(forced({"na", "m", "e"}), "name");
  EXPECT_EQ(forced({" ", "na", "m", "e"}), "");
  EXPECT_EQ(forced({"na", " ", "m", "e"}), "na");
  EXPECT_EQ(forced({"na", "m", "e", "e"}), "name");
  EXPECT_EQ(forced({"na", "", "m", "e"}), "na");
  EXPECT_EQ(forced({}), "");
}

// ---- texts --------------------------------------------------------------------------------------

TEST(ATextIsAcceptedWholeOrNotAtAll) {
  GrammarConstraint constraint = Constraint("root ::= \"name\" [一-龠]? \"true\"");
  EXPECT(constraint.AllowsText("") && constraint.AcceptText(""));
  EXPECT(constraint.AllowsText("na") && constraint.AllowsText("name\xE4"));
  EXPECT(!constraint.AllowsText("names") && !constraint.AllowsText("nametruee"));
  EXPECT(!constraint.AcceptText("naNe"));
  EXPECT(Allowed(constraint) == std::set<std::string>({"n", "na", "name"}));
  EXPECT(constraint.AcceptText("nam"));
  EXPECT(Allowed(constraint) == std::set<std::string>({"e"}));
  EXPECT(constraint.AcceptText("e\xE4\xBD"));
  EXPECT(Allowed(constraint) == std::set<std::string>({"\xA0"}));
  EXPECT(!constraint.AcceptText("\xA0x") && constraint.AcceptText("\xA0true"));
  EXPECT(constraint.ended());
  EXPECT(!constraint.AllowsText("t") && constraint.AllowsText(""));
}

TEST(TextsOfOneGrammarShareItsStatesAndNotTheirPlaces) {
  const std::shared_ptr<CompiledGrammar> compiled = Compiled("root ::= \"na\" (\"me\" | \"tr\")");
  const auto index = Index();
  GrammarConstraint first(compiled, index, Tokenise);
  GrammarConstraint second(compiled, index, Tokenise);
  first.Accept(Named("na"));
  EXPECT(Allowed(first) == std::set<std::string>({"m", "t", "tr"}));
  EXPECT(Allowed(second) == std::set<std::string>({"n", "na", "name"}));
  EXPECT_EQ(compiled->allowed.size(), 2U);
  second.Accept(Named("n"));
  second.Accept(Named("a"));
  EXPECT(&first.Allowed() == &second.Allowed());
  EXPECT_EQ(compiled->allowed.size(), 2U);
}

// ---- limits -------------------------------------------------------------------------------------

// A text whose stack grows with every byte.
TEST(MemoryIsBounded) {
  GrammarConstraint constraint =
      Constraint("root ::= (\"(\" | \"[\") root (\")\" | \"]\") | \"x\"");
  const Token open = Named("(");
  const Token bracket = Named("[");
  for (int i = 0; i < 30'000; ++i) {
    const Token token = i % 3 == 0 ? open : bracket;
    constraint.KeepSmall();
    REQUIRE(constraint.Allows(token));
    constraint.Accept(token);
  }
  EXPECT(constraint.Allows(Named("x")));
  EXPECT(!constraint.Allows(Named(")")));
  EXPECT(!constraint.is_too_slow());
}

TEST(ATextThatNeedsMoreMemoryThanThereIsIsNoticed) {
  GrammarConstraint constraint =
      Constraint("root ::= (\"(\" | \"[\") root (\")\" | \"]\") | \"x\"");
  EXPECT(!constraint.is_too_slow());
  EXPECT(constraint.AcceptText(std::string(200'000, '(')));
  EXPECT(constraint.is_too_slow());
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
    slow.KeepSmall();
    REQUIRE(slow.Allowed().Has(token));
    slow.Accept(token);
  }
  EXPECT(tokens < 20'000);

  GrammarConstraint quick = Constraint("root ::= [a-z]*");
  for (int i = 0; i < 20'000; ++i) {
    quick.KeepSmall();
    REQUIRE(quick.Allowed().Has(Named("a")));
    quick.Accept(Named("a"));
  }
  EXPECT(!quick.is_too_slow());
}

TEST(AFullAutomatonIsLeftToItsOtherTexts) {
  const std::shared_ptr<CompiledGrammar> compiled =
      Compiled("root ::= (\"(\" | \"[\") root (\")\" | \"]\") | \"x\"");
  const auto index = Index();
  GrammarConstraint first(compiled, index, Tokenise);
  GrammarConstraint second(compiled, index, Tokenise);
  EXPECT(second.AcceptText("(["));
  for (int i = 0; i < 30'000 && !compiled->automaton->full(); ++i) {
    REQUIRE(first.AcceptText(i % 3 == 0 ? "(" : "["));
  }
  REQUIRE(compiled->automaton->full());
  EXPECT(!compiled->full);
  first.KeepSmall();
  EXPECT(Allowed(first) == std::set<std::string>({"(", "[", "x"}));
  EXPECT(compiled->full);
  EXPECT(compiled->allowed.empty());
  EXPECT(first.AcceptText("x)]") && !first.ended());
  // The other one goes on where it was.
  EXPECT(Allowed(second) == std::set<std::string>({"(", "[", "x"}));
  EXPECT(!second.AcceptText("x)]]") && second.AcceptText("x])") && second.ended());
}

}  // namespace
}  // namespace svc

TEST_MAIN()
