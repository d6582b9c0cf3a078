// Renders chats into prompts with the template in the model's file and llama.cpp's Jinja engine.
//
// A model without a template gets ChatML ("<|im_start|>user\n...<|im_end|>\n"), as in llama-server.
// If its vocabulary has no such tokens, they are plain text, and "<|im_end|>" is a stop string.
//
// llama.cpp analyses a template on every rendering to learn its tool-call syntax, which takes 5 to
// 50 ms. It can also skip the analysis; for chats without tool messages the prompt is the same,
// which a test checks for every template that comes with llama.cpp. So the analysis runs once, for
// the stop strings that it finds.
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
  std::vector<std::string> stop;  // required by the template, besides the request's
};

// Owner: the engine. Immutable, any thread. `model` must outlive it.
class ChatRenderer {
 public:
  // Error: kModelInvalid (the file's template cannot be parsed).
  static Result<std::unique_ptr<ChatRenderer>> New(const LlamaModel& model);
  ~ChatRenderer();

  bool has_template() const;

  // Returns the prompt as text, ready for the assistant's turn. Error: kInvalidRequest (a role is
  // unknown, the template refuses the chat, or this thread's WorkLimit is exceeded).
  Result<std::string> Render(const std::vector<ChatMessage>& messages) const;

  // Renders and tokenizes; text in a message never becomes a control token (special_text.h).
  // Errors: as Render, and kContextOverflow as LlamaModel::Tokenize.
  Result<ChatPrompt> RenderTokens(const std::vector<ChatMessage>& messages,
                                  std::uint32_t context_length = 0) const;

 private:
  explicit ChatRenderer(const LlamaModel& model);
  void LearnStops();

  const LlamaModel& model_;
  const SpecialText special_text_;
  std::shared_ptr<common_chat_templates> templates_;
  std::vector<std::string> stop_;  // stop strings of the template
};

}  // namespace svc
