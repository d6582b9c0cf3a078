// Text that a parser refuses, cut anywhere.
#include "engine/llama/answer/unread_text.h"

#include "chat-peg-parser.h"
#include "chat.h"
#include "test.h"

namespace svc {
namespace {

using Builder = common_chat_peg_builder;

// "<start>final<message>content<end>", or a bare content.
AnswerFormat FormatOf(bool has_opening) {
  auto parser = std::make_shared<common_chat_parser_params>();
  parser->parser = build_chat_peg_parser([&](Builder& p) {
    const auto content = p.content(p.until("<end>"));
    return has_opening ? p.literal("<start>final<message>") + content : content;
  });
  return {.parser = std::move(parser), .spelled_tokens = {"<start>", "<message>", "<end>"}};
}

// The text, byte by byte.
std::string ReadBytes(const AnswerFormat& format, const std::string& text) {
  UnreadText unread(format);
  std::string read;
  for (const char byte : text) read += unread.Read(std::string(1, byte), /*last=*/false);
  return read + unread.Read("", /*last=*/true);
}

void ExpectRead(bool has_opening, const std::string& text, const std::string& content) {
  const AnswerFormat format = FormatOf(has_opening);
  EXPECT_EQ(UnreadText(format).Read(text, /*last=*/true), content);
  EXPECT_EQ(ReadBytes(format, text), content);
}

TEST(ControlTokensAreLeftOut) {
  ExpectRead(false, "A <b> <message>c<end>", "A <b> c");
  ExpectRead(false, "1 <e", "1 <e");
  ExpectRead(true, "<start>last <message>A<start>b<message>c<end>", "Abc");
}

TEST(WithoutItsMarkTheContentIsAllOfTheText) { ExpectRead(true, "<start>final: A", "final: A"); }

TEST(TextComesAtOnceUnlessATokenMayBeginThere) {
  const AnswerFormat bare = FormatOf(false);
  UnreadText unread(bare);
  EXPECT_EQ(unread.Read("A <", false), "A ");
  EXPECT_EQ(unread.Read("en", false), "");
  EXPECT_EQ(unread.Read("try", false), "<entry");
  const AnswerFormat wrapped = FormatOf(true);
  UnreadText opened(wrapped);
  EXPECT_EQ(opened.Read("<start>last", false), "");
  EXPECT_EQ(opened.Read("<message>A", false), "A");
}

}  // namespace
}  // namespace svc

TEST_MAIN()
