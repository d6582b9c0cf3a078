// Answers in hand-made formats, cut anywhere: the parts add up to the answer, each comes as soon as
// it is certain, and none is changed later.
#include "engine/llama/answer/answer_stream.h"

#include <functional>
#include <random>
#include <utility>

#include "answer.h"
#include "chat-peg-parser.h"
#include "chat.h"
#include "engine/llama/devices.h"
#include "test.h"

namespace svc {
namespace {

using Builder = common_chat_peg_builder;
using Make = std::function<common_peg_parser(Builder&)>;

std::shared_ptr<const AnswerFormat> FormatOf(const Make& make, const std::string& continued) {
  auto parser = std::make_shared<common_chat_parser_params>();
  parser->parser = build_chat_peg_parser(make);
  parser->generation_prompt = continued;
  parser->is_continuation = !continued.empty();
  return std::make_shared<AnswerFormat>(AnswerFormat{.parser = std::move(parser)});
}

// <think>reasoning</think>content<f=moon>{"n": 1}</f>
common_peg_parser Tags(Builder& p) {
  const auto think = p.literal("<think>") + p.reasoning(p.until("</think>")) + "</think>";
  auto call = p.choice();
  for (const char* name : {"moon", "moonlight"}) {
    call |= p.tool(p.tool_open("<f=" + p.tool_name(p.literal(name)) + ">") + p.tool_args(p.json()) +
                   p.tool_close(p.literal("</f>")));
  }
  return p.optional(think) + p.content(p.until("<f=")) + p.zero_or_more(call) + p.end();
}

struct Reader {
  explicit Reader(const Make& make = Tags, const std::string& continued = "")
      : stream(FormatOf(make, continued)) {}

  // Returns the new parts.
  test::Answer Read(const std::string& text, bool last = false) {
    GenerationOutput output;
    stream.Read(text, last, &output);
    all.Add(output);
    test::Answer added;
    added.Add(output);
    return added;
  }

