#include "engine/llama/chat/template_inputs.h"

#include <string>

#include "chat.h"
#include "engine/base/work_limit.h"
#include "json-schema-to-grammar.h"

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

// Without `pattern`, wherever it is a text: an argument of that name has a schema.
common_json WithoutPatterns(const common_json& value) {
  if (value.is_array()) {
    common_json items = common_json::array();
    for (const common_json& item : value) items.push_back(WithoutPatterns(item));
    return items;
  }
  if (!value.is_object()) return value;
  common_json fields = common_json::object();
  for (const auto& field : value.items()) {
    if (field.key() == "pattern" && field.value().is_string()) continue;
    fields[field.key()] = WithoutPatterns(field.value());
  }
  return fields;
}

bool IsReadable(const common_json& schema) {
  try {
    json_schema_to_grammar(schema, /*force_gbnf=*/true);
    return true;
  } catch (const std::exception&) {
    if (WorkLimit::IsExceeded()) throw;
    return false;
  }
}

// REQUIRES: the schema is not readable.
common_json ReadablePart(const common_json& schema) {
  common_json part = {{"type", "object"}};
  const bool has_arguments =
      schema.is_object() && schema.contains("properties") && schema.at("properties").is_object();
  if (!has_arguments) return part;
  common_json arguments = common_json::object();
  for (const auto& each : schema.at("properties").items()) {
    common_json alone = schema;
    alone["properties"] = common_json::object();
    alone["properties"][each.key()] = each.value();
    arguments[each.key()] = IsReadable(alone) ? each.value() : common_json::object();
  }
  common_json whole = schema;
  whole["properties"] = arguments;
  if (IsReadable(whole)) return whole;
  for (const auto& each : schema.at("properties").items()) {
    part["properties"][each.key()] = common_json::object();
  }
  return part;
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

void Simplify(std::vector<common_chat_tool>* tools) {
  for (common_chat_tool& tool : *tools) {
    const common_json schema = common_json::parse(tool.parameters);
    const common_json plain = WithoutPatterns(schema);
    const bool is_readable = IsReadable(plain);
    if (is_readable && plain.dump() == schema.dump()) continue;
    tool.parameters = (is_readable ? plain : ReadablePart(plain)).dump();
  }
}

}  // namespace svc
