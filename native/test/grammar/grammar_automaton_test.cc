// The states of a grammar's automaton: which texts reach them, what they report, and the limits of
// their number.
#include "engine/grammar/grammar_automaton.h"

#include <memory>
#include <random>
#include <regex>
#include <string>
#include <string_view>

#include "test.h"

namespace svc {
namespace {

using State = GrammarAutomaton::State;
constexpr State kDead = GrammarAutomaton::kDead;
constexpr State kLost = GrammarAutomaton::kLost;

std::unique_ptr<GrammarAutomaton> Automaton(const std::string& gbnf) {
  Result<std::shared_ptr<const Grammar>> grammar = Grammar::Compile(gbnf);
  if (!grammar.ok()) {
    test::Fail(__FILE__, __LINE__, gbnf + ": " + grammar.status().message());
    grammar = Grammar::Compile("root ::= \"\"");
  }
  return std::make_unique<GrammarAutomaton>(std::move(grammar.value()));
}

State Read(GrammarAutomaton& automaton, State state, std::string_view text) {
  for (const char byte : text) state = automaton.Next(state, static_cast<std::uint8_t>(byte));
  return state;
}
State Read(GrammarAutomaton& automaton, std::string_view text) {
  return Read(automaton, automaton.start(), text);
}

TEST(FromTheDeadStateThereIsNoWayOut) {
  const auto automaton = Automaton("root ::= \"ab\"");
  EXPECT_EQ(Read(*automaton, "x"), kDead);
  EXPECT_EQ(Read(*automaton, "abc"), kDead);
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(automaton->Next(kDead, static_cast<std::uint8_t>(byte)), kDead);
  }
  EXPECT(!automaton->IsComplete(kDead) && !automaton->IsEnded(kDead));
  EXPECT(automaton->ForcedByte(kDead) < 0);
}

TEST(AStateIsCompleteWhereTheTextMayEndAndEndedWhereItMust) {
  const auto automaton = Automaton("root ::= \"ab\" \"cd\"? | \"abx\"");
  const auto complete = [&](std::string_view text) {
    return automaton->IsComplete(Read(*automaton, text));
  };
  const auto ended = [&](std::string_view text) {
    return automaton->IsEnded(Read(*automaton, text));
  };
  EXPECT(!complete("") && !complete("a") && complete("ab") && !complete("abc"));
  EXPECT(complete("abcd") && complete("abx"));
  EXPECT(!ended("") && !ended("ab") && ended("abcd") && ended("abx"));
  const auto empty = Automaton("root ::= \"\"");
  EXPECT(empty->start() != kDead && empty->IsEnded(empty->start()));
}

TEST(AByteIsForcedWhereItIsTheOnlyChoice) {
  const auto forced = [](const std::string& gbnf, std::string_view text) {
    const auto automaton = Automaton(gbnf);
    return automaton->ForcedByte(Read(*automaton, text));
  };
  EXPECT_EQ(forced("root ::= \"ab\"", ""), 'a');
  EXPECT_EQ(forced("root ::= \"ab\"", "a"), 'b');
  EXPECT(forced("root ::= \"ab\"", "ab") < 0);
  EXPECT(forced("root ::= \"ab\"", "x") < 0);
  // Several ways that all begin with the same byte.
  EXPECT_EQ(forced("root ::= \"ab\" | \"ac\" | x\nx ::= \"a\" [a-z]", ""), 'a');
  EXPECT(forced("root ::= \"ab\" | \"ac\"", "a") < 0);
  EXPECT(forced("root ::= [ab]", "") < 0);
  EXPECT_EQ(forced("root ::= [b] | \"b\"", ""), 'b');
  EXPECT(forced("root ::= \"a\" \"b\"?", "a") < 0);
  // Bytes of one character, up to 255.
  EXPECT_EQ(forced("root ::= \"é\"", ""), 0xC3);
  EXPECT_EQ(forced("root ::= \"é\"", "\xC3"), 0xA9);
  EXPECT_EQ(forced("root ::= \"\\x00\"", ""), 0);
  EXPECT_EQ(forced("root ::= [\\U00100000-\\U0010FFFF]", ""), 0xF4);
}

TEST(TextsAtTheSamePlaceHaveOneState) {
  const auto letters = Automaton("root ::= [a-z]* \".\"");
  EXPECT_EQ(Read(*letters, "a"), Read(*letters, "zebra"));
  EXPECT(Read(*letters, "a") != Read(*letters, "a."));
  // Also inside of characters and behind rules that have ended.
  const auto words = Automaton("root ::= (word \" \")* \".\"\nword ::= [a-zé]+ | \"[\" word \"]\"");
  EXPECT_EQ(Read(*words, "a\xC3"), Read(*words, "bc\xC3"));
  EXPECT_EQ(Read(*words, "a "), Read(*words, "[[x]] yes [no] "));
  EXPECT(Read(*words, "[a") != Read(*words, "[[a"));
}

TEST(ARuleThatCallsItselfAtItsEndNeedsNoMoreStates) {
  const auto automaton = Automaton("root ::= item root | \"\"\nitem ::= \"a\" | \"b\" item");
  State state = automaton->start();
  for (int i = 0; i < 200'000; ++i) {
    state = automaton->Next(state, i % 5 == 0 ? 'a' : 'b');
    REQUIRE(state != kDead);
  }
  EXPECT(state < 16 && !automaton->full());
}

// The same random expressions in both notations, and all texts of up to six letters.
TEST(ItAcceptsWhatARegularExpressionMatches) {
  struct Both {
    std::string gbnf;
    std::string regex;
  };
  std::mt19937 random(1);
  const auto expression = [&](auto& self, int depth) -> Both {
    const auto pick = random() % (depth == 0 ? 3U : 8U);
    if (pick == 0) return {"\"a\"", "a"};
    if (pick == 1) return {"\"ba\"", "ba"};
    if (pick == 2) return {"[ab]", "[ab]"};
    const Both first = self(self, depth - 1);
    if (pick <= 4) {
      const Both second = self(self, depth - 1);
      if (pick == 3) return {first.gbnf + " " + second.gbnf, first.regex + second.regex};
      return {"(" + first.gbnf + " | " + second.gbnf + ")",
              "(?:" + first.regex + "|" + second.regex + ")"};
    }
    const char* const times = pick == 5 ? "?" : pick == 6 ? "+" : "{1,2}";
    return {"(" + first.gbnf + ")" + times, "(?:" + first.regex + ")" + times};
  };
  for (int round = 0; round < (test::kSanitized ? 20 : 200); ++round) {
    const Both both = expression(expression, 4);
    const auto automaton = Automaton("root ::= " + both.gbnf);
    const std::regex regex(both.regex);
    for (std::size_t length = 0; length <= 6; ++length) {
      for (unsigned bits = 0; bits < (1U << length); ++bits) {
        std::string text(length, 'a');
        for (std::size_t i = 0; i < length; ++i) text[i] = (bits >> i & 1U) != 0 ? 'b' : 'a';
        const State state = Read(*automaton, text);
        if (automaton->IsComplete(state) != std::regex_match(text, regex)) {
          test::Fail(__FILE__, __LINE__, both.gbnf + " differs on \"" + text + "\"");
        }
      }
    }
  }
}

TEST(WhatIsTooAmbiguousIsNotFollowed) {
  const auto optional = [](std::size_t count) {
    return Automaton("root ::= \"x\" (\"a\"?){" + std::to_string(count) + "} \"y\"");
  };
  const auto some = optional(GrammarAutomaton::kMaxWork / 8);
  EXPECT(some->IsComplete(Read(*some, "xaay")));
  const auto many = optional(GrammarAutomaton::kMaxWork);
  EXPECT(many->start() > kLost);
  EXPECT_EQ(Read(*many, "x"), kLost);
  EXPECT_EQ(Read(*many, "xa"), kLost);
  EXPECT(!many->IsComplete(kLost) && !many->IsEnded(kLost) && many->ForcedByte(kLost) < 0);
  const auto at_once =
      Automaton("root ::= (\"a\"?){" + std::to_string(GrammarAutomaton::kMaxWork) + "} \"y\"");
  EXPECT_EQ(at_once->start(), kLost);
}

// Each bracket makes the stack of the text deeper.
constexpr const char* kBrackets = "root ::= \"(\" root \")\" | \"[\" root \"]\" | \"x\"";
// Number of brackets behind which the automaton has more bytes than any limit.
constexpr int kMost = 1'000'000;

TEST(AFreshAutomatonGoesOnWhereTheFullOneWas) {
  const auto automaton = Automaton(kBrackets);
  State state = automaton->start();
  std::string closing;
  for (int i = 0; i < kMost && !automaton->full(); ++i) {
    const bool is_round = i % 3 == 0;
    state = automaton->Next(state, is_round ? '(' : '[');
    closing += is_round ? ')' : ']';
    REQUIRE(state != kDead);
  }
  REQUIRE(automaton->full());
  State moved = state;
  const std::shared_ptr<GrammarAutomaton> fresh = automaton->Fresh(&moved);
  EXPECT(!fresh->full());
  EXPECT_EQ(fresh->grammar_bytes(), automaton->grammar_bytes());
  // Its start is the grammar's start.
  EXPECT(fresh->IsEnded(Read(*fresh, "([x])")));
  // It knows how the text has to go on, to the last bracket.
  const std::string end(closing.rbegin(), closing.rend());
  EXPECT(!fresh->IsComplete(Read(*fresh, moved, "x" + end.substr(1))));
  EXPECT(fresh->IsEnded(Read(*fresh, moved, "x" + end)));
  EXPECT_EQ(Read(*fresh, moved, "x" + end + ")"), kDead);
}

TEST(AFreshAutomatonKeepsWhatEachStateReports) {
  const std::string gbnf =
      "root ::= a (\",\" a)*\na ::= \"n\" [a-z]{0,3} | \"[\" root? \"]\" | \"né\"";
  const auto automaton = Automaton(gbnf);
  for (const char* text : {"", "n", "n\xC3", "né", "nab", "[", "[[na", "[]", "[n],", "x"}) {
    const State state = Read(*automaton, text);
    State moved = state;
    const auto fresh = automaton->Fresh(&moved);
    EXPECT_EQ(fresh->IsComplete(moved), automaton->IsComplete(state));
    EXPECT_EQ(fresh->IsEnded(moved), automaton->IsEnded(state));
    EXPECT_EQ(fresh->ForcedByte(moved), automaton->ForcedByte(state));
    for (int byte = 0; byte < 256; ++byte) {
      const auto next = static_cast<std::uint8_t>(byte);
      EXPECT_EQ(fresh->Next(moved, next) == kDead, automaton->Next(state, next) == kDead);
    }
  }
}

TEST(AboveTheLargestSizeOnlyKnownWaysAreLeft) {
  const auto automaton = Automaton(kBrackets);
  State state = automaton->start();
  State before = state;
  int read = 0;
  for (; read < kMost && state != kLost; ++read) {
    before = state;
    state = automaton->Next(state, '(');
  }
  REQUIRE(state == kLost);
  EXPECT(automaton->full());
  EXPECT_EQ(automaton->Next(before, 'x'), kLost);
  EXPECT_EQ(Read(*automaton, "(["), kLost);
  // The way to there is known.
  EXPECT_EQ(Read(*automaton, std::string(static_cast<std::size_t>(read) - 1, '(')), before);
  // In a fresh automaton there is room again.
  State moved = before;
  const auto fresh = automaton->Fresh(&moved);
  EXPECT(fresh->Next(moved, '(') > kLost && fresh->Next(moved, 'x') > kLost);
  State lost = kLost;
  (void)automaton->Fresh(&lost);
  EXPECT_EQ(lost, kLost);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
