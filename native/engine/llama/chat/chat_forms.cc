#include "engine/llama/chat/chat_forms.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "engine/base/xxhash64.h"
#include "engine/llama/chat/tools_as_text.h"
#include "json.h"

namespace svc {
namespace {

// Bounds of the template's reason, in bytes. A shorter match may be a coincidence.
constexpr std::size_t kMinReason = 8;
constexpr std::size_t kMaxReason = 200;

bool IsSystem(const ChatMessage& message) {
  return message.role == "system" || message.role == "developer";
}

// True if `so_far` has nothing but a system message.
bool IsBeginning(const std::vector<ChatMessage>& so_far) {
  return so_far.empty() || (so_far.size() == 1 && IsSystem(so_far.front()));
}

void BecomeUser(ChatMessage* system) {
  system->role = "user";
  system->content = "<system-reminder>\n" + system->content + "\n</system-reminder>";
}

// Adds each call of messages[at] in a message of its own, with its results among the messages after
// it. Returns the index of the first message that is not among these results.
std::size_t AddCallsInTurn(const std::vector<ChatMessage>& messages, std::size_t at,
                           std::vector<ChatMessage>* added) {
  std::size_t end = at + 1;
  while (end < messages.size() && messages[end].role == "tool") ++end;
  std::vector<ChatMessage> results(messages.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                                   messages.begin() + static_cast<std::ptrdiff_t>(end));
  ChatMessage one = messages[at];
  for (const ToolCall& call : messages[at].tool_calls) {
    one.tool_calls = {call};
    added->push_back(one);
    one.content.clear();
    one.reasoning.clear();
    const auto of_others = std::stable_partition(
        results.begin(), results.end(),
        [&](const ChatMessage& result) { return result.tool_call_id == call.id; });
    added->insert(added->end(), results.begin(), of_others);
    results.erase(results.begin(), of_others);
  }
  added->insert(added->end(), results.begin(), results.end());
  return end;
}

// The form that Mistral's templates demand; the same id becomes the same text in every turn.
std::string MistralId(const std::string& id) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  constexpr std::size_t kLength = 9;
  const auto is_in_form = [](char each) {
    return std::isalnum(static_cast<unsigned char>(each)) != 0;
  };
  if (id.size() == kLength && std::ranges::all_of(id, is_in_form)) return id;
  std::uint64_t rest = XxHash64({reinterpret_cast<const std::uint8_t*>(id.data()), id.size()});
  std::string text(kLength, '0');
  for (char& each : text) {
    each = kDigits[rest % kDigits.size()];
    rest /= kDigits.size();
  }
  return text;
}

// True if the template writes all of the chat.
bool IsWhole(const std::vector<ChatMessage>& messages, const TemplateTraits& traits) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    const std::size_t calls = message.tool_calls.size();
    if ((calls > 0 || message.role == "tool") && !traits.writes_calls) return false;
    if (calls > 1 && !traits.writes_several_calls) return false;
    if (IsSystem(message) && i > 0 && !traits.writes_late_systems) return false;
  }
  const std::size_t first = !messages.empty() && IsSystem(messages.front()) ? 1 : 0;
  return first >= messages.size() || messages[first].tool_calls.empty();
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

// Writes the calls or the result of a message as text, for a template that writes none.
void BecomeText(ChatMessage* message) {
  for (const ToolCall& call : message->tool_calls) Append(CallText(call), &message->content);
  message->tool_calls.clear();
  if (message->role != "tool") return;
  message->role = "user";
  message->content = ResultText(message->content);
  message->tool_call_id.clear();
  message->tool_name.clear();
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

std::optional<std::vector<ChatMessage>> WholeForm(const std::vector<ChatMessage>& messages,
                                                  const TemplateTraits& traits) {
  if (IsWhole(messages, traits)) return std::nullopt;
  std::vector<ChatMessage> whole;
  bool is_made = false;  // the last of `whole` has become a text of the user
  for (std::size_t i = 0; i < messages.size();) {
    ChatMessage message = messages[i];
    if (!message.tool_calls.empty() && IsBeginning(whole)) {
      whole.push_back({.role = "user", .content = ""});
    }
    const bool splits = traits.writes_calls && !traits.writes_several_calls;
    if (splits && message.tool_calls.size() > 1) {
      i = AddCallsInTurn(messages, i, &whole);
      continue;
    }
    const bool was_made = is_made;
    const bool is_late = IsSystem(message) && !whole.empty() && !traits.writes_late_systems;
    is_made = is_late || (message.role == "tool" && !traits.writes_calls);
    if (is_late && !IsSystem(whole.back())) BecomeUser(&message);
    if (!traits.writes_calls) BecomeText(&message);
    if ((is_made || was_made) && !whole.empty() && IsOneTurn(whole.back(), message)) {
      Append(message.content, &whole.back().content);
    } else {
      whole.push_back(std::move(message));
    }
    ++i;
  }
  return whole;
}

std::optional<std::vector<ChatMessage>> StrictForm(const std::vector<ChatMessage>& messages) {
  std::vector<ChatMessage> strict;
  bool differs = false;
  for (const ChatMessage& message : messages) {
    ChatMessage made = message;
    const bool is_beginning = IsBeginning(strict);
    if (IsSystem(message) && !is_beginning) {
      BecomeUser(&made);
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

std::optional<std::vector<ChatMessage>> MistralForm(const std::vector<ChatMessage>& messages) {
  std::vector<ChatMessage> made;
  bool differs = false;
  const auto rename = [&](std::string* id) {
    std::string renamed = MistralId(*id);
    differs = differs || renamed != *id;
    *id = std::move(renamed);
  };
  for (const ChatMessage& message : messages) {
    const bool is_after_call =
        !made.empty() && (made.back().role == "tool" || !made.back().tool_calls.empty());
    if (message.role == "user" && is_after_call) {
      made.push_back({.role = "assistant", .content = "Noted."});
      differs = true;
    }
    made.push_back(message);
    for (ToolCall& call : made.back().tool_calls) rename(&call.id);
    if (message.role == "tool") rename(&made.back().tool_call_id);
  }
  if (!differs) return std::nullopt;
  return made;
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
