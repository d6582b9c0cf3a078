// What a chat is for llama.cpp's templates.
#pragma once

#include <string_view>
#include <vector>

#include "engine/types/chat.h"

struct common_chat_templates_inputs;
struct common_chat_tool;

namespace svc {

// True unless the options turn the reasoning off.
bool Thinks(const ChatOptions& options);

// Value of the template's variable enable_thinking, as JSON; empty: the client does not set it.
std::string_view EnableThinking(const ChatOptions& options);

// `has_efforts`: the template reads the reasoning effort.
common_chat_templates_inputs TemplateInputs(const std::vector<ChatMessage>& messages,
                                            const ChatOptions& options, bool has_efforts);

// Replaces the parts of the tools' schemas that llama.cpp cannot convert, such as `true`, by {}: a
// whole schema or single arguments. Returns true if there were any.
bool LeaveOutUnreadable(std::vector<common_chat_tool>* tools);

}  // namespace svc
