#include "engine/llama/chat/own_calls.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <exception>

#include "chat.h"
#include "engine/llama/jinja/template_limit.h"

namespace svc {
namespace {

// Most bytes between the calls and the end of the prompt, where a template may repeat instructions.
constexpr std::size_t kLongestEnd = 1024;
// Most bytes before the first difference that may belong to the calls.
constexpr std::size_t kLongestShared = 32;

bool AreEqual(const std::string& json, const std::string& other) {
  return common_json::parse(json).dump() == common_json::parse(other).dump();
}

// Throws if the parser rejects the text.
bool IsReadAs(const std::vector<common_chat_tool_call>& calls, const AnswerFormat& format,
              const std::string& text) {
  const common_chat_msg read = common_chat_parse(text, /*is_partial=*/false, *format.parser);
  return std::equal(calls.begin(), calls.end(), read.tool_calls.begin(), read.tool_calls.end(),
                    [](const common_chat_tool_call& call, const common_chat_tool_call& other) {
                      return call.name == other.name && AreEqual(call.arguments, other.arguments);
                    });
}

}  // namespace

std::optional<std::string> OwnCalls(const common_chat_templates* templates,
                                    const common_chat_templates_inputs& question,
                                    const std::shared_ptr<const AnswerFormat>& format,
                                    const std::vector<common_chat_tool_call>& calls) {
  common_chat_templates_inputs inputs = question;
  inputs.add_generation_prompt = false;
  inputs.messages.emplace_back();
  inputs.messages.back().role = "assistant";
  inputs.messages.back().content = "\u00A4text\u00A4";
  const std::string text = ApplyTemplates(templates, inputs).prompt;
  inputs.messages.back().content.clear();
  inputs.messages.back().tool_calls = calls;
  const std::string prompt = ApplyTemplates(templates, inputs).prompt;

  const auto differs = static_cast<std::size_t>(
      std::mismatch(text.begin(), text.end(), prompt.begin(), prompt.end()).second -
      prompt.begin());
  // Both may begin with the same tag, or with the first characters of different ones.
  std::vector<std::size_t> begins = {differs};
  for (const char first : {'<', '[', ' '}) {
    const std::size_t before = prompt.rfind(first, differs);
    if (before != std::string::npos && differs - before < kLongestShared) begins.push_back(before);
  }
  // After a prompt that opens the reasoning, the model ends it first.
  const std::string before =
      OpensThinking(*format) ? "I think" + format->thinking_ends.front() : "";
  const std::size_t least = prompt.size() - std::min(prompt.size(), kLongestEnd);
  for (const std::size_t begin : begins) {
    for (std::size_t end = prompt.size(); end > std::max(begin, least); --end) {
      // Calls end with a tag, a bracket or white space.
      if (std::isalnum(static_cast<unsigned char>(prompt[end - 1])) != 0) continue;
      const std::string written = before + prompt.substr(begin, end - begin);
      try {
        if (IsReadAs(calls, *format, written)) return written;
      } catch (const std::exception&) {
        // It is not an answer in this format, or the arguments are not JSON.
      }
    }
  }
  return std::nullopt;
}

}  // namespace svc
