// Grammars behind a reasoning whose tags are several tokens, in vocabularies that join the end of a
// tag with what follows.
#include "engine/grammar/answer_constraint.h"

#include "engine/grammar/vocabulary_index.h"
#include "test.h"

namespace svc {
namespace {

// Besides these, the printable ASCII characters.
const std::vector<std::string> kPieces = {"",   "</",      "think", ">\n", ">\n\n",
                                          ">{", "<c",      "all>",  "yes", "no",
                                          "\n", "<think>", "wait",  "{",   "}\n"};
constexpr Token kControl = 11;  // "<think>", as the control token of some models

std::vector<std::string> Pieces() {
  std::vector<std::string> pieces = kPieces;
  pieces[kControl] = "";
  for (char c = ' '; c <= '~'; ++c) pieces.emplace_back(1, c);
  return pieces;
}

Token TokenOf(std::string_view piece) {
  static const std::vector<std::string> pieces = Pieces();
  for (Token token = 1; token < static_cast<Token>(pieces.size()); ++token) {
    if (pieces[token] == piece) return token;
  }
  return -1;
}

std::vector<Token> Letters(const std::string& text) {
  std::vector<Token> tokens;
  for (const char c : text) tokens.push_back(TokenOf(std::string(1, c)));
  return tokens;
}

struct Setting {
  std::string grammar;
  std::optional<std::string> trigger = std::nullopt;
  bool is_open = true;
  std::optional<std::uint32_t> budget = std::nullopt;
  std::string then = "";
  std::string after_reasoning = "";
  std::optional<std::string> call_mark = std::nullopt;
  std::string continued = "";
};

std::unique_ptr<GrammarConstraint> Follow(const std::string& gbnf) {
  auto grammar = CompileGrammar(gbnf);
  if (!grammar.ok()) test::Fail(__FILE__, __LINE__, grammar.status().message());
  return std::make_unique<GrammarConstraint>(
      std::move(grammar.value()), std::make_shared<VocabularyIndex>(Pieces(), std::vector<Token>{}),
      Letters);
}

AnswerConstraint Make(const Setting& setting) {
  AnswerConstraintParts parts;
  parts.grammar = Follow(setting.grammar);
  if (!setting.then.empty()) parts.then = Follow(setting.then);
  if (!setting.after_reasoning.empty()) parts.after_reasoning = Follow(setting.after_reasoning);
  if (setting.trigger) {
    parts.trigger.emplace(GrammarTrigger::Words{.words = {*setting.trigger}});
  }
  ThinkingTags tags{.start = "<think>", .ends = {"</think>"}};
  if (setting.call_mark) {
    parts.marks.emplace(GrammarTrigger::Words{.words = {*setting.call_mark}});
    tags.ends.push_back(*setting.call_mark);
  }
  parts.continued = setting.continued;
  parts.thinking =
      std::make_unique<Thinking>(std::move(tags), setting.is_open, setting.budget, Letters);
  parts.spelled = {{kControl, "<think>"}};
  parts.piece = [](Token token) { return Pieces()[token]; };
  AnswerConstraint constraint(std::move(parts));
  constraint.Begin();
  return constraint;
}

// Accepts the tokens until one may not follow. Returns its piece, or "" if all may.
std::string Refused(AnswerConstraint& constraint, const std::vector<std::string>& pieces) {
  for (const std::string& piece : pieces) {
    const bool may = constraint.Allows(TokenOf(piece));
    EXPECT_EQ(constraint.Accept(TokenOf(piece)), may);
    if (!may) return piece;
  }
  return "";
}

std::string TakeForced(AnswerConstraint& constraint) {
  std::string text;
  while (const std::optional<Token> token = constraint.Forced()) {
    text += Pieces()[*token];
    EXPECT(constraint.Accept(*token));
  }
  return text;
}

TEST(AFormatAppliesBehindATagThatIsJoinedWithTheAnswer) {
  AnswerConstraint joined = Make({.grammar = "root ::= \"{\" \"yes\" \"}\""});
  EXPECT_EQ(Refused(joined, {"wait", "no", "</", "think", ">{", "no"}), "no");
  EXPECT_EQ(Refused(joined, {"yes", "}"}), "");
  EXPECT(joined.ended());

  // What the grammar does not allow may not follow the tag in the same token, either.
  AnswerConstraint strict = Make({.grammar = "root ::= \"yes\""});
  EXPECT_EQ(Refused(strict, {"</", "think", ">\n"}), ">\n");
  EXPECT_EQ(Refused(strict, {">", "\n"}), "\n");
  EXPECT_EQ(Refused(strict, {"yes"}), "");
  EXPECT(strict.ended());

  AnswerConstraint spaced = Make({.grammar = "root ::= \"\\n\"* \"yes\""});
  EXPECT_EQ(Refused(spaced, {"</", "think", ">\n\n", "\n", "yes"}), "");
  EXPECT(spaced.ended());
}

TEST(ATriggerCountsBehindATagThatIsJoinedWithTheAnswer) {
  const Setting setting = {.grammar = "root ::= \"<call>\" \"yes\"", .trigger = "<call>"};
  AnswerConstraint calls = Make(setting);
  // Inside the reasoning it does not count.
  EXPECT_EQ(Refused(calls, {"<c", "all>", "no", "</", "think", ">\n", "wait", "<c", "all>", "no"}),
            "no");
  EXPECT_EQ(Refused(calls, {"yes"}), "");
  EXPECT(calls.ended());

  AnswerConstraint silent = Make(setting);
  EXPECT_EQ(Refused(silent, {"</", "think", ">\n\n", "yes", "no", "wait"}), "");
}

TEST(TheModelMayThinkBeforeAFormat) {
  const Setting setting = {.grammar = "root ::= \"yes\"", .is_open = false};
  for (const bool is_control : {true, false}) {
    AnswerConstraint constraint = Make(setting);
    EXPECT(!constraint.MayForce());
    if (is_control) {
      EXPECT(constraint.Accept(kControl));
    } else {
      EXPECT_EQ(Refused(constraint, {"\n", "<"}), "");
      EXPECT_EQ(TakeForced(constraint), "think>");
    }
    EXPECT(constraint.grammar() == nullptr);
    EXPECT_EQ(Refused(constraint, {"wait", "</", "think", ">", "no"}), "no");
    EXPECT_EQ(Refused(constraint, {"yes"}), "");
    EXPECT(constraint.ended());
  }
  AnswerConstraint at_once = Make(setting);
  EXPECT_EQ(Refused(at_once, {"y"}), "");
  EXPECT(at_once.MayForce());
  EXPECT_EQ(Refused(at_once, {"<"}), "<");
  EXPECT(!at_once.Allows(kControl));
}

// As long as the text may become either, it follows the grammar. If it becomes the tag, the grammar
// starts from its beginning after the reasoning.
TEST(AFormatMayBeginLikeTheTag) {
  const Setting setting = {.grammar = "root ::= \"<c\" \"yes\" | \"<th\" \"no\"", .is_open = false};
  AnswerConstraint format = Make(setting);
  EXPECT_EQ(Refused(format, {"<", "t", "h", "no"}), "");
  EXPECT(format.ended());
  AnswerConstraint thinks = Make(setting);
  EXPECT_EQ(Refused(thinks, {"<", "t", "h", "i"}), "");
  EXPECT_EQ(TakeForced(thinks), "nk>");
  EXPECT_EQ(Refused(thinks, {"</", "think", ">", "<c", "yes"}), "");
  EXPECT(thinks.ended());
}

TEST(AFormatFollowsTheOpeningOfAContent) {
  for (const bool is_open : {true, false}) {
    AnswerConstraint constraint = Make(
        {.grammar = "root ::= \"<c\" \"all>\"", .is_open = is_open, .then = "root ::= \"yes\""});
    if (is_open) EXPECT_EQ(Refused(constraint, {"</", "think", ">", "yes"}), "yes");
    EXPECT_EQ(Refused(constraint, {"<c"}), "");
    EXPECT(!constraint.MayForce() && !constraint.ended());
    EXPECT_EQ(Refused(constraint, {"all>", "no"}), "no");
    EXPECT(constraint.MayForce() && !constraint.ended());
    EXPECT_EQ(Refused(constraint, {"yes"}), "");
    EXPECT(constraint.ended());
  }
  // The reasoning may begin where the opening may.
  AnswerConstraint thinks =
      Make({.grammar = "root ::= \"<th\"", .is_open = false, .then = "root ::= \"no\""});
  EXPECT_EQ(Refused(thinks, {"<", "t"}), "");
  EXPECT_EQ(Refused(thinks, {"h", "i"}), "i");
  EXPECT_EQ(Refused(thinks, {"no"}), "");
  EXPECT(thinks.ended());
}

TEST(AnOpeningMayDifferBehindAReasoning) {
  const Setting setting = {.grammar = "root ::= \"<c\"",
                           .is_open = false,
                           .then = "root ::= \"yes\"",
                           .after_reasoning = "root ::= \"<th\""};
  AnswerConstraint at_once = Make(setting);
  EXPECT_EQ(Refused(at_once, {"<c", "yes"}), "");
  EXPECT(at_once.ended());
  AnswerConstraint thinks = Make(setting);
  EXPECT(thinks.Accept(kControl));
  EXPECT_EQ(Refused(thinks, {"wait", "</", "think", ">", "<c"}), "<c");
  EXPECT_EQ(Refused(thinks, {"<", "t", "h", "yes"}), "");
  EXPECT(thinks.ended());
}

TEST(TheBudgetEndsTheReasoningAndTheFormatFollows) {
  AnswerConstraint constraint =
      Make({.grammar = "root ::= \"yes\"", .is_open = false, .budget = 2});
  EXPECT_EQ(Refused(constraint, {"<"}), "");
  EXPECT_EQ(TakeForced(constraint), "think>");
  EXPECT_EQ(Refused(constraint, {"wait", "wait"}), "");
  EXPECT_EQ(TakeForced(constraint), "</think>");
  EXPECT_EQ(Refused(constraint, {"no"}), "no");
  EXPECT_EQ(Refused(constraint, {"yes"}), "");
  EXPECT(constraint.ended());
}

TEST(TheMarkOfACallThatEndsTheReasoningBelongsToTheGrammar) {
  const Setting either{.grammar = "root ::= \"yes\" | \"<call>no\"", .call_mark = "<call>"};
  for (const char* text : {"Hm</think>yes", "Hm<call>no", "Hm</think><call>no"}) {
    AnswerConstraint constraint = Make(either);
    std::vector<std::string> letters;
    for (const char* c = text; *c != '\0'; ++c) letters.emplace_back(1, *c);
    EXPECT_EQ(Refused(constraint, letters), "");
    EXPECT(constraint.ended());
  }
  AnswerConstraint constraint = Make(either);
  EXPECT_EQ(Refused(constraint, {"H", "<", "c", "a", "l", "l", ">", "yes"}), "yes");
}

TEST(AContinuedTextBelongsToTheGrammarIfItAllowsIt) {
  for (const char* continued : {"ye", "well: "}) {
    AnswerConstraint constraint =
        Make({.grammar = "root ::= \"yes\"", .is_open = false, .continued = continued});
    const bool belongs = std::string(continued) == "ye";
    EXPECT_EQ(Refused(constraint, {belongs ? "s" : "yes"}), "");
    EXPECT(constraint.ended());
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
