// Keeps the rules of llama.cpp's parser apart if the names of tools or arguments would merge them.
//
// llama.cpp names rules after tools and arguments, with one '-' in place of other characters than
// Latin letters, digits and '-'; rules with the same name overwrite each other. So "get-weather"
// overwrites "get_weather", and of arguments with Chinese names only the last remains. A tool named
// "call" collides with a rule of llama.cpp, which would then recurse without end. Such chats are
// analysed again with aliases, and the result gets the real names.
#pragma once

#include <functional>

struct common_chat_params;
struct common_chat_templates_inputs;

namespace svc {

// Returns `found` if no rule of its parser is lost. Otherwise the same prompt with the answer's
// format as `analyze` finds it for the same inputs with other names of tools and arguments; the
// result has the names as they are. Throws the exceptions of libllama-common.
common_chat_params WithDistinctRules(
    common_chat_params found, const common_chat_templates_inputs& inputs,
    const std::function<common_chat_params(const common_chat_templates_inputs&)>& analyze);

}  // namespace svc
