// Format in which a model writes the answer to one chat: where its reasoning, its content and its
// tool calls stand in the text, and the grammar that keeps it to that.
//
// llama.cpp's analysis of the chat template finds it (common/chat.h). Only the grammar of calls is
// stricter (call_grammar.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/grammar/grammar_trigger.h"
#include "engine/types/chat.h"

struct common_chat_params;
struct common_chat_parser_params;

namespace svc {

// Immutable once made; shared by the generations of equal requests. Any thread.
struct AnswerFormat {
  // Parser of the text. Null: all of it is content.
  std::shared_ptr<const common_chat_parser_params> parser;
  // Grammar of the answer as GBNF; empty: none. It begins with `generation_prompt`, unless there
  // is a trigger.
  std::string grammar;
  // Where the grammar begins in the text. Absent: at the text's beginning.
  std::optional<GrammarTrigger::Words> trigger;
  // For an answer with an output format: grammar as GBNF of the calls that may stand in place of a
  // content. `grammar` is then empty.
  std::string calls_beside_format;
  // Marks with which a content or a call may begin, which ends the reasoning.
  GrammarTrigger::Words marks;
  // End of the prompt that belongs to the assistant's turn.
  std::string generation_prompt;
  // Content of the message that the answer continues.
  std::string continued;
  // Control tokens that the parser reads as text.
  std::vector<std::string> spelled_tokens;
  std::vector<std::string> stop;  // besides the request's
  // Tags around the reasoning; empty if the template has none. The ends include the parser's
  // others, such as the tag that begins a call; the template's own are first.
  std::string thinking_start;
  std::vector<std::string> thinking_ends;
};

// True if the prompt ends within the reasoning: the model's text begins with it.
bool OpensThinking(const AnswerFormat& format);

// Takes what the analysis found. Errors: kInvalidRequest (param "tools": a tool's arguments must
// follow its grammar, and this format cannot enforce that). Throws the exceptions of
// libllama-common.
Result<std::shared_ptr<const AnswerFormat>> MakeAnswerFormat(const common_chat_params& found,
                                                             const ChatOptions& options);

// The same for an answer that is either a text of the request's output format or tool calls; the
// model chooses. `called`: what the analysis finds for the same chat with a forced call. Another
// error: kInvalidRequest (param "format": calls and contents begin with the same text).
Result<std::shared_ptr<const AnswerFormat>> MakeFormatWithCalls(const common_chat_params& found,
                                                                const common_chat_params& called,
                                                                const ChatOptions& options);

}  // namespace svc
