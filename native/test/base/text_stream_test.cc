#include "engine/base/text_stream.h"

#include <random>

#include "test.h"

namespace svc {
namespace {

// Returns the text that a stream emits for the pieces. `shown` receives the text of each Push.
std::string Run(const std::vector<std::string>& stop, const std::vector<std::string>& pieces,
                bool* stopped = nullptr, std::vector<std::string>* shown = nullptr) {
  TextStream stream(stop);
  std::string all;
  bool ended = false;
  for (const std::string& piece : pieces) {
    std::string text;
    ended = stream.Push(piece, &text);
    if (shown != nullptr) shown->push_back(text);
    all += text;
    if (ended) break;
  }
  if (!ended) stream.Finish(&all);
  if (stopped != nullptr) *stopped = ended;
  return all;
}

TEST(PlainTextPassesAtOnce) {
  std::vector<std::string> shown;
  EXPECT_EQ(Run({}, {"Hello", ",", " world"}, nullptr, &shown), "Hello, world");
  EXPECT_EQ(shown[0], "Hello");
  EXPECT_EQ(shown[2], " world");
}

TEST(CharactersComeWhole) {
  std::vector<std::string> shown;
  EXPECT_EQ(Run({}, {"a\xF0\x9F", "\x98", "\x80z"}, nullptr, &shown), "a\xF0\x9F\x98\x80z");
  EXPECT_EQ(shown[0], "a");
  EXPECT_EQ(shown[1], "");
  EXPECT_EQ(shown[2], "\xF0\x9F\x98\x80z");
}

TEST(BrokenBytesBecomeReplacementCharacters) {
  EXPECT_EQ(Run({}, {"a\xFF"
                     "b"}),
            "a\uFFFDb");
  EXPECT_EQ(Run({}, {"\xC0\xAF"}), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(Run({}, {"\xED\xA0\x80"}), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(Run({}, {"\xF4\x90\x80\x80"}), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(Run({}, {"\xE2\x82", "x"}), "\uFFFDx");  // one for the maximal piece
  EXPECT_EQ(Run({}, {"\xE2\x82"}), "\uFFFD");        // cut off by the end
  EXPECT_EQ(Run({}, {"\x80"}), "\uFFFD");
}

TEST(TextEndsBeforeTheStopString) {
  bool stopped = false;
  EXPECT_EQ(Run({"END"}, {"one E", "N", "D two"}, &stopped), "one ");
  EXPECT(stopped);
  EXPECT_EQ(Run({"END"}, {"END"}, &stopped), "");
  EXPECT(stopped);
}

TEST(TheEarliestStopStringWins) {
  bool stopped = false;
  EXPECT_EQ(Run({"cd", "bcde"}, {"abcdef"}, &stopped), "a");
  EXPECT(stopped);
  EXPECT_EQ(Run({"x", "bcd"}, {"abcxd"}, &stopped), "abc");
  EXPECT(stopped);
}

TEST(TheStopStringIsTold) {
  std::string text;
  const auto stopped_by = [&text](TextStream stream, std::string_view bytes) {
    text.clear();
    if (!stream.Push(bytes, &text)) return std::string("nothing");
    const std::string* by = stream.stopped_by();
    return by == nullptr ? std::string("own") : *by;
  };
  EXPECT_EQ(stopped_by(TextStream({"cd", "bcde"}), "abcdef"), "bcde");
  EXPECT_EQ(stopped_by(TextStream({"", "x", "bcd"}), "abcxd"), "x");
  // The template's own is not; of two at the same place, the client's is.
  EXPECT_EQ(stopped_by(TextStream({"x"}, {"<end>"}), "a<end>x"), "own");
  EXPECT_EQ(text, "a");
  EXPECT_EQ(stopped_by(TextStream({"<end>"}, {"", "<end>"}), "a<end>"), "<end>");
  TextStream going_on({"x"}, {"y"});
  EXPECT(!going_on.Push("a", &text));
  EXPECT(going_on.stopped_by() == nullptr);
}

TEST(WhatMayStartAStopStringWaits) {
  std::vector<std::string> shown;
  bool stopped = false;
  EXPECT_EQ(Run({"\n\nUser:"}, {"hi\n", "\nUs", "ers"}, &stopped, &shown), "hi\n\nUsers");
  EXPECT(!stopped);
  EXPECT_EQ(shown[0], "hi");
  EXPECT_EQ(shown[1], "");
  EXPECT_EQ(shown[2], "\n\nUsers");
  EXPECT_EQ(Run({"aab"}, {"a", "a", "a", "b"}, &stopped, &shown), "a");
  EXPECT(stopped);
}

TEST(WhatWasHeldBackIsFlushedAtTheEnd) {
  bool stopped = true;
  EXPECT_EQ(Run({"stop"}, {"do not sto"}, &stopped), "do not sto");
  EXPECT(!stopped);
}

TEST(EmptyStopStringsAreIgnored) {
  bool stopped = true;
  EXPECT_EQ(Run({"", ""}, {"text"}, &stopped), "text");
  EXPECT(!stopped);
}

TEST(AStopStringMaySpanCharactersAndTokens) {
  EXPECT_EQ(Run({"\u20AC!"}, {"5 \xE2", "\x82\xAC", "! more"}), "5 ");
}

// One of the template that stands in the same place is not passed.
TEST(AStopStringThatIsPassedIsText) {
  TextStream stream({"aa", "\u00E9b"}, {"aa!", "\u00E9bc"});
  std::string text;
  EXPECT(stream.Push("xaaay", &text));
  EXPECT_EQ(*stream.stopped_by(), "aa");
  EXPECT(stream.PassStop(&text));
  EXPECT_EQ(text, "xa");
  EXPECT(!stream.PassStop(&text));
  EXPECT_EQ(text, "xaaay");
  EXPECT(stream.Push("\u00E9b", &text));
  EXPECT(!stream.PassStop(&text));
  EXPECT_EQ(stream.held(), 3U);  // until the one of the template is excluded
  EXPECT(stream.Push("c", &text));
  EXPECT(stream.PassStop(&text));
  EXPECT(stream.stopped_by() == nullptr);
  EXPECT_EQ(text, "xaaay");
}

// The streamed text equals that of a search over the whole text so far. The alphabet is small, so
// that stop strings overlap themselves and each other.
TEST(TheBitsAddUpToTheWhole) {
  std::mt19937 random(7);
  const auto letters = [&](std::size_t n) {
    static const std::vector<std::string> kLetters = {"a", "b", "\u00E9"};
    std::string text;
    for (std::size_t i = 0; i < n; ++i) text += kLetters[random() % kLetters.size()];
    return text;
  };
  for (int round = 0; round < 20000; ++round) {
    const std::string text = letters(random() % 24);
    std::vector<std::string> stop;
    for (std::size_t i = random() % 3; i > 0; --i) stop.push_back(letters(1 + random() % 4));
    std::vector<std::string> pieces;
    std::string so_far;
    std::size_t end = std::string::npos;
    while (so_far.size() < text.size() && end == std::string::npos) {
      pieces.push_back(text.substr(so_far.size(), 1 + random() % 5));
      so_far += pieces.back();
      for (const std::string& s : stop) end = std::min(end, so_far.find(s));
    }
    bool stopped = false;
    EXPECT_EQ(Run(stop, pieces, &stopped), so_far.substr(0, end));
    EXPECT_EQ(stopped, end != std::string::npos);
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
