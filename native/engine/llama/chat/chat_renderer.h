// Renders chats into prompts with the template in the model's file and llama.cpp's Jinja engine,
// and finds the format in which the model writes its answer.
//
// A model without a template gets ChatML ("<|im_start|>user\n...<|im_end|>\n"), as in llama-server.
// If its vocabulary has no such tokens, they are plain text, and "<|im_end|>" is a stop string.
//
// llama.cpp analyses a template on every rendering, which takes 5 to 50 ms. It can also skip the
// analysis; for chats without tools and reasoning the prompt is the same, which a test checks for
// every template that comes with llama.cpp. So the answer formats of such chats are found once, at
// load; those of other chats are kept for their next turn (answer_formats.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/status.h"
#include "engine/llama/answer/answer_format.h"
#include "engine/llama/answer/answer_formats.h"
#include "engine/llama/chat/chat_forms.h"
#include "engine/llama/chat/media_marks.h"
#include "engine/llama/chat/special_text.h"
#include "engine/llama/chat/template_traits.h"
#include "engine/llama/chat/tools_as_text.h"
#include "engine/llama/jinja/template_limit.h"
#include "engine/llama/llama_model.h"
#include "engine/types/chat.h"

struct common_chat_params;
struct common_chat_templates_inputs;

namespace svc {

struct ChatPrompt {
  std::vector<Token> tokens;
  std::shared_ptr<const AnswerFormat> format;
};

// Owner: the engine. Immutable, any thread. `model` must outlive it.
class ChatRenderer {
 public:
  // `chat_template`: Jinja, in place of the template in the file; empty: the file's. Error:
  // kModelInvalid (the template cannot be parsed, or its analysis exceeds kAnalysisCpuSeconds or
  // WorkLimit's memory).
  static Result<std::unique_ptr<ChatRenderer>> New(const LlamaModel& model,
                                                   const std::string& chat_template = "");
  ~ChatRenderer();

  // True if the template has a form for tool calls.
  bool calls_tools() const { return traits_.calls_tools; }
  // True if a chat may have tools: the template has a form for them, or they are a text
  // (tools_as_text.h).
  bool takes_tools() const { return traits_.calls_tools || tools_as_text_ != nullptr; }
  // True if the template has a form for reasoning.
  bool thinks() const { return traits_.thinks; }
  // True if the template can leave the reasoning out.
  bool can_answer_at_once() const { return traits_.can_answer_at_once; }
  // True if the prompt ends inside the reasoning, unless reasoning is turned off.
  bool opens_thinking() const { return OpensThinking(*traits_.thinking); }

  // Returns the prompt as text, ready for the assistant's turn: of the chat as it is or, if the
  // template would lose a part of that or refuses it, of another form (chat_forms.h). Error:
  // kInvalidRequest (a role is unknown, the template refuses all forms, it has no form for the
  // options, or this thread's WorkLimit is exceeded).
  Result<std::string> Render(const std::vector<ChatMessage>& messages,
                             const ChatOptions& options = {}) const;

  // Renders and tokenizes; text in a message never becomes a control token (special_text.h).
  // Errors: as Render, and kContextOverflow as LlamaModel::Tokenize.
  Result<ChatPrompt> RenderTokens(const std::vector<ChatMessage>& messages,
                                  const ChatOptions& options = {},
                                  std::uint32_t context_length = 0) const;

  // Most tokens of reasoning for these options; absent: no limit.
  std::optional<std::uint32_t> ThinkingBudget(const ChatOptions& options) const;

 private:
  struct Rendered {
    std::string prompt;
    std::shared_ptr<const AnswerFormat> format;
  };

  // A chat in one of two versions: as it was sent, or as the template sees it, with guards before
  // control tokens in its texts (special_text.h).
  struct Chat {
    const std::vector<ChatMessage>& messages;
    const ChatOptions& options;
  };

  explicit ChatRenderer(const LlamaModel& model);
  Status Check(const std::vector<ChatMessage>& messages, const ChatOptions& options) const;
  // A guard for the chat's texts; empty: they need none. Error: kInvalidRequest (there is none).
  Result<std::string> GuardFor(const std::vector<ChatMessage>& messages,
                               const ChatOptions& options) const;
  Result<std::vector<Token>> TokenizeParts(std::string_view prompt, const std::string& guard,
                                           const MediaMarks& marks,
                                           std::uint32_t context_length) const;
  ChatOptions OptionsOfAnswer(const ChatOptions& options) const;
  common_chat_params PromptOf(const Chat& chat) const;
  bool ListsToolsAsText(const ChatOptions& options) const;
  Result<std::shared_ptr<const AnswerFormat>> FormatOf(const Chat& chat,
                                                       std::string_view generation_prompt) const;
  // The prompt is that of `shown`, the format that of `chat`.
  Result<Rendered> Apply(const Chat& chat, const Chat& shown) const;
  // As Apply, of a chat that is checked, and in which tools that are a text stand.
  Result<Rendered> ApplyForms(const Chat& chat, const Chat& shown) const;
  // As ApplyForms, of another form of the chat's messages. Absent: the form is the same.
  template <typename Form>
  std::optional<Result<Rendered>> ApplyIn(Form form, const Chat& chat, const Chat& shown) const;
  common_chat_templates_inputs InputsOf(const std::vector<ChatMessage>& messages,
                                        const ChatOptions& options) const;

  const LlamaModel& model_;
  Templates templates_;
  TemplateTraits traits_;
  std::optional<SpecialText> special_text_;     // there is one
  std::unique_ptr<AnswerFormats> formats_;      // of chats that need the analysis
  std::unique_ptr<ToolsAsText> tools_as_text_;  // null: the template has a form for them, or none
};

}  // namespace svc
