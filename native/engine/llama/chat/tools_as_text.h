// Tools for models whose chat template has no form for them.
//
// The system message lists the tools and says how to call one; calls and their results are texts,
// in the form of Hermes's templates, which many models know. llama.cpp's analysis finds the format
// of the answers in a small template that writes such calls, with the reasoning and the beginning
// of an answer as the model's own template has them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chat.h"
#include "engine/base/status.h"
#include "engine/llama/answer/answer_format.h"
#include "engine/llama/answer/answer_formats.h"
#include "engine/llama/chat/template_traits.h"
#include "engine/types/chat.h"

namespace svc {

struct Templates;

std::string CallText(const ToolCall& call);
std::string ResultText(const std::string& content);

// Owner: the renderer. Any thread.
class ToolsAsText {
 public:
  // Null: the model would not see the tools, since its template writes no system message; or the
  // end of its reasoning is unknown; or the template refuses a question. Observes a WorkLimit.
  static std::unique_ptr<ToolsAsText> New(const Templates& templates, const TemplateTraits& traits);

  // The tags that the texts have.
  static std::string Tags();

  // The messages, of which the first is a system message that ends with the tools.
  static std::vector<ChatMessage> WithList(std::vector<ChatMessage> messages,
                                           const std::vector<Tool>& tools);

  // Format of the answer to a chat that ends with `last`. Errors: as AnswerFormats::Find. Throws
  // the exceptions of libllama-common.
  Result<std::shared_ptr<const AnswerFormat>> FormatOf(const ChatMessage& last,
                                                       const ChatOptions& options);

 private:
  // Beginning of an answer, as the end of the prompt has it.
  struct Openings {
    std::string thinking;
    std::string answering;
  };

  ToolsAsText(common_chat_templates_ptr templates, Openings openings,
              std::vector<std::string> stop);
  static Openings OpeningsOf(const Templates& templates, const TemplateTraits& traits);
  static std::string SourceOf(const Openings& openings, const TemplateTraits& traits);

  const common_chat_templates_ptr templates_;
  const Openings openings_;
  AnswerFormats formats_;
};

}  // namespace svc
