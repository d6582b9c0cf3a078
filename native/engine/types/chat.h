// Messages, tools and options of a chat: what a template renders.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/field.h"
#include "engine/base/ids.h"

namespace svc {

// A tool call in an assistant's message.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // a JSON object

  SVC_FIELDS(ToolCall, (id), (name, .required = true), (arguments, .required = true))
};

enum class MediaType { kImage, kAudio };
constexpr auto Names(MediaType) { return std::array{"image", "audio"}; }

// A picture or sound in a message.
struct Media {
  MediaType type = MediaType::kImage;
  std::string data;        // the file's bytes as base64
  std::uint32_t at = 0;    // where it stands in ChatMessage::content, in bytes
  std::uint32_t part = 0;  // its index in the content that the client sent, for errors
  // What stands for it in the prompt; set by the engine.
  std::vector<Token> tokens = {};

  SVC_FIELDS(Media, (type, .required = true), (data, .required = true), (at, .required = true),
             (part, .required = true))
};

struct ChatMessage {
  std::string role;
  std::string content;
  std::string reasoning = {};             // assistant only
  std::vector<ToolCall> tool_calls = {};  // assistant only
  std::string tool_call_id = {};          // tool only: the call that this message answers
  std::string tool_name = {};             // tool only: the tool that was called
  std::vector<Media> media = {};          // in the order in which they stand in `content`

  SVC_FIELDS(ChatMessage, (role, .required = true), (content, .required = true), (reasoning),
             (tool_calls), (tool_call_id), (tool_name), (media))
};

// How the value of one argument may be written. Some formats write strings bare: without quotes and
// escapes. The rules are in Tool::grammar.
struct ToolArgument {
  std::string name;
  bool required = false;
  std::string json;       // rule of the value as JSON
  bool any_text = false;  // any bare text is a valid string
  // Otherwise, rule of the strings as bare text without '<'. Empty: there are none, or they cannot
  // be enforced.
  std::string text;
  std::string other;              // rule of the values that are no strings, as JSON; empty: none
  bool text_may_be_json = false;  // a bare text that is JSON of one of the other types is valid
  bool scalar = false;            // no value is a string, an object or a list

  friend bool operator==(const ToolArgument&, const ToolArgument&) = default;

  SVC_FIELDS(ToolArgument, (name, .required = true), (required), (json, .required = true),
             (any_text), (text), (other), (text_may_be_json), (scalar))
};

// A tool that the model may call.
struct Tool {
  std::string name;
  std::string description;
  std::string parameters;  // JSON Schema of the arguments
  // Grammar of the arguments as one JSON object, as strict as the schema: GBNF rules of which the
  // first is the root. Rule names are unique in the request. It may refer to the rules of
  // ChatOptions::any_grammar. Empty: any JSON object.
  std::string grammar;
  // The same as an object in Gemma 4's notation, with ChatOptions::any_tagged_grammar. Empty: the
  // schema cannot be enforced in it.
  std::string tagged_grammar;
  // The arguments each on its own, in their order. Absent: the schema is not a list of names.
  std::optional<std::vector<ToolArgument>> arguments;
  bool strict = false;  // a format in which the schema cannot be enforced is an error

  friend bool operator==(const Tool&, const Tool&) = default;

  SVC_FIELDS(Tool, (name, .required = true, .non_empty = true), (description),
             (parameters, .required = true), (grammar), (tagged_grammar), (arguments), (strict))
};

// kRequired: the answer is one or more calls. kNone: the prompt lists the tools, but none is
// called.
enum class ToolChoice { kAuto, kNone, kRequired };
constexpr auto Names(ToolChoice) { return std::array{"auto", "none", "required"}; }

// How much the model may think before it answers. kDefault: as its template has it. kNone: not at
// all.
enum class ReasoningEffort { kDefault, kNone, kMinimal, kLow, kMedium, kHigh, kXhigh };
constexpr auto Names(ReasoningEffort) {
  return std::array{"default", "none", "minimal", "low", "medium", "high", "xhigh"};
}

inline constexpr std::uint32_t kMaxReasoningTokens = 1U << 24U;

// How a chat is rendered and its answer read, besides its messages.
struct ChatOptions {
  std::vector<Tool> tools;
  // GBNF rules for values without a schema, as JSON and in Gemma 4's notation: the grammars of the
  // tools refer to them. Empty: none does.
  std::string any_grammar;
  std::string any_tagged_grammar;
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name;            // the one tool to call; the choice is then kRequired
  bool parallel_tool_calls = true;  // false: at most one call
  ReasoningEffort reasoning_effort = ReasoningEffort::kDefault;
  // Most tokens of reasoning; then the template's end tag is forced. Absent: no limit.
  std::optional<std::uint32_t> reasoning_budget_tokens;
  // Variables of the template: names, and values as JSON.
  std::vector<std::pair<std::string, std::string>> template_variables;
  // True: the last message, which is the assistant's, is continued.
  bool continue_last = false;
  // True: the request has an output format. Set by the engine.
  bool has_output_format = false;

  friend bool operator==(const ChatOptions&, const ChatOptions&) = default;

  SVC_FIELDS(ChatOptions, (tools), (any_grammar), (any_tagged_grammar), (tool_choice), (tool_name),
             (parallel_tool_calls), (reasoning_effort),
             (reasoning_budget_tokens, .max = kMaxReasoningTokens), (template_variables),
             (continue_last))
};

}  // namespace svc
