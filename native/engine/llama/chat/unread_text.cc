#include "engine/llama/chat/unread_text.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "chat-peg-parser.h"
#include "chat.h"
#include "engine/llama/chat/call_parts.h"

namespace svc {
namespace {

// The control token directly before a content; empty: content needs none.
std::string OpeningOf(const AnswerFormat& format) {
  const common_peg_arena& parser = format.parser->parser;
  std::string opening;
  VisitParts(parser, parser.root(), [&](CallPart part) {
    const auto* parts = std::get_if<common_peg_sequence_parser>(&parser.get(part));
    for (std::size_t i = 1; parts != nullptr && i < parts->children.size(); ++i) {
      if (TagOf(parser, parts->children[i]) != common_chat_peg_builder::CONTENT) continue;
      const auto* before =
          std::get_if<common_peg_literal_parser>(&parser.get(parts->children[i - 1]));
      for (const std::string& token : format.spelled_tokens) {
        if (before != nullptr && before->literal.ends_with(token)) opening = token;
      }
    }
    return true;
  });
  return opening;
}

}  // namespace

UnreadText::UnreadText(const AnswerFormat& format)
    : tokens_(format.spelled_tokens), opening_(OpeningOf(format)) {
  std::erase(tokens_, "");
}

std::size_t UnreadText::Held() const {
  std::size_t held = 0;
  for (const std::string& token : tokens_) {
    for (std::size_t n = std::min(token.size() - 1, text_.size()); n > held; --n) {
      if (text_.ends_with(token.substr(0, n))) held = n;
    }
  }
  return held;
}

std::string UnreadText::Read(const std::string& text, bool last) {
  text_ += text;
  if (const std::size_t at = text_.find(opening_); at != std::string::npos) {
    text_.erase(0, at + std::exchange(opening_, "").size());
  }
  if (!opening_.empty() && !last) return "";
  for (const std::string& token : tokens_) {
    for (std::size_t at = 0; (at = text_.find(token, at)) != std::string::npos;) {
      text_.erase(at, token.size());
    }
  }
  const std::size_t held = last ? 0 : Held();
  std::string content = text_.substr(0, text_.size() - held);
  text_.erase(0, content.size());
  return content;
}

}  // namespace svc