  AnswerStream stream;
  test::Answer all;
};

TEST(AnAnswerIsReadAsItWasWrittenWhereverItIsCut) {
  std::mt19937 random(1);
  // Almost tags, but none.
  const std::vector<std::string> bits = {"a", " ", "\n", "<", "</", "t", "hink", "f", "\u00E9"};
  const auto text = [&] {
    std::string text;
    for (std::size_t n = random() % 10; n > 0; --n) text += bits[random() % bits.size()];
    return text + ".";
  };
  const std::string arguments = R"({"day": "</f><f=", "n": [1, 2]})";
  for (int round = 0; round < 2000; ++round) {
    test::Answer expected{.content = text(), .reasoning = text()};
    std::string written = "<think>" + expected.reasoning + "</think>" + expected.content;
    for (std::size_t n = random() % 3; n > 0; --n) {
      expected.calls.push_back({"", random() % 2 == 0 ? "moon" : "moonlight", arguments});
      written += "<f=" + expected.calls.back().name + ">" + arguments + "</f>";
    }
    Reader reader;
    std::string piece;
    for (const char byte : written) {
      piece += byte;
      if (byte == '\xC3' || random() % 4 != 0) continue;  // not within a character
      reader.Read(std::exchange(piece, ""));
      EXPECT(expected.content.starts_with(reader.all.content));
      EXPECT(expected.reasoning.starts_with(reader.all.reasoning));
      EXPECT_EQ(reader.stream.has_called(), !reader.all.calls.empty());
    }
    reader.Read(piece, /*last=*/true);
    EXPECT_EQ(reader.all, expected);
  }
}

TEST(TextComesAtOnceUnlessATagMayBeginThere) {
  Reader reader;
  EXPECT_EQ(reader.Read("<thi").reasoning, "");
  EXPECT_EQ(reader.Read("nk>I see").reasoning, "I see");
  EXPECT_EQ(reader.Read(" you").reasoning, " you");
  EXPECT_EQ(reader.Read("</th").reasoning, "");
  EXPECT_EQ(reader.Read("en").reasoning, "</then");
  EXPECT_EQ(reader.Read("</think>Hello").content, "Hello");
  EXPECT_EQ(reader.Read(" world").content, " world");
  EXPECT_EQ(reader.Read(" <f").content, " ");
  EXPECT_EQ(reader.Read("oo").content, "<foo");
}

TEST(WhereAStopStringWouldBegin) {
  const auto is_content = [](const std::string& read, const std::string& stop) {
    Reader reader;
    reader.Read(read);
    Reader unread;
    const bool found = reader.stream.BeginsInContent("", stop);
    EXPECT_EQ(unread.stream.BeginsInContent(read, stop), found);
    return found;
  };
  for (const char* text :
       {"", "Hello", "Hello\n", "<think>I see</think>", "<think></think>Hello "}) {
    EXPECT(is_content(text, "stop"));
    EXPECT(is_content(text, "\n"));
    EXPECT(!is_content(text, "<f=moon>"));
  }
  for (const char* text : {"<thi", "<think>", "<think>I see", "<think>I see\n", "<think>I</thin"}) {
    for (const char* stop : {"nk>", "k>", "</think>", "\n"}) {
      EXPECT_EQ(is_content(text, stop), std::string(text) == "<thi" && std::string(stop) != "nk>");
    }
  }
  EXPECT(!is_content("Hello<f", "=moon>"));
  EXPECT(is_content("Hello<f", "oo"));
  EXPECT(!is_content("<f=moon", ">"));
  EXPECT(!is_content("<f=moon>{\"a\": 1", "}"));
  EXPECT(!is_content("<f=moon>{}</f>", "\n"));
}

// Whatever letter the content before the call ends with.
TEST(AStopStringInTheNameOfACallIsNotInTheContent) {
  const Reader reader([](Builder& p) {
    const auto call = p.tool(p.tool_open("<f=" + p.tool_name(p.until(">")) + ">") +
                             p.tool_args(p.json()) + p.tool_close(p.literal("</f>")));
    return p.content(p.until("<f=")) + p.optional(call) + p.end();
  });
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    const std::string content = std::string("Hello ") + letter;
    EXPECT(!reader.stream.BeginsInContent(content + "<f=mo", "on"));
    EXPECT(reader.stream.BeginsInContent(content, "on"));
  }
}

TEST(AStopStringDoesNotBeginInWhiteSpaceThatIsTrimmed) {
  Reader reader([](Builder& p) {
    return p.literal("<think>") + p.reasoning(p.until("</think>")) + "</think>" + p.space() +
           p.content(p.rest()) + p.end();
  });
  for (const char* text : {"<think>I</think>", "<think>I</think>\n"}) {
    EXPECT(!reader.stream.BeginsInContent(text, "\n"));
    EXPECT(reader.stream.BeginsInContent(text, "stop"));
  }
  EXPECT(reader.stream.BeginsInContent("<think>I</think>\n\nHello", "\n"));
}

TEST(AStopStringMayBeginInContentThatIsJson) {
  Reader reader([](Builder& p) {
    return p.optional(p.literal("<think>") + p.reasoning(p.until("</think>")) + "</think>") +
           p.content(p.json()) + p.end();
  });
  EXPECT(!reader.stream.BeginsInContent("<think>{", "\n"));
  for (const char* text : {"", "{", "{\"a\"", "{\"a\": \"b", "<think>I</think>{\"a\": 1}"}) {
    EXPECT(reader.stream.BeginsInContent(text, "\n"));
  }
}

// The beginning of its name may be the name of another tool.
TEST(ACallComesOnceItsNameIsKnown) {
  Reader reader;
  for (const char* piece : {"<f=", "moon", "li"}) EXPECT_EQ(reader.Read(piece), test::Answer{});
  reader.Read("ght>{\"a\": 1");
  EXPECT_EQ(reader.all.calls.at(0).arguments, "{\"a\": 1");
  reader.Read(", \"b\": 2}</f>", /*last=*/true);
  EXPECT_EQ(reader.all, (test::Answer{.calls = {{"", "moonlight", "{\"a\": 1, \"b\": 2}"}}}));
}

// A parse for each token would cost the square of the length.
TEST(ALongCallIsParsedMoreRarelyTheLongerItIs) {
  const std::string begin = "<f=moon>{\"a\": \"";
  std::size_t parts = 0;
  Reader reader;
  reader.Read(begin);
  const std::size_t tokens = 20'000;
  for (std::size_t i = 0; i < tokens; ++i) {
    if (!reader.Read("word ").calls.empty()) ++parts;
  }
  EXPECT(parts > 100 && parts < tokens / 3);
  reader.Read("\"}</f>", /*last=*/true);
  std::string words;
  for (std::size_t i = 0; i < tokens; ++i) words += "word ";
  EXPECT_EQ(reader.all, (test::Answer{.calls = {{"", "moon", "{\"a\": \"" + words + "\"}"}}}));
}

// <f=moon {"n": 1}</f>, where nothing that surely comes ends the name.
common_peg_parser OpenNames(Builder& p) {
  auto call = p.choice();
  for (const char* name : {"moon", "moonlight"}) {
    call |= p.tool(p.tool_open("<f=" + p.tool_name(p.literal(name)) + p.optional(p.space())) +
                   p.tool_args(p.json()) + p.tool_close(p.literal("</f>")));
  }
  return p.content(p.until("<f=")) + p.zero_or_more(call) + p.end();
}

TEST(ACallWaitsWhileItsNameMayGoOn) {
  for (const std::string name : {"moon", "moonlight"}) {
    const test::Answer expected{.calls = {{"", name, R"({"a": 1})"}}};
    Reader reader(OpenNames);
    reader.Read("<f=");
    reader.Read("moon");
    reader.Read(name.substr(4) + " {");
    reader.Read(R"("a": 1)");
    EXPECT_EQ(reader.all.calls.size(), 1U);
    reader.Read("}</f>", /*last=*/true);
    EXPECT_EQ(reader.all, expected);
  }
  Reader reader(OpenNames);
  reader.Read("<f=moon");
  EXPECT_EQ(reader.all.calls.size(), 0U);
  reader.Read("", /*last=*/true);
  EXPECT_EQ(reader.all.calls.size(), 1U);
}

TEST(AnAnswerThatIsCutOffIsReadAsFarAsItGoes) {
  EXPECT_EQ(Reader().Read("<think>I se", /*last=*/true), test::Answer{.reasoning = "I se"});
  EXPECT_EQ(Reader().Read("Hi<f=moon>{\"a\": [1", /*last=*/true),
            (test::Answer{.content = "Hi", .calls = {{"", "moon", "{\"a\": [1"}}}));
}

// A tag might have begun at the end, but the answer is over.
TEST(WhatWasHeldBackComesAtTheEnd) {
  for (const std::string rest : {"<", "<f", "<f="}) {
    Reader reader;
    EXPECT_EQ(reader.Read("2 < 3, is 2 " + rest).content, "2 < 3, is 2 ");
    const bool is_head = rest == "<" || rest == "<f";
    EXPECT_EQ(reader.Read("", /*last=*/true).content, is_head ? rest : "");
    EXPECT_EQ(Reader().Read(rest.substr(0, 1), /*last=*/true).content, "<");
  }
  for (const std::string rest : {"<", "</thin"}) {
    EXPECT_EQ(Reader().Read("<think>I see " + rest, /*last=*/true),
              test::Answer{.reasoning = "I see " + rest});
    EXPECT_EQ(Reader().Read("<think>I see</think>Yes, " + rest.substr(0, 1), /*last=*/true),
              (test::Answer{.content = "Yes, <", .reasoning = "I see"}));
  }
}

TEST(WhatCannotBeReadIsContent) {
  SetLogSink(nullptr);  // libllama warns of it
  for (const std::string text : {"No", "OK, <x", "OK"}) {
    Reader reader([](Builder& p) { return "OK:" + p.content(p.rest()); });
    reader.Read(text.substr(0, 1));
    reader.Read(text.substr(1), /*last=*/true);
    EXPECT_EQ(reader.all, test::Answer{.content = text});
  }
}

// "<f=sun" is no call: what follows is content at once, not only at the end.
TEST(WhatCannotBeReadBehindWhatWasReadIsContent) {
  for (const std::string before : {"", "OK "}) {
    Reader reader;
    reader.Read("<think>I see</think>" + before + "<f=");
    EXPECT_EQ(reader.all, (test::Answer{.content = before, .reasoning = "I see"}));
    EXPECT_EQ(reader.Read("su"), test::Answer{.content = "<f=su"});
    EXPECT_EQ(reader.Read("n>{\"n\": <f=moon>"), test::Answer{.content = "n>{\"n\": <f=moon>"});
    EXPECT_EQ(reader.Read("1}", /*last=*/true), test::Answer{.content = "1}"});
    const test::Answer expected{.content = before + "<f=sun>", .reasoning = "I see"};
    EXPECT_EQ(Reader().Read("<think>I see</think>" + before + "<f=sun>", /*last=*/true), expected);
  }
}

// The call is made; a client has no use for what cannot be read behind it.
TEST(WhatCannotBeReadBehindACallIsLeftOut) {
  const std::string call = "<f=moon>{\"n\": 1}</f>";
  const test::Answer expected{.calls = {{"", "moon", "{\"n\": 1}"}}};
  EXPECT_EQ(Reader().Read(call + "<f=sun>", /*last=*/true), expected);
  Reader reader;
  for (const char* piece : {call.c_str(), "<f=sun>", "{", "}"}) reader.Read(piece);
  reader.Read("", /*last=*/true);
  EXPECT_EQ(reader.all, expected);
}

TEST(WhatTheContinuedMessageHasIsNoPartOfTheAnswer) {
  Reader reader(Tags, "<think>So</think>Hello");
  EXPECT_EQ(reader.Read(" world"), test::Answer{.content = " world"});
  EXPECT_EQ(reader.Read("!", /*last=*/true), test::Answer{.content = "!"});
}

// "abc!" is read as reasoning until it goes on.
TEST(WhatWasDeliveredStays) {
  Reader reader([](Builder& p) {
    return p.choice({p.content(p.literal("abc")) + "#", p.reasoning(p.literal("abc") + "!") + "#",
                     p.content(p.rest())});
  });
  EXPECT_EQ(reader.Read("abc"), test::Answer{.content = "abc"});
  EXPECT_EQ(reader.Read("!"), test::Answer{.reasoning = "abc!"});
  EXPECT_EQ(reader.Read("d", /*last=*/true), test::Answer{.content = "!d"});
}

// A model may write an id without end. Without one the daemon makes it.
TEST(AnIdOfACallThatIsTooLongIsLeftOut) {
  const auto with_id = [](Builder& p) {
    return p.tool(p.tool_open("<f=" + p.tool_name(p.literal("moon")) + "#" +
                              p.tool_id(p.until(">")) + ">") +
                  p.tool_args(p.json()) + p.tool_close(p.literal("</f>"))) +
           p.end();
  };
  for (const std::size_t length : {9, 256, 257, 2000}) {
    Reader reader(with_id);
    const std::string id(length, 'x');
    reader.Read("<f=moon#" + id + ">{\"n\": 1}</f>", /*last=*/true);
    REQUIRE(reader.all.calls.size() == 1);
    EXPECT_EQ(reader.all.calls[0].id, length <= 256 ? id : "");
    EXPECT_EQ(reader.all.calls[0].arguments, "{\"n\": 1}");
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
