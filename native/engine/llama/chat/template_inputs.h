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

// Prepares the tools' schemas for llama.cpp's analysis: parts that it cannot convert, such as
// `true`, become {}, a whole schema or single arguments; and patterns go, because it writes those
// that it does not understand to stderr, and so into the log.
void Simplify(std::vector<common_chat_tool>* tools);

}  // namespace svc
