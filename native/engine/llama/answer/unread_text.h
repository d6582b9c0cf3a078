// Makes content of the part of an answer that the parser rejects. Removes the format's control
// tokens and, if the format marks the start of the content, everything before that mark.
#pragma once

#include <string>
#include <vector>

#include "engine/llama/answer/answer_format.h"

namespace svc {

class UnreadText {
 public:
  // REQUIRES: the format has a parser.
  explicit UnreadText(const AnswerFormat& format);

  // Adds text and returns the next part of the content. The end of the text is kept while it may
  // begin a control token; nothing is kept at the last text.
  std::string Read(const std::string& text, bool last);

 private:
  // Bytes at the end of the text with which a control token may begin.
  std::size_t Held() const;

  std::vector<std::string> tokens_;
  std::string opening_;  // control token that begins a content; empty: none, or it has been read
  std::string text_;     // not yet returned
};

}  // namespace svc
