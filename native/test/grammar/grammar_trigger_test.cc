#include "engine/grammar/grammar_trigger.h"

#include "test.h"

namespace svc {
namespace {

using Words = GrammarTrigger::Words;

// Adds the pieces; returns what the first trigger found.
std::string Triggered(const Words& words, const std::vector<std::string>& pieces) {
  GrammarTrigger trigger(words);
  for (const std::string& piece : pieces) {
    if (const auto match = trigger.Find(piece)) return match->text;
    trigger.Add(piece);
  }
  return "";
}

TEST(AWordTriggersWhereverItIsCut) {
  const Words words{.words = {"<tool_call>"}};
  EXPECT_EQ(Triggered(words, {"Let me look. <tool_call>\n{"}), "<tool_call>\n{");
  EXPECT_EQ(Triggered(words, {"Let me look. <to", "ol_", "call>"}), "<tool_call>");
  EXPECT_EQ(Triggered(words, {"a <tool", "_box>"}), "");
}

TEST(TheFirstOfSeveralCounts) {
  const Words words{.words = {"[B]", "[A]"}};
  EXPECT_EQ(Triggered(words, {"x[A]y[B]"}), "[A]y[B]");
}

TEST(APatternTriggersAtItsFirstGroup) {
  const Words words{.patterns = {"<start>assistant(\\s+to)", ">>>(?!all)"}};
  EXPECT_EQ(Triggered(words, {"done<start>assist", "ant to"}), " to");
  EXPECT_EQ(Triggered(words, {">>>all\nHello", "\n>>>get"}), ">>>get");
}

TEST(ATokenMayGoOnAfterTheTrigger) {
  const auto match = GrammarTrigger({.words = {"[A]"}}).Find("x[A]{}");
  REQUIRE(match.has_value());
  EXPECT_EQ(match->text, "[A]{}");
  EXPECT_EQ(match->length, 3U);
  EXPECT_EQ(Triggered({.patterns = {"^\\s+to$"}}, {" ", "to=get"}), " to=get");
}

TEST(TheBeginningIsTheTextsBeginning) {
  const Words words{.patterns = {"^to="}};
  EXPECT_EQ(Triggered(words, {"to", "=x"}), "to=x");
  EXPECT_EQ(Triggered(words, {"a", "to=x"}), "");
  // The same for texts longer than the window.
  const std::string filler(GrammarTrigger::kWindow, '.');
  EXPECT_EQ(Triggered(words, {filler, filler, filler, "to=x"}), "");
  EXPECT_EQ(Triggered({.words = {"[A]"}}, {filler, filler, filler, "..[A", "]"}), "[A]");
}

}  // namespace
}  // namespace svc

TEST_MAIN()
