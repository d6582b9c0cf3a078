// AnswerReader: splits the text of one answer into content, reasoning and tool calls while it is
// generated. Implemented by llama/answer/answer_stream.h.
#pragma once

#include <string>

#include "engine/types/output.h"

namespace svc {

// Owner: one generation. Thread: the runner's.
class AnswerReader {
 public:
  virtual ~AnswerReader() = default;

  // Adds text and appends the new parts to `text`, `reasoning` and `tool_calls` of *output. Text
  // that may yet become part of a tag is held back until `last`. REQUIRES: no call with `last`
  // before.
  virtual void Read(const std::string& text, bool last, GenerationOutput* output) = 0;
  // True if `stop` would begin in the content, should the answer go on with `unread` and then
  // `stop`. False: it begins in reasoning, a tool call or a tag.
  virtual bool BeginsInContent(const std::string& unread, const std::string& stop) const = 0;
  // True if a tool call was read.
  virtual bool has_called() const = 0;
};

}  // namespace svc
