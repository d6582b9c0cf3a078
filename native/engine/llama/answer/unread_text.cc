#include "engine/llama/answer/unread_text.h"

#include <algorithm>
#include <utility>

#include "engine/llama/answer/content_opening.h"

namespace svc {
namespace {

// The control token directly before the content; empty: none is needed.
std::string MarkOf(const AnswerFormat& format) {
  const ContentOpening opening = OpeningOf(format);
  for (const std::string& token : format.spelled_tokens) {
    if (opening.at_once.ends_with(token) || opening.after_reasoning.ends_with(token)) return token;
  }
  return "";
}

}  // namespace

UnreadText::UnreadText(const AnswerFormat& format)
    : tokens_(format.spelled_tokens), opening_(MarkOf(format)) {
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
  // What was searched before is not searched again, unless the opening may have begun in it.
  const std::size_t from = text_.size() - std::min(text_.size(), opening_.size());
  text_ += text;
  if (!opening_.empty()) {
    const std::size_t at = text_.find(opening_, from);
    if (at != std::string::npos) text_.erase(0, at + std::exchange(opening_, "").size());
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
