// The prefix that a format needs directly before a content: "<|channel|>final<|message|>" in
// gpt-oss.
#pragma once

#include <string>

#include "engine/llama/answer/answer_format.h"

namespace svc {

// Empty: no prefix is needed there.
struct ContentOpening {
  std::string at_once;          // at the beginning of the answer
  std::string after_reasoning;  // behind the end of the reasoning
  // The part of after_reasoning that begins any message: a call stands behind it, too.
  std::string message_after_reasoning;
};

ContentOpening OpeningOf(const AnswerFormat& format);

}  // namespace svc
