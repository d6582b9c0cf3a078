// Grammar of the calls in an answer. It is made of llama.cpp's parser of the model's format, but is
// stricter than llama.cpp's own grammar:
//
//   - The arguments follow the tool's grammars (Tool in chat.h). llama.cpp's compiler of JSON
//     Schema ignores keywords that it cannot express, and some formats ignore the schema.
//   - A forced call comes before any content.
//   - There is one call if there may be only one.
//   - There is no white space where the parser would not find what must follow.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "engine/types/chat.h"

struct common_chat_params;

namespace svc {

// GBNF. is_whole: of the whole answer, from the end of the prompt on; otherwise from the trigger of
// a call on. Error: kInvalidRequest (param "tools": a strict tool, and its schema cannot be
// enforced in this format). Throws the exceptions of libllama-common.
Result<std::string> CallGrammar(const common_chat_params& found, const ChatOptions& options,
                                bool is_whole);

}  // namespace svc
