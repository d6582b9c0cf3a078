// What a chat is for llama.cpp's templates.
#pragma once

#include <string_view>
#include <vector>

#include "engine/types/chat.h"

struct common_chat_templates_inputs;

namespace svc {

// True unless the options turn the reasoning off.
bool Thinks(const ChatOptions& options);

// Value of the template's variable enable_thinking, as JSON; empty: the client does not set it.
std::string_view EnableThinking(const ChatOptions& options);

// `has_efforts`: the template reads the reasoning effort.
common_chat_templates_inputs TemplateInputs(const std::vector<ChatMessage>& messages,
                                            const ChatOptions& options, bool has_efforts);

}  // namespace svc
