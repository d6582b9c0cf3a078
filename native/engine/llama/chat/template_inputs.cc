#include "engine/llama/chat/template_inputs.h"

#include <string>

#include "chat.h"

namespace svc {
namespace {

common_chat_msg ToMessage(const ChatMessage& message, const std::vector<ChatMessage>& all) {
  common_chat_msg made;
  made.role = message.role;
  made.content = message.content;
  made.reasoning_content = message.reasoning;
  made.tool_call_id = message.tool_call_id;
  made.tool_name = message.tool_name;
  for (const ToolCall& call : message.tool_calls) {
    made.tool_calls.push_back({.name = call.name, .arguments = call.arguments, .id = call.id});
  }
  if (message.role != "tool" || !made.tool_name.empty()) return made;
  for (const ChatMessage& each : all) {
    for (const ToolCall& call : each.tool_calls) {
      if (call.id == message.tool_call_id) made.tool_name = call.name;
    }
  }
  return made;
}

common_chat_tool_choice ToChoice(ToolChoice choice) {
  switch (choice) {
    case ToolChoice::kNone:
      return COMMON_CHAT_TOOL_CHOICE_NONE;
    case ToolChoice::kRequired:
      return COMMON_CHAT_TOOL_CHOICE_REQUIRED;
    default:
      return COMMON_CHAT_TOOL_CHOICE_AUTO;
  }
}

}  // namespace

std::string_view EnableThinking(const ChatOptions& options) {
  for (const auto& [name, value] : options.template_variables) {
    if (name == "enable_thinking") return value;
  }
  return "";
}

bool Thinks(const ChatOptions& options) {
  return EnableThinking(options) != "false" && options.reasoning_effort != ReasoningEffort::kNone &&
         options.reasoning_budget_tokens.value_or(1) > 0;
}

common_chat_templates_inputs TemplateInputs(const std::vector<ChatMessage>& messages,
                                            const ChatOptions& options, bool has_efforts) {
  common_chat_templates_inputs inputs;
  for (const ChatMessage& message : messages) {
    inputs.messages.push_back(ToMessage(message, messages));
  }
  for (const Tool& tool : options.tools) {
    inputs.tools.push_back({tool.name, tool.description, tool.parameters});
  }
  inputs.tool_choice = ToChoice(options.tool_choice);
  inputs.parallel_tool_calls = options.parallel_tool_calls;
  inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  inputs.enable_thinking = Thinks(options);
  if (options.continue_last) {
    inputs.continue_final_message = COMMON_CHAT_CONTINUATION_AUTO;
    inputs.add_generation_prompt = false;
  }
  for (const auto& [name, value] : options.template_variables) {
    inputs.chat_template_kwargs[name] = value;
  }
  if (has_efforts && options.reasoning_effort > ReasoningEffort::kNone) {
    const char* const effort =
        Names(ReasoningEffort{})[static_cast<std::size_t>(options.reasoning_effort)];
    inputs.chat_template_kwargs["reasoning_effort"] = '"' + std::string(effort) + '"';
  }
  return inputs;
}

}  // namespace svc
