// The grammar of a text up to its end, compared with a plain search for the end: all short texts
// of few characters.
#include "engine/llama/answer/text_until.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/grammar/grammar_automaton.h"
#include "engine/grammar/grammar_constraint.h"
#include "test.h"

namespace svc {
namespace {

using Characters = std::vector<std::string>;

std::shared_ptr<GrammarAutomaton> Compile(const std::string& gbnf) {
  const auto compiled = CompileGrammar(gbnf);
  if (compiled.ok()) return compiled.value()->automaton;
  test::Fail(__FILE__, __LINE__, gbnf + ": " + compiled.status().message());
  return nullptr;
}

GrammarAutomaton::State Read(GrammarAutomaton& automaton, GrammarAutomaton::State state,
                             const std::string& text) {
  for (const char byte : text) state = automaton.Next(state, static_cast<std::uint8_t>(byte));
  return state;
}

bool Reads(const std::string& gbnf, const std::string& text) {
  const auto automaton = Compile(gbnf);
  return automaton != nullptr && automaton->IsComplete(Read(*automaton, automaton->start(), text));
}

// Tries all texts of up to `longest` of the characters.
class Comparison {
 public:
  Comparison(std::string end, std::string guarded, Characters characters)
      : end_(std::move(end)),
        guarded_(std::move(guarded)),
        characters_(std::move(characters)),
        automaton_(Compile("root ::= until" + TextUntil("until", end_, guarded_))) {}

  // Number of complete texts.
  int Run(std::size_t longest) {
    if (automaton_ != nullptr) Try("", automaton_->start(), longest);
    return complete_;
  }

 private:
  void Try(const std::string& text, GrammarAutomaton::State state, std::size_t longer) {
    const std::size_t at = text.find(end_);
    const bool has_ended = at != std::string::npos;
    const bool ends_here = has_ended && at + end_.size() == text.size();
    // The text before the end is empty, or begins with another character.
    const bool may_begin = guarded_.empty() || text == end_ || !text.starts_with(guarded_);
    const bool may_go_on = !has_ended && (may_begin || end_.starts_with(text));
    if (automaton_->IsComplete(state) != (ends_here && may_begin) ||
        (state == GrammarAutomaton::kDead) == (may_go_on || (ends_here && may_begin))) {
      test::Fail(end_.c_str(), __LINE__, "'" + text + "' without '" + guarded_ + "' first");
    }
    complete_ += automaton_->IsComplete(state) ? 1 : 0;
    if (longer == 0 || state == GrammarAutomaton::kDead) return;
    for (const std::string& next : characters_) {
      Try(text + next, Read(*automaton_, state, next), longer - 1);
    }
  }

  const std::string end_;
  const std::string guarded_;
  const Characters characters_;
  const std::shared_ptr<GrammarAutomaton> automaton_;
  int complete_ = 0;
};

TEST(ATextEndsWithTheFirstEndWhateverItsCharacters) {
  for (const std::string end : {"a", "aab", "abab", "aaa", "abacab", "b\n"}) {
    EXPECT(Comparison(end, "", {"a", "b", "c", "\n"}).Run(7) > 0);
  }
  for (const std::string end : {"</a>", "\n</a>\n"}) {
    EXPECT(Comparison(end, "", {"<", "/", "a", ">", "\n"}).Run(8) > 0);
  }
  for (const std::string end : {"]", "^]", "\\]", "]-^", "\"\\", "-]-"}) {
    EXPECT(Comparison(end, "", {"]", "^", "\\", "-", "\""}).Run(6) > 0);
  }
  // Two of the characters differ only in their last byte.
  for (const std::string end : {"\u00E9", "\u00E9\u00E8", "a\u00E9a\u00E8", "\u4F60a\u4F60"}) {
    EXPECT(Comparison(end, "", {"a", "\u00E9", "\u00E8", "\u4F60"}).Run(6) > 0);
  }
}

TEST(ATextDoesNotBeginWithTheGuardedCharacter) {
  for (const std::string guarded : {"a", "b", "<", "\u00E9"}) {
    for (const std::string end : {"a", "aa", "ab", "ba", "bab", "<", "<a<b", "\u00E9", "\u00E9a"}) {
      EXPECT(Comparison(end, guarded, {"a", "b", "<", "\u00E9"}).Run(6) > 0);
    }
  }
}

TEST(OnlyTheFirstCharacterOfTheGuardedTextCounts) {
  EXPECT_EQ(TextUntil("t", "</a>", "<![CDATA["), TextUntil("t", "</a>", "<"));
  EXPECT_EQ(TextUntil("t", "</a>", "\u00E9<"), TextUntil("t", "</a>", "\u00E9"));
}

TEST(NoneOfReadsOneCharacterOtherThanTheFirst) {
  Characters all = {"\u00E9", "\u00E8", "\u00C3", "\u4F60", "\u4F61", "\U0001F600"};
  for (char byte = 1; byte < 127; ++byte) all.emplace_back(1, byte);
  for (const std::string& first : all) {
    const auto automaton = Compile("root ::= " + NoneOf(first + "xyz"));
    REQUIRE(automaton != nullptr);
    for (const std::string& each : all) {
      const GrammarAutomaton::State state = Read(*automaton, automaton->start(), each);
      if (automaton->IsEnded(state) != (each != first)) test::Fail(first.c_str(), __LINE__, each);
    }
    EXPECT(!automaton->IsComplete(automaton->start()));
  }
}

// A rule that is defined twice does not compile.
TEST(TextsWithDifferentNamesStandInOneGrammar) {
  const std::string gbnf = "root ::= \"(\" first second \")\"" + TextUntil("first", ";", "") +
                           TextUntil("second", "::", "!");
  EXPECT(Reads(gbnf, "(a:b;c;d::)"));
  EXPECT(Reads(gbnf, "(!;::)"));
  EXPECT(!Reads(gbnf, "(a::)"));
  EXPECT(!Reads(gbnf, "(a;!b::)"));
  EXPECT(!Reads(gbnf, "(a;b::c::)"));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
