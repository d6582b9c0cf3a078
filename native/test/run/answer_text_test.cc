// Log probabilities come with the text that their tokens begin.
#include "engine/run/answer_text.h"

#include <string>
#include <vector>

#include "test.h"

namespace svc {
namespace {

// An answer as it is shown: after each piece the text, and then in brackets the tokens whose log
// probabilities came with it.
class Shown {
 public:
  explicit Shown(std::vector<std::string> stop) : answer(std::move(stop), {}) {}

  void Say(const std::string& piece) {
    answer.Tell({.chosen = {.bytes = piece}});
    is_ended = answer.Say(piece, &text);
    Take();
  }
  void Finish() {
    answer.Finish(&text);
    Take();
  }

  AnswerText answer;
  std::string text;
  bool is_ended = false;

 private:
  void Take() {
    text += '[';
    for (const TokenLogprobs& token : answer.TakeLogprobs()) text += token.chosen.bytes + ",";
    text += ']';
  }
};

TEST(LogprobsComeWithTheirText) {
  Shown shown({"stop"});
  for (const char* piece : {"one ", "two ", "s", "t", "ay"}) shown.Say(piece);
  shown.Finish();
  EXPECT_EQ(shown.text, "one [one ,]two [two ,][][]stay[s,t,ay,][]");
}

TEST(TokensThatAStopStringCutsOffHaveNone) {
  Shown shown({"stop"});
  for (const char* piece : {"one s", "to", "p"}) shown.Say(piece);
  EXPECT(shown.is_ended);
  EXPECT_EQ(shown.text, "one [one s,][][]");
  REQUIRE(shown.answer.stopped_by() != nullptr);
  EXPECT_EQ(*shown.answer.stopped_by(), "stop");
}

TEST(ACharacterOfSeveralTokensIsShownWithAllOfThem) {
  Shown shown({});
  for (const char* piece : {"\xF0\x9F", "\x8C\x8A", "!"}) shown.Say(piece);
  EXPECT_EQ(shown.text, "[]\xF0\x9F\x8C\x8A[\xF0\x9F,\x8C\x8A,]![!,]");
}

TEST(TextHeldBackAtTheEndIsShown) {
  Shown shown({"stop"});
  for (const char* piece : {"st", "\xC3"}) shown.Say(piece);
  shown.Finish();
  EXPECT_EQ(shown.text, "[][]st\xEF\xBF\xBD[st,\xC3,]");
  EXPECT(shown.answer.stopped_by() == nullptr);
}

// A held replacement character is longer than the bytes that it replaces.
TEST(NothingIsShownOfAReplacementCharacterThatIsHeldBack) {
  Shown shown({"\xEF\xBF\xBD!"});
  shown.Say("\xFF");
  EXPECT_EQ(shown.text, "[]");
  shown.Say("?");
  EXPECT_EQ(shown.text, "[]\xEF\xBF\xBD?[\xFF,?,]");
}

}  // namespace
}  // namespace svc

TEST_MAIN()
