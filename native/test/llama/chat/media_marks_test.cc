// Marks of pictures and sounds: random messages are marked and split again. Prompts in which a
// template left out, repeated or cut a mark are refused.
#include "engine/llama/chat/media_marks.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "test.h"

namespace svc {
namespace {

std::string Same(const std::string& text) { return text; }

ChatMessage MessageOf(const std::string& content, const std::vector<std::uint32_t>& places) {
  ChatMessage message{.role = "user", .content = content};
  for (const std::uint32_t at : places) message.media.push_back({.at = at});
  return message;
}

// The parts of the prompt, one in each pair of brackets: texts, and the indices of media in the
// messages.
std::string Shown(const MediaMarks& marks, const std::vector<ChatMessage>& messages,
                  const std::string& prompt) {
  const auto parts = marks.Split(prompt);
  if (!parts.ok()) return "error";
  std::string shown;
  for (const MediaMarks::Part& part : parts.value()) {
    std::string name(part.text);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      for (std::size_t k = 0; k < messages[i].media.size(); ++k) {
        if (part.media == &messages[i].media[k]) {
          name += std::to_string(i) + "." + std::to_string(k);
        }
      }
    }
    shown += "[" + name + "]";
  }
  return shown;
}

TEST(MediaStandWhereTheyWereInTheMessage) {
  const std::vector<ChatMessage> messages = {MessageOf("abc", {0, 1, 1, 3}), MessageOf("x", {}),
                                             MessageOf("", {0}), MessageOf("yz", {1})};
  const MediaMarks marks(messages);
  EXPECT(!marks.empty());
  EXPECT_EQ(marks.Content(1, Same), "x");
  std::string prompt = "<s>";
  for (std::size_t i = 0; i < messages.size(); ++i) prompt += marks.Content(i, Same) + "|";
  EXPECT_EQ(Shown(marks, messages, prompt),
            "[<s>][0.0][a][0.1][0.2][bc][0.3][|x|][2.0][|y][3.0][z|]");
}

TEST(APlaceBeyondTheContentIsItsEnd) {
  const std::vector<ChatMessage> messages = {MessageOf("abc", {2, 9, 4000000000})};
  const MediaMarks marks(messages);
  EXPECT_EQ(Shown(marks, messages, marks.Content(0, Same)), "[ab][0.0][c][0.1][0.2]");
}

TEST(AChatWithoutMediaHasNoMarks) {
  const std::vector<ChatMessage> messages = {MessageOf("abc", {}), MessageOf("", {})};
  const MediaMarks marks(messages);
  EXPECT(marks.empty());
  EXPECT_EQ(marks.Content(0, Same), "abc");
  EXPECT_EQ(Shown(marks, messages, "a prompt"), "[a prompt]");
  EXPECT_EQ(Shown(marks, messages, ""), "");
}

TEST(OnlyTheTextsBetweenTheMarksAreChanged) {
  const std::vector<ChatMessage> messages = {MessageOf("a__b_c", {1, 3})};
  const MediaMarks marks(messages);
  const std::string content = marks.Content(0, [](std::string text) {
    std::replace(text.begin(), text.end(), '_', '-');
    return text;
  });
  EXPECT_EQ(Shown(marks, messages, content), "[a][0.0][--][0.1][b-c]");
}

// More media than one digit counts; the template writes them in any order.
TEST(RandomMessagesComeApartAgain) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<ChatMessage> messages(1 + random() % 5);
    for (ChatMessage& message : messages) {
      for (std::size_t n = random() % 12; n > 0; --n) message.content += "<_a1>"[random() % 5];
      for (std::uint32_t at = random() % 5; at <= message.content.size(); at += random() % 5) {
        message.media.push_back({.at = at});
      }
    }
    const MediaMarks marks(messages);
    std::vector<std::size_t> order(messages.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::string prompt;
    std::string expected;
    std::string text;
    const auto add = [&](const std::string& part) {
      if (!part.empty()) expected += "[" + part + "]";
    };
    for (const std::size_t i : order) {
      const ChatMessage& message = messages[i];
      prompt += "\n" + marks.Content(i, Same);
      text += "\n";
      for (std::size_t at = 0, k = 0; at <= message.content.size(); ++at) {
        for (; k < message.media.size() && message.media[k].at == at; ++k) {
          add(std::exchange(text, ""));
          add(std::to_string(i) + "." + std::to_string(k));
        }
        if (at < message.content.size()) text += message.content[at];
      }
    }
    add(text);
    EXPECT_EQ(Shown(marks, messages, prompt), expected);
  }
}

TEST(WhatTheTemplateLeavesOutRepeatsOrCutsIsRefused) {
  const std::vector<ChatMessage> messages = {MessageOf("a", {0}), MessageOf("b", {1})};
  const MediaMarks marks(messages);
  const std::string first = marks.Content(0, Same);
  const std::string second = marks.Content(1, Same);
  EXPECT_EQ(Shown(marks, messages, first + second), "[0.0][ab][1.0]");
  for (const std::string& prompt :
       {std::string(), std::string("ab"), first, second, first + second + first,
        first + first + second, second + second, first + second.substr(0, second.size() - 1),
        first.substr(1) + second, first + second + second.substr(1, second.size() - 2)}) {
    const auto parts = marks.Split(prompt);
    EXPECT(!parts.ok());
    EXPECT_EQ(parts.status().code(), StatusCode::kInvalidRequest);
    EXPECT_EQ(parts.status().param(), "messages");
  }
}

// One that has seen a mark cannot write that of another prompt.
TEST(AMarkOfAnotherPromptIsText) {
  const std::vector<ChatMessage> messages = {MessageOf("", {0})};
  const std::string seen = MediaMarks(messages).Content(0, Same);
  const std::vector<ChatMessage> next = {MessageOf(seen, {0})};
  const MediaMarks marks(next);
  EXPECT(marks.Content(0, Same) != seen + seen);
  EXPECT_EQ(Shown(marks, next, marks.Content(0, Same)), "[0.0][" + seen + "]");
}

}  // namespace
}  // namespace svc

TEST_MAIN()
