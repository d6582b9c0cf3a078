// Finds the formats of answers with llama.cpp's analysis of the template, and keeps the last ones.
//
// Chats with tools are analysed with them: with 25 tools and 40 messages that takes two thirds of
// the time of rendering with most templates. What the analysis finds depends on the chat's options
// and on the end of its prompt, not on its messages; answer_formats_test checks that with every
// template of llama.cpp's tree. So the next turn of a conversation, which has the same options,
// needs no analysis.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/llama/answer/answer_format.h"
#include "engine/types/chat.h"

struct common_chat_params;
struct common_chat_templates;
struct common_chat_templates_inputs;

namespace svc {

// Owner: the renderer. Any thread.
class AnswerFormats {
 public:
  // Formats that are kept: a client may have a few agents with tools of their own.
  static constexpr std::size_t kMost = 8;
  // Text of all of them, as llama.cpp writes parsers and grammars: 100 to 250 KB with 25 tools.
  static constexpr std::size_t kMostBytes = 32U << 20U;

  // `templates` must outlive it. `stop`: stop strings of all answers, besides those that the
  // analysis finds.
  explicit AnswerFormats(const common_chat_templates* templates, std::vector<std::string> stop = {})
      : templates_(templates), stop_(std::move(stop)) {}

  // The format that is kept for a chat whose prompt ends with `generation_prompt`. Null: there is
  // none.
  std::shared_ptr<const AnswerFormat> Kept(const ChatOptions& options,
                                           std::string_view generation_prompt);

  // Returns and keeps the format of the answer to a chat. `found`: what the analysis of `inputs`
  // found. Errors: as MakeAnswerFormat and MakeFormatWithCalls. Throws the exceptions of
  // libllama-common.
  Result<std::shared_ptr<const AnswerFormat>> Find(common_chat_params found,
                                                   const common_chat_templates_inputs& inputs,
                                                   const ChatOptions& options);

 private:
  struct Entry {
    ChatOptions options;
    std::shared_ptr<const AnswerFormat> format;
    std::size_t bytes = 0;
  };

  void Keep(Entry entry);

  const common_chat_templates* const templates_;
  const std::vector<std::string> stop_;
  std::mutex mutex_;
  // Guarded by mutex_; the last used is first.
  std::deque<Entry> entries_;
  std::size_t bytes_ = 0;
};

}  // namespace svc
