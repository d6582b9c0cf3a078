#include "engine/chat_renderer.h"

#include <algorithm>
#include <array>
#include <exception>
#include <string_view>

#include "chat.h"

namespace svc {
namespace {

// Roles are written into the prompt as part of the template's own text, where they could name
// control tokens ('<|' + role + '|>'); so they come from a list.
constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};

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
  return renderer;
}

bool ChatRenderer::has_template() const {
  return common_chat_templates_was_explicit(templates_.get());
}

Result<ChatRenderer::Rendered> ChatRenderer::Apply(const std::vector<ChatMessage>& messages) const {
  if (messages.empty()) return Status(StatusCode::kInvalidRequest, "the chat has no messages");
  common_chat_templates_inputs inputs;
  for (const ChatMessage& message : messages) {
    if (std::find(kRoles.begin(), kRoles.end(), message.role) == kRoles.end()) {
      return Status(StatusCode::kInvalidRequest,
                    "a message's role must be system, developer, user, assistant or tool");
    }
    common_chat_msg& input = inputs.messages.emplace_back();
    input.role = message.role;
    input.content = message.content;
  }
  try {
    common_chat_params rendered = common_chat_templates_apply(templates_.get(), inputs);
    Rendered result{std::move(rendered.prompt), std::move(rendered.additional_stops)};
    if (!has_template()) result.stop.emplace_back("<|im_end|>");
    return result;
  } catch (const std::exception&) {
    // What it says quotes the template at length, and may quote the chat.
    return Status(StatusCode::kInvalidRequest, "the model's chat template refuses this chat");
  }
}

Result<std::string> ChatRenderer::Render(const std::vector<ChatMessage>& messages) const {
  Result<Rendered> rendered = Apply(messages);
  if (!rendered.ok()) return rendered.status();
  return std::move(rendered.value().prompt);
}

Result<ChatPrompt> ChatRenderer::RenderTokens(const std::vector<ChatMessage>& messages) const {
  std::string guard;
  std::vector<ChatMessage> guarded;
  const std::vector<ChatMessage>* rendered_from = &messages;
  if (std::any_of(messages.begin(), messages.end(), [this](const ChatMessage& message) {
        return special_text_.NeedsGuard(message.content);
      })) {
    std::vector<std::string_view> contents;
    for (const ChatMessage& message : messages) contents.emplace_back(message.content);
    guard = SpecialText::ChooseGuard(contents);
    if (guard.empty()) {
      return Status(StatusCode::kInvalidRequest, "the chat uses every private character there is");
    }
    for (const ChatMessage& message : messages) {
      guarded.push_back({message.role, special_text_.Guard(message.content, guard)});
    }
    rendered_from = &guarded;
  }

  Result<Rendered> rendered = Apply(*rendered_from);
  if (!rendered.ok()) return rendered.status();
  const std::string& prompt = rendered.value().prompt;
  Result<std::vector<Token>> tokens =
      guard.empty() ? model_.Tokenize(prompt, /*add_special=*/true, /*parse_special=*/true)
                    : special_text_.Tokenize(prompt, guard);
  if (!tokens.ok()) return tokens.status();
  return ChatPrompt{std::move(tokens.value()), std::move(rendered.value().stop)};
}

}  // namespace svc
