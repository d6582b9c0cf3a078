// The tokens that a grammar allows, found through the sorted vocabulary, compared with testing
// each token by its bytes.
#include "engine/grammar/vocabulary_index.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/grammar/grammar_constraint.h"
#include "test.h"

namespace svc {
namespace {

using State = GrammarAutomaton::State;

std::shared_ptr<GrammarAutomaton> Compile(const std::string& gbnf) {
  const auto compiled = CompileGrammar(gbnf);
  if (compiled.ok()) return compiled.value()->automaton;
  test::Fail(__FILE__, __LINE__, gbnf + ": " + compiled.status().message());
  return nullptr;
}

State Read(GrammarAutomaton& automaton, State state, const std::string& text) {
  for (const char byte : text) state = automaton.Next(state, static_cast<std::uint8_t>(byte));
  return state;
}

// The tokens allowed at `state`, by the contract.
std::vector<Token> Expected(GrammarAutomaton& automaton, State state,
                            const std::vector<std::string>& pieces,
                            const std::vector<Token>& ends) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto token = static_cast<Token>(i);
    const bool fits =
        std::ranges::count(ends, token) > 0
            ? automaton.IsComplete(state)
            : !pieces[i].empty() && Read(automaton, state, pieces[i]) != GrammarAutomaton::kDead;
    if (fits) tokens.push_back(token);
  }
  return tokens;
}

std::vector<Token> Allowed(const VocabularyIndex& index, GrammarAutomaton& automaton, State state) {
  const TokenSet set = index.Allowed(automaton, state);
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (set.Has(static_cast<Token>(i))) tokens.push_back(static_cast<Token>(i));
  }
  return tokens;
}

TEST(PiecesAreKeptByToken) {
  const std::vector<std::string> pieces = {"b", "", "abc", "ab", std::string(1, '\0'), "\xFF", "b"};
  const VocabularyIndex index(pieces, {5, 1});
  REQUIRE(index.size() == pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto token = static_cast<Token>(i);
    EXPECT_EQ(index.piece(token), pieces[i]);
    EXPECT_EQ(index.Ends(token), token == 5 || token == 1);
  }
}

TEST(AnEmptyVocabularyAllowsNothing) {
  const auto automaton = Compile("root ::= \"a\"?");
  REQUIRE(automaton != nullptr);
  const VocabularyIndex index({}, {});
  EXPECT_EQ(index.size(), 0U);
  EXPECT(index.Allowed(*automaton, automaton->start()).words().empty());
}

TEST(ATokenThatEndsTheTextNeedsACompleteTextWhateverItsBytes) {
  const auto automaton = Compile("root ::= \"ab\"");
  REQUIRE(automaton != nullptr);
  const VocabularyIndex index({"a", "b", "", "a", "x"}, {4, 3});
  const State start = automaton->start();
  const State end = Read(*automaton, start, "ab");
  EXPECT(Allowed(index, *automaton, start) == std::vector<Token>({0}));
  EXPECT(Allowed(index, *automaton, end) == std::vector<Token>({3, 4}));
  EXPECT_EQ(index.After(*automaton, end, 4), end);
  EXPECT_EQ(index.After(*automaton, start, 3), GrammarAutomaton::kDead);
}

TEST(ATokenWithoutBytesIsNeverAllowed) {
  const auto automaton = Compile("root ::= [a-z]*");
  REQUIRE(automaton != nullptr);
  const VocabularyIndex index({"", "a", ""}, {});
  EXPECT(Allowed(index, *automaton, automaton->start()) == std::vector<Token>({1}));
  EXPECT_EQ(index.After(*automaton, automaton->start(), 2), GrammarAutomaton::kDead);
}

TEST(AfterADeadStateNothingIsAllowed) {
  const auto automaton = Compile("root ::= .*");
  REQUIRE(automaton != nullptr);
  const VocabularyIndex index({"a", "ab", ""}, {2});
  EXPECT(Allowed(index, *automaton, GrammarAutomaton::kDead).empty());
  EXPECT_EQ(index.After(*automaton, GrammarAutomaton::kDead, 0), GrammarAutomaton::kDead);
}

// Pieces of few bytes, so that they share prefixes and some are equal; the first and the last byte
// value are among them.
TEST(TheSameTokensAreAllowedAsOneByOne) {
  std::mt19937 random(1);
  std::size_t allowed = 0;
  std::size_t forbidden = 0;
  for (const char* gbnf : {"root ::= \"ab\" | \"abc\" root | [^a]",
                           "root ::= (\"a\" | \"b\" [ac]+)*", "root ::= [a-c]{2,5} \"\\xC3\"?",
                           "root ::= \"c\" root \"c\" | \"ä\" | \"a\" .", "root ::= .{3}"}) {
    const auto automaton = Compile(gbnf);
    REQUIRE(automaton != nullptr);
    for (int round = 0; round < 60; ++round) {
      std::vector<std::string> pieces(random() % 60);
      for (std::string& piece : pieces) {
        for (std::size_t size = random() % 6; size > 0; --size) {
          piece += std::string("aaabbbccc\xC3\xA4\xFF\0", 13)[random() % 13];
        }
      }
      std::vector<Token> ends;
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        if (random() % 20 == 0) ends.insert(ends.begin(), static_cast<Token>(i));
      }
      const VocabularyIndex index(pieces, ends);
      State state = automaton->start();
      for (int step = 0; step < 6; ++step) {
        const std::vector<Token> expected = Expected(*automaton, state, pieces, ends);
        EXPECT(Allowed(index, *automaton, state) == expected);
        for (std::size_t i = 0; i < pieces.size(); ++i) {
          const auto token = static_cast<Token>(i);
          const State after = index.Ends(token) ? state : Read(*automaton, state, pieces[i]);
          const bool fits = std::ranges::binary_search(expected, token);
          EXPECT_EQ(index.After(*automaton, state, token), fits ? after : GrammarAutomaton::kDead);
        }
        allowed += expected.size();
        forbidden += pieces.size() - expected.size();
        if (expected.empty()) break;
        state = index.After(*automaton, state, expected[random() % expected.size()]);
      }
    }
  }
  EXPECT(allowed > 1000 && forbidden > 1000);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
