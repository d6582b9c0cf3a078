#include "engine/llama/chat/tools_as_text.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string_view>
#include <utility>

#include "engine/base/work_limit.h"
#include "engine/llama/chat/template_inputs.h"
#include "engine/llama/jinja/template_limit.h"
#include "json.h"

namespace svc {
namespace {

constexpr std::string_view kBeforeTools =
    "# Tools\n\n"
    "You can call the functions below. Each line describes one: its name, what it does, and a JSON "
    "Schema of its arguments.\n"
    "<tools>\n";
constexpr std::string_view kAfterTools =
    "</tools>\n\n"
    "To call a function, write its name and its arguments as a JSON object between tags:\n"
    "<tool_call>\n"
    "{\"name\": \"FUNCTION\", \"arguments\": {\"ARGUMENT\": \"VALUE\"}}\n"
    "</tool_call>\n"
    "For several calls, write several such blocks. The next message has the results, each between "
    "<tool_response> tags. If no function helps, answer as usual.";

// The calls are as CallText writes them. The assistant's turns begin with @ASSISTANT@.
constexpr std::string_view kTemplate =
    R"({%- if tools -%}{{- tools | tojson + '\n' -}}{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{{- @ASSISTANT@ -}}
{%- if message.reasoning_content -%}
{{- @THINKING_START@ + message.reasoning_content + @THINKING_END@ -}}
{%- endif -%}
{%- if message.content -%}{{- message.content -}}{%- endif -%}
{%- if message.tool_calls -%}
{%- for call in message.tool_calls -%}
{%- if message.content or not loop.first -%}{{- '\n' -}}{%- endif -%}
{{- '<tool_call>\n{"name": ' + (call.function.name | tojson) + ', "arguments": ' -}}
{{- (call.function.arguments | tojson) + '}\n</tool_call>' -}}
{%- endfor -%}
{%- endif -%}
{%- else -%}
{{- '<|' + message.role + '|>' + message.content -}}
{%- endif -%}
{{- '<|end_of_turn|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{%- if enable_thinking -%}{{- @THINKING@ -}}{%- else -%}{{- @ANSWERING@ -}}{%- endif -%}
{%- endif -%})";

void Replace(std::string_view name, std::string_view value, std::string* source) {
  const std::string literal = common_json(std::string(value)).dump();
  for (std::size_t at = source->find(name); at != std::string::npos;
       at = source->find(name, at + literal.size())) {
    source->replace(at, name.size(), literal);
  }
}

// The tag with the white space that follows it in the text.
std::string WithSpace(const std::string& tag, std::string_view text) {
  const std::size_t at = tag.empty() ? std::string_view::npos : text.find(tag);
  if (at == std::string_view::npos) return tag;
  const std::string_view rest = text.substr(at);
  const std::size_t end = rest.find_first_not_of(" \n", tag.size());
  return std::string(rest.substr(0, end));
}

std::string LineOf(const Tool& tool) {
  std::string line = R"({"type":"function","function":{"name":)" + common_json(tool.name).dump();
  if (!tool.description.empty()) {
    line += R"(,"description":)" + common_json(tool.description).dump();
  }
  return line + R"(,"parameters":)" + tool.parameters + "}}\n";
}

}  // namespace

std::string CallText(const ToolCall& call) {
  const std::string name = common_json(call.name).dump();
  return "<tool_call>\n{\"name\": " + name + ", \"arguments\": " + call.arguments +
         "}\n</tool_call>";
}

std::string ResultText(const std::string& content) {
  return "<tool_response>\n" + content + "\n</tool_response>";
}

std::string ToolsAsText::Tags() { return "<tools></tools>" + CallText({}) + ResultText(""); }

std::unique_ptr<ToolsAsText> ToolsAsText::New(const Templates& templates,
                                              const TemplateTraits& traits) {
  const bool ends_thinking = !traits.thinking->thinking_ends.empty();
  if (!traits.writes_systems || (traits.thinks && !ends_thinking)) return nullptr;
  const WorkLimit limit;
  try {
    Openings openings = OpeningsOf(templates, traits);
    auto parsed = common_chat_templates_init(nullptr, SourceOf(openings, traits));
    return std::unique_ptr<ToolsAsText>(
        new ToolsAsText(std::move(parsed), std::move(openings), traits.thinking->stop));
  } catch (const std::exception&) {
    return nullptr;
  }
}

ToolsAsText::ToolsAsText(common_chat_templates_ptr templates, Openings openings,
                         std::vector<std::string> stop)
    : templates_(std::move(templates)),
      openings_(std::move(openings)),
      formats_(templates_.get(), std::move(stop)) {}

ToolsAsText::Openings ToolsAsText::OpeningsOf(const Templates& templates,
                                              const TemplateTraits& traits) {
  const auto opening = [&](ReasoningEffort effort) {
    ChatOptions options;
    options.reasoning_effort = effort;
    common_chat_templates_inputs inputs =
        TemplateInputs({{"user", "Hello"}}, options, traits.knows_efforts);
    inputs.force_pure_content = !traits.is_specialized;
    return ApplyTemplates(templates.of_prompts.get(), inputs).generation_prompt;
  };
  return {.thinking = opening(ReasoningEffort::kDefault),
          .answering = opening(ReasoningEffort::kNone)};
}

std::string ToolsAsText::SourceOf(const Openings& openings, const TemplateTraits& traits) {
  std::string start;
  std::string end;
  if (traits.thinks) {
    start = WithSpace(traits.thinking->thinking_start, openings.thinking);
    end = WithSpace(traits.thinking->thinking_ends.front(), openings.answering);
  }
  // What begins a turn, with reasoning and without.
  const auto ends = std::ranges::mismatch(openings.thinking, openings.answering).in1;
  std::string assistant(openings.thinking.begin(), ends);
  if (!start.empty()) assistant.erase(std::min(assistant.find(start), assistant.size()));
  std::string source(kTemplate);
  Replace("@ASSISTANT@", assistant, &source);
  Replace("@THINKING_START@", start, &source);
  Replace("@THINKING_END@", end, &source);
  Replace("@THINKING@", openings.thinking, &source);
  Replace("@ANSWERING@", openings.answering, &source);
  return source;
}

std::vector<ChatMessage> ToolsAsText::WithList(std::vector<ChatMessage> messages,
                                               const std::vector<Tool>& tools) {
  std::string list(kBeforeTools);
  for (const Tool& tool : tools) list += LineOf(tool);
  list += kAfterTools;
  const bool has_system = !messages.empty() && (messages.front().role == "system" ||
                                                messages.front().role == "developer");
  if (!has_system) messages.insert(messages.begin(), {.role = "system", .content = ""});
  std::string* const content = &messages.front().content;
  *content += (content->empty() ? "" : "\n\n") + list;
  return messages;
}

Result<std::shared_ptr<const AnswerFormat>> ToolsAsText::FormatOf(const ChatMessage& last,
                                                                  const ChatOptions& options) {
  auto kept = formats_.Kept(options, Thinks(options) ? openings_.thinking : openings_.answering);
  if (kept != nullptr) return kept;
  common_chat_templates_inputs inputs = TemplateInputs({last}, options, /*has_efforts=*/false);
  Simplify(&inputs.tools);
  return formats_.Find(ApplyTemplates(templates_.get(), inputs), inputs, options);
}

}  // namespace svc
