// Tries whether the tool calls that a chat template writes into a prompt are read back.
//
// llama.cpp's analysis takes the form of calls from the template. A template may write calls in a
// form that the analysis does not understand; the calls of its model would then not be read.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/llama/answer/answer_format.h"

struct common_chat_templates;
struct common_chat_templates_inputs;
struct common_chat_tool_call;

namespace svc {

// Returns the text that a model would write for the calls: the part of the history in which calls
// differ from a text in their place, without the end of the turn. Absent: none of it is read as
// these calls. `question`: a chat without an answer, with the tools; `format`: of its answer.
// Throws the exceptions of libllama-common.
std::optional<std::string> OwnCalls(const common_chat_templates* templates,
                                    const common_chat_templates_inputs& question,
                                    const std::shared_ptr<const AnswerFormat>& format,
                                    const std::vector<common_chat_tool_call>& calls);

}  // namespace svc
