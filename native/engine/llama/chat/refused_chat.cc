#include "engine/llama/chat/refused_chat.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "json.h"

namespace svc {
namespace {

// Bounds of the template's reason, in bytes. A shorter match may be a coincidence.
constexpr std::size_t kMinReason = 8;
constexpr std::size_t kMaxReason = 200;

bool IsSystem(const ChatMessage& message) {
  return message.role == "system" || message.role == "developer";
}

bool IsOneTurn(const ChatMessage& first, const ChatMessage& second) {
  if (IsSystem(first) && IsSystem(second)) return true;
  return first.role == second.role && first.role != "tool" && first.tool_calls.empty() &&
         second.tool_calls.empty();
}

void Append(const std::string& added, std::string* text) {
  if (!text->empty() && !added.empty()) *text += "\n\n";
  *text += added;
}

// In the form of Hermes's templates, which many models know.
std::string TextOf(const ToolCall& call) {
  const std::string name = common_json(call.name).dump();
  return "<tool_call>\n{\"name\": " + name + ", \"arguments\": " + call.arguments +
         "}\n</tool_call>";
}

// The message without calls and results, for a template that knows none.
ChatMessage WithoutCalls(ChatMessage message) {
  for (const ToolCall& call : message.tool_calls) Append(TextOf(call), &message.content);
  message.tool_calls.clear();
  if (message.role != "tool") return message;
  message.role = "user";
  message.content = "<tool_response>\n" + message.content + "\n</tool_response>";
  message.tool_call_id.clear();
  message.tool_name.clear();
  return message;
}

// The type that a schema says, if it is one; a string otherwise, which a model writes as it is.
std::string TypeOf(const common_json& schema) {
  constexpr std::array kTypes = {"string", "number", "integer", "boolean", "object"};
  if (!schema.is_object() || !schema.contains("type")) return kTypes.front();
  const common_json& type = schema.at("type");
  const auto* found = std::ranges::find(kTypes, type.is_string() ? type.get<std::string>() : "");
  return found == kTypes.end() ? kTypes.front() : *found;
}

common_json WithTypesOnly(const common_json& schema) {
  common_json simple;
  simple["type"] = "object";
  simple["properties"] = common_json::object();
  if (!schema.is_object() || !schema.contains("properties")) return simple;
  const common_json& arguments = schema.at("properties");
  if (!arguments.is_object()) return simple;
  for (const auto& each : arguments.items()) {
    simple["properties"][each.key()]["type"] = TypeOf(each.value());
  }
  return simple;
}

// Length of the longest beginning of `reason` that begins a literal of the template.
std::size_t LiteralLength(std::string_view reason, std::string_view source) {
  std::size_t longest = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\'' && source[i] != '"') continue;
    const std::string_view literal = source.substr(i + 1, reason.size());
    const auto ends = std::ranges::mismatch(reason, literal).in1;
    longest = std::max(longest, static_cast<std::size_t>(ends - reason.begin()));
  }
  return longest;
}

bool IsInCharacter(std::string_view text, std::size_t at) {
  return at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
}

// The literal part of what the template passed to raise_exception(); empty: there is none.
std::string ReasonOf(std::string_view error, std::string_view source) {
  // The interpreter quotes the source before it, with its line breaks replaced.
  constexpr std::string_view kHead = "\nError: Jinja Exception: ";
  const std::size_t head = error.find(kHead);
  if (head == std::string_view::npos) return {};
  const std::string_view whole = error.substr(head + kHead.size());
  std::size_t length = LiteralLength(whole.substr(0, kMaxReason), source);
  while (IsInCharacter(whole, length)) --length;
  if (length < kMinReason) return {};
  std::string reason(whole.substr(0, length));
  const auto is_control = [](char each) {
    return static_cast<unsigned char>(each) < 0x20 || each == 0x7F;
  };
  std::ranges::replace_if(reason, is_control, ' ');
  return length < whole.size() ? reason + "…" : reason;
}

}  // namespace

std::optional<std::vector<ChatMessage>> StrictForm(const std::vector<ChatMessage>& messages,
                                                   bool calls_tools) {
  std::vector<ChatMessage> strict;
  bool differs = false;
  for (const ChatMessage& message : messages) {
    ChatMessage made = {.role = message.role,
                        .content = message.content,
                        .reasoning = message.reasoning,
                        .tool_calls = message.tool_calls,
                        .tool_call_id = message.tool_call_id,
                        .tool_name = message.tool_name};
    if (!calls_tools && (made.role == "tool" || !made.tool_calls.empty())) {
      made = WithoutCalls(std::move(made));
      differs = true;
    }
    const bool is_beginning = strict.empty() || (strict.size() == 1 && IsSystem(strict.front()));
    if (IsSystem(message) && !is_beginning) {
      made.role = "user";
      made.content = "<system-reminder>\n" + message.content + "\n</system-reminder>";
      differs = true;
    }
    if (is_beginning && made.role == "assistant") {
      strict.push_back({.role = "user", .content = ""});
      differs = true;
    }
    if (strict.empty() || !IsOneTurn(strict.back(), made)) {
      strict.push_back(std::move(made));
      continue;
    }
    Append(made.content, &strict.back().content);
    Append(made.reasoning, &strict.back().reasoning);
    differs = true;
  }
  if (!differs) return std::nullopt;
  return strict;
}

std::optional<std::vector<Tool>> SimpleForm(const std::vector<Tool>& tools) {
  std::vector<Tool> simple = tools;
  bool differs = false;
  for (Tool& tool : simple) {
    const common_json schema = common_json::parse(tool.parameters);
    const std::string types = WithTypesOnly(schema).dump();
    if (types == schema.dump()) continue;
    Append("JSON Schema of the arguments: " + tool.parameters, &tool.description);
    tool.parameters = types;
    differs = true;
  }
  if (!differs) return std::nullopt;
  return simple;
}

std::string RefusalMessage(std::string_view error, std::string_view source) {
  const std::string reason = ReasonOf(error, source);
  if (reason.empty()) {
    return "the model's chat template refuses this chat; send one system message first, then "
           "alternate user and assistant messages; or use another model";
  }
  return "the model's chat template refuses this chat: \"" + reason +
         "\"; change the messages accordingly, or use another model";
}

}  // namespace svc
