// Other forms of a chat, for templates that would lose a part of it, or refuse it.
//
// Some templates silently omit all but the first of several calls, or a system message after the
// beginning. Their chats are changed to a form that reaches the prompt completely.
//
// Many templates take one system message, at the beginning, and then alternate user and assistant
// messages. Clients send several system messages, or the text and the picture of one turn as two
// messages. A chat that the template refuses is rendered once more in a stricter form, which keeps
// every text and its place. A later system message is not moved to the front: that would change the
// beginning of the prompt, and the prefix cache would miss.
//
// Some templates write the type of each argument of a tool, and fail if a schema has none, or an
// unusual one. Then such a tool is rendered with a simple schema, and its own one as text.
//
// Marks in the contents stand for pictures and sounds (media_marks.h), so `media` is not needed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/llama/chat/template_traits.h"
#include "engine/types/chat.h"

namespace svc {

// Returns the chat in a form of which the template loses nothing; absent if that is the same form:
// - If it writes no calls, calls become text of the assistant, and results text of the user.
// - If it writes only one call per message, each call gets a message of its own, followed by its
//   result.
// - If a call would begin the chat, an empty message of the user comes first: Llama 3 takes the
//   first message for the user's.
// - If it writes no system message after the beginning, such messages become texts of the user,
//   marked as in src/protocol/anthropic/messages.ts.
std::optional<std::vector<ChatMessage>> WholeForm(const std::vector<ChatMessage>& messages,
                                                  const TemplateTraits& traits);

// Returns the chat with neighbours of one role joined by a blank line, an empty message of the user
// before an assistant's that would begin the chat, and system messages after the beginning as in
// WholeForm. Tool results and messages with tool calls stay as they are. Absent if nothing changes.
std::optional<std::vector<ChatMessage>> StrictForm(const std::vector<ChatMessage>& messages);

// Returns the chat as Mistral's templates demand it: the assistant speaks between a call or its
// result and the user, and ids of calls have nine letters and digits. Absent if nothing changes.
std::optional<std::vector<ChatMessage>> MistralForm(const std::vector<ChatMessage>& messages);

// Returns the tools with schemas that say no more than the type of each argument; the description
// then has the schema as it was. Absent if nothing changes.
std::optional<std::vector<Tool>> SimpleForm(const std::vector<Tool>& tools);

// The error's message for a refused chat: the template's reason and what to do. `error`: what()
// of the exception. The reason may quote the chat, and it is logged; so no more of it is shown than
// stands literally in the template's `source`.
std::string RefusalMessage(std::string_view error, std::string_view source);

}  // namespace svc
