#include "engine/llama/answer/answer_formats.h"

#include <algorithm>
#include <utility>

#include "chat.h"
#include "engine/llama/answer/distinct_rules.h"
#include "engine/llama/jinja/template_limit.h"

namespace svc {
namespace {

using Format = std::shared_ptr<const AnswerFormat>;

bool MayCall(const ChatOptions& options) {
  return !options.tools.empty() && options.tool_choice == ToolChoice::kAuto;
}

Result<Format> Analyzed(const common_chat_templates* templates, common_chat_params found,
                        common_chat_templates_inputs inputs, const ChatOptions& options) {
  const auto apply = [templates](const common_chat_templates_inputs& any) {
    return ApplyTemplates(templates, any);
  };
  const common_chat_params distinct = WithDistinctRules(std::move(found), inputs, apply);
  if (!options.has_output_format || !MayCall(options)) return MakeAnswerFormat(distinct, options);
  inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_REQUIRED;
  return MakeFormatWithCalls(distinct, WithDistinctRules(apply(inputs), inputs, apply), options);
}

}  // namespace

Format AnswerFormats::Kept(const ChatOptions& options, std::string_view generation_prompt) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.format->generation_prompt == generation_prompt && entry.options == options;
  });
  if (found == entries_.end()) return nullptr;
  std::rotate(entries_.begin(), found, found + 1);
  return entries_.front().format;
}

Result<Format> AnswerFormats::Find(common_chat_params found,
                                   const common_chat_templates_inputs& inputs,
                                   const ChatOptions& options) {
  const std::size_t parser_bytes = found.parser.size();
  Result<Format> analyzed = Analyzed(templates_, std::move(found), inputs, options);
  if (!analyzed.ok()) return analyzed;
  auto format = std::make_shared<AnswerFormat>(*analyzed.value());
  format->stop.insert(format->stop.end(), stop_.begin(), stop_.end());
  if (options.continue_last) {
    // The format has the text that is continued, which is another in the next chat.
    format->continued = inputs.messages.back().content;
    return Format(std::move(format));
  }
  const std::size_t grammar_bytes = format->grammar.size() + format->calls_beside_format.size();
  Keep({options, format, parser_bytes + grammar_bytes});
  return Format(std::move(format));
}

void AnswerFormats::Keep(Entry entry) {
  const std::lock_guard lock(mutex_);
  bytes_ += entry.bytes;
  entries_.push_front(std::move(entry));
  while (entries_.size() > kMost || bytes_ > kMostBytes) {
    bytes_ -= entries_.back().bytes;
    entries_.pop_back();
  }
}

}  // namespace svc
