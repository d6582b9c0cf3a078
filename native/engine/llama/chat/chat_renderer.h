// Chats into prompts, with the template in the model's file, rendered by llama.cpp's Jinja engine.
//
// A model without a template gets ChatML ("<|im_start|>user\n...<|im_end|>\n"), as in llama-server;
// where its vocabulary has no such tokens they are plain text, and "<|im_end|>" is a stop string.
//
// llama.cpp analyses a template whenever it renders it, to learn how it writes tool calls: 5 to 50
// ms for each chat. It can also render and do no more; for chats without tools the prompt is the
// same, which a test holds for every template that comes with llama.cpp. So the analysis is made
// once, for the stop strings that it finds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/request.h"
#include "engine/llama/chat/special_text.h"
#include "engine/llama/llama_model.h"

struct common_chat_templates;

namespace svc {

struct ChatPrompt {
  std::vector<Token> tokens;
  std::vector<std::string> stop;  // what the template wants beside the caller's
};

// Owner: the engine. Immutable, any thread. `model` must outlive it.
class ChatRenderer {
 public:
  // kModelInvalid if the template in the file cannot be parsed.
  static Result<std::unique_ptr<ChatRenderer>> New(const LlamaModel& model);
  ~ChatRenderer();

  bool has_template() const;

  // The prompt as text, ready for the assistant's turn; what the caller sees. kInvalidRequest if a
  // role is unknown, or the template refuses the chat or exceeds the WorkLimit of this thread.
  Result<std::string> Render(const std::vector<ChatMessage>& messages) const;

  // Rendered and tokenized; no control token of it comes from a message (special_text.h). Errors as
  // Render, and kContextOverflow as LlamaModel::Tokenize.
  Result<ChatPrompt> RenderTokens(const std::vector<ChatMessage>& messages,
                                  std::uint32_t context_length = 0) const;

 private:
  explicit ChatRenderer(const LlamaModel& model);
  void LearnStops();

  const LlamaModel& model_;
  const SpecialText special_text_;
  std::shared_ptr<common_chat_templates> templates_;
  std::vector<std::string> stop_;  // what the template wants
};

}  // namespace svc
