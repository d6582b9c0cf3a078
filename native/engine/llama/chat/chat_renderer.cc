#include "engine/llama/chat/chat_renderer.h"

#include <algorithm>
#include <array>
#include <exception>
#include <string_view>

#include "chat.h"
#include "engine/base/work_limit.h"
#include "engine/llama/chat/template_limit.h"

namespace svc {
namespace {

// Allowed roles. Templates write the role as part of their own text, where any string could form a
// control token ('<|' + role + '|>').
constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};

enum class Analysis { kFull, kNone };

// Throws the exceptions of libllama-common.
common_chat_params Apply(const common_chat_templates* templates,
                         const std::vector<ChatMessage>& messages, Analysis analysis) {
  common_chat_templates_inputs inputs;
  inputs.force_pure_content = analysis == Analysis::kNone;
  for (const ChatMessage& message : messages) {
    common_chat_msg& input = inputs.messages.emplace_back();
    input.role = message.role;
    input.content = message.content;
  }
  return common_chat_templates_apply(templates, inputs);
}

}  // namespace

ChatRenderer::ChatRenderer(const LlamaModel& model) : model_(model), special_text_(model) {}
ChatRenderer::~ChatRenderer() = default;

Result<std::unique_ptr<ChatRenderer>> ChatRenderer::New(const LlamaModel& model) {
  std::unique_ptr<ChatRenderer> renderer(new ChatRenderer(model));
  try {
    renderer->templates_ = common_chat_templates_init(model.get(), "");
  } catch (const std::exception& error) {
    return Status(StatusCode::kModelInvalid,
                  std::string("the model's chat template cannot be parsed: ") + error.what());
  }
  LimitTemplates(renderer->templates_.get());
  renderer->LearnStops();
  return renderer;
}

void ChatRenderer::LearnStops() {
  const WorkLimit limit;
  try {
    stop_ = Apply(templates_.get(), {{"user", "Hello"}}, Analysis::kFull).additional_stops;
  } catch (const std::exception&) {
    // A template for a special purpose: no stop strings can be learned.
  }
  if (!has_template()) stop_.emplace_back("<|im_end|>");
}

bool ChatRenderer::has_template() const {
  return common_chat_templates_was_explicit(templates_.get());
}

Result<std::string> ChatRenderer::Render(const std::vector<ChatMessage>& messages) const {
  if (messages.empty()) return Status(StatusCode::kInvalidRequest, "the chat has no messages");
  Analysis analysis = Analysis::kNone;
  for (const ChatMessage& message : messages) {
    if (std::find(kRoles.begin(), kRoles.end(), message.role) == kRoles.end()) {
      return Status(StatusCode::kInvalidRequest,
                    "a message's role must be system, developer, user, assistant or tool");
    }
    if (message.role == "tool") analysis = Analysis::kFull;
  }
  try {
    return Apply(templates_.get(), messages, analysis).prompt;
  } catch (const std::exception&) {
    if (WorkLimit::IsExceeded()) {
      return Status(StatusCode::kInvalidRequest,
                    "the model's chat template does not end on this chat, or takes too long");
    }
    // The exception's message is dropped: it quotes the template at length, and may quote the chat.
    return Status(StatusCode::kInvalidRequest, "the model's chat template refuses this chat");
  }
}

Result<ChatPrompt> ChatRenderer::RenderTokens(const std::vector<ChatMessage>& messages,
                                              std::uint32_t context_length) const {
  std::string guard;
  std::vector<ChatMessage> guarded;
  if (std::any_of(messages.begin(), messages.end(), [this](const ChatMessage& message) {
        return special_text_.NeedsGuard(message.content);
      })) {
    std::vector<std::string_view> contents;
    contents.reserve(messages.size());
    for (const ChatMessage& message : messages) contents.emplace_back(message.content);
    guard = SpecialText::ChooseGuard(contents);
    if (guard.empty()) {
      return Status(StatusCode::kInvalidRequest,
                    "the chat contains all of U+10FF00 to U+10FFFF, one of which is needed to "
                    "escape control tokens");
    }
    for (const ChatMessage& message : messages) {
      guarded.push_back({message.role, special_text_.Guard(message.content, guard)});
    }
  }

  const Result<std::string> prompt = Render(guard.empty() ? messages : guarded);
  if (!prompt.ok()) return prompt.status();
  Result<std::vector<Token>> tokens =
      guard.empty() ? model_.Tokenize(prompt.value(), /*add_special=*/true, /*parse_special=*/true,
                                      context_length)
                    : special_text_.Tokenize(prompt.value(), guard, context_length);
  if (!tokens.ok()) return tokens.status();
  return ChatPrompt{std::move(tokens.value()), stop_};
}

}  // namespace svc
