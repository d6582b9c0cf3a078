// Reasoning in texts without a model: where it begins and ends, however its tags are cut into
// tokens, and the tokens that are forced.
#include "engine/grammar/thinking.h"

#include "test.h"

namespace svc {
namespace {

using Texts = std::vector<std::string>;

// Tokens of single bytes.
std::vector<Token> Bytes(const std::string& text) {
  return {reinterpret_cast<const unsigned char*>(text.data()),
          reinterpret_cast<const unsigned char*>(text.data()) + text.size()};
}

Thinking Plain(bool is_open = false, std::optional<std::uint32_t> budget = std::nullopt) {
  return {
      {.start = "<think>", .ends = {"\n</think>", "</think>", "<call>"}}, is_open, budget, Bytes};
}

// One letter for each text: "+" where the reasoning is open behind it.
std::string Opened(Thinking thinking, const Texts& texts, bool is_control = false) {
  std::string states;
  for (const std::string& text : texts) {
    thinking.Accept(text, is_control);
    states += thinking.is_open() ? '+' : '-';
  }
  return states;
}

std::string Forced(Thinking& thinking) {
  std::string text;
  while (const std::optional<Token> token = thinking.Forced()) {
    text += static_cast<char>(*token);
    thinking.Accept(std::string(1, static_cast<char>(*token)), /*is_control=*/false);
  }
  return text;
}

TEST(TagsAreFoundHoweverTheyAreCut) {
  const std::string text = "\n <think>\nSome, é.\n</think>\n\nYes";
  const std::size_t begins = text.find("<think>") + 7;
  const std::size_t ends = text.find("</think>") + 8;
  for (std::size_t first = 0; first <= text.size(); ++first) {
    for (std::size_t second = first; second <= text.size(); ++second) {
      Thinking thinking = Plain();
      std::size_t from = 0;
      for (const std::size_t to : {first, second, text.size()}) {
        // A token of ours does not have both tags.
        if (from < begins && to >= ends) break;
        thinking.Accept(text.substr(from, to - from), false);
        EXPECT_EQ(thinking.is_open(), to >= begins && to < ends);
        from = to;
      }
    }
  }
}

TEST(ATextMayQuoteTheStartTag) {
  EXPECT_EQ(Opened(Plain(), {"The tag ", "<think>", " opens"}), "---");
  EXPECT_EQ(Opened(Plain(), {"<think", "ing>", " <think>"}), "---");
  EXPECT_EQ(Opened(Plain(), {"<think>", "a</think>", "<think>"}), "+--");
  // A control token is no quotation.
  EXPECT_EQ(Opened(Plain(), {"First: ", "<think>"}, /*is_control=*/true), "-+");
  EXPECT_EQ(Opened(Plain(), {"<think>", "a</think>", "<think>"}, /*is_control=*/true), "+-+");
}

TEST(WhatFollowsTheEndTagIsTold) {
  Thinking thinking = Plain(/*is_open=*/true);
  thinking.Accept("Some.\n</th", false);
  const auto end = thinking.Ends("ink>\n{");
  REQUIRE(end.has_value());
  EXPECT_EQ(end->text, "\n</think>\n{");
  EXPECT_EQ(end->text.substr(end->length), "\n{");
  EXPECT(!thinking.Ends("ing").has_value());
  const auto call = thinking.Ends("<call>");
  REQUIRE(call.has_value());
  EXPECT_EQ(call->text, "<call>");
  EXPECT(!Plain().Ends("</think>").has_value());
}

TEST(TheEndTagIsForcedWhenTheTokensAreUsedUp) {
  for (const std::uint32_t budget : {0U, 1U, 3U}) {
    Thinking thinking = Plain(/*is_open=*/true, budget);
    for (std::uint32_t i = 0; i < budget; ++i) {
      EXPECT(!thinking.Forced().has_value());
      thinking.Accept("word ", false);
    }
    EXPECT_EQ(Forced(thinking), "\n</think>");
    EXPECT(!thinking.is_open());
    thinking.Accept("Yes", false);
    EXPECT(!thinking.Forced().has_value());
  }
  // Also if the model has just begun to write it.
  Thinking thinking = Plain(/*is_open=*/true, 1);
  thinking.Accept("\n</thi", false);
  EXPECT_EQ(Forced(thinking), "\n</think>");
  EXPECT(!thinking.is_open());
}

TEST(NoCharacterIsCutByTheForcedTag) {
  Thinking thinking = Plain(/*is_open=*/true, 1);
  thinking.Accept("\xE4\xBD", false);
  EXPECT(!thinking.Forced().has_value());
  thinking.Accept("\xA0", false);
  EXPECT_EQ(Forced(thinking), "\n</think>");
}

TEST(EachReasoningHasTheWholeBudget) {
  Thinking thinking = Plain(/*is_open=*/false, 2);
  for (int i = 0; i < 3; ++i) {
    thinking.Accept("<think>", /*is_control=*/true);
    thinking.Accept("a", false);
    EXPECT(!thinking.Forced().has_value());
    thinking.Accept("</think>", false);
    EXPECT(!thinking.is_open());
  }
}

TEST(ABegunTagIsCompleted) {
  Thinking thinking = Plain();
  EXPECT(thinking.MayOpen("") && thinking.MayOpen(" <th") && thinking.MayOpen("<think>\nI"));
  EXPECT(!thinking.MayOpen("<tool>") && !thinking.MayOpen("I"));
  thinking.Accept(" <th", false);
  EXPECT(thinking.MayOpen("ink>") && !thinking.MayOpen("e"));
  thinking.Open();
  EXPECT_EQ(Forced(thinking), "ink>");
  EXPECT(thinking.is_open() && !thinking.MayOpen(""));
  // A vocabulary that can't write the rest.
  const Thinking mute({.start = "<think>", .ends = {"</think>"}}, false, std::nullopt,
                      [](const std::string&) { return std::vector<Token>(); });
  EXPECT(!mute.MayOpen("<") && mute.MayOpen("<think>"));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
