// Log probabilities of an answer's text, without those of reasoning, calls and tags.
#include "engine/run/text_logprobs.h"

#include <string>
#include <vector>

#include "test.h"

namespace svc {
namespace {

// Adds a token for each piece and returns the tokens of the output's text, joined by '|'.
std::string Moved(TextLogprobs& logprobs, const std::vector<std::string>& pieces,
                  GenerationOutput output) {
  std::vector<TokenLogprobs> read;
  for (const std::string& piece : pieces) read.push_back({.chosen = {.bytes = piece}});
  logprobs.Add(std::move(read));
  logprobs.MoveTo(&output);
  std::string moved;
  for (const TokenLogprobs& each : output.logprobs) moved += each.chosen.bytes + "|";
  return moved;
}

TEST(TextHasItsTokens) {
  TextLogprobs logprobs;
  EXPECT_EQ(Moved(logprobs, {"a", "b"}, {.text = "ab"}), "a|b|");
  EXPECT_EQ(Moved(logprobs, {"c"}, {.text = "c"}), "c|");
}

TEST(ReasoningHasNone) {
  TextLogprobs logprobs;
  EXPECT_EQ(Moved(logprobs, {"<think>", "x"}, {.reasoning = "x"}), "");
  EXPECT_EQ(Moved(logprobs, {"</think>"}, {}), "");
  EXPECT_EQ(Moved(logprobs, {"\n\n", "a"}, {.text = "a"}), "a|");
}

TEST(ATokenMayEndTheReasoningAndBeginTheText) {
  TextLogprobs logprobs;
  EXPECT_EQ(Moved(logprobs, {"x", "</think>a", "b"}, {.text = "ab", .reasoning = "x"}),
            "</think>a|b|");
}

TEST(CallsHaveNone) {
  TextLogprobs logprobs;
  GenerationOutput call{.text = "a"};
  call.tool_calls.push_back({.name = "f"});
  EXPECT_EQ(Moved(logprobs, {"a", "<call>", "f"}, call), "a|");
  EXPECT_EQ(Moved(logprobs, {"</call>"}, {}), "");
  EXPECT_EQ(Moved(logprobs, {"b"}, {.text = "b"}), "b|");
}

TEST(TextThatIsHeldBackKeepsItsTokens) {
  TextLogprobs logprobs;
  EXPECT_EQ(Moved(logprobs, {"a", "<c"}, {.text = "a"}), "a|");
  EXPECT_EQ(Moved(logprobs, {"al"}, {}), "");
  EXPECT_EQ(Moved(logprobs, {"m"}, {.text = "<calm"}), "<c|al|m|");
}

// A byte that is no text becomes a replacement character.
TEST(TextOfOtherBytesHasAllTokens) {
  TextLogprobs logprobs;
  EXPECT_EQ(Moved(logprobs, {"a", "\xFF"}, {.text = "a\xEF\xBF\xBD"}), "a|\xFF|");
}

}  // namespace
}  // namespace svc

TEST_MAIN()
