#include "engine/llama/answer/answer_format.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "chat-peg-parser.h"
#include "chat.h"
#include "engine/llama/answer/bounded_nesting.h"
#include "engine/llama/answer/call_grammar.h"
#include "engine/llama/answer/call_parts.h"

namespace svc {
namespace {

GrammarTrigger::Words WordsOf(const std::vector<common_grammar_trigger>& triggers) {
  GrammarTrigger::Words words;
  for (const common_grammar_trigger& trigger : triggers) {
    switch (trigger.type) {
      case COMMON_GRAMMAR_TRIGGER_TYPE_WORD:
        words.words.push_back(trigger.value);
        break;
      case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL:
        words.patterns.push_back("^" + trigger.value + "$");
        break;
      default:
        words.patterns.push_back(trigger.value);
    }
  }
  return words;
}

// True if the parser reads as the content what follows this end of the reasoning.
bool PrecedesContent(const AnswerFormat& format, const std::string& end) {
  const std::string before = OpensThinking(format) ? "" : format.thinking_start;
  return common_chat_parse(before + "x" + end + "y", /*is_partial=*/true, *format.parser).content ==
         "y";
}

// Adds the parser's other ends of the reasoning, such as the tag that begins a call; those of calls
// only if there may be any.
void AddEndsOfReasoning(bool may_call, AnswerFormat* format) {
  std::vector<std::string>* const ends = &format->thinking_ends;
  if (ends->empty()) return;
  const common_peg_arena& parser = format->parser->parser;
  VisitParts(parser, parser.root(), [&](CallPart part) {
    if (TagOf(parser, part) != common_chat_peg_builder::REASONING) return true;
    VisitParts(parser, part, [&](CallPart below) {
      const auto* until = std::get_if<common_peg_until_parser>(&parser.get(below));
      if (until == nullptr) return true;
      for (const std::string& end : until->delimiters) {
        if (std::find(ends->begin(), ends->end(), end) != ends->end()) continue;
        if (!may_call && !PrecedesContent(*format, end)) continue;
        ends->push_back(end);
        format->marks.words.push_back(end);
      }
      return true;
    });
    return false;
  });
}

// True if the prompt ends with the mark of a call: the answer begins with a call's name or "all".
// Only the template's own text counts: a message that is continued ends with the client's, which
// may quote a mark, and may be too long to search.
bool BeginsCall(const common_chat_params& found, const ChatOptions& options) {
  if (options.continue_last) return false;
  const std::string& prompt = found.generation_prompt;
  const std::size_t searched = std::min(prompt.size(), GrammarTrigger::kWindow);
  return GrammarTrigger(WordsOf(found.grammar_triggers))
      .Find(std::string_view(prompt).substr(prompt.size() - searched))
      .has_value();
}

}  // namespace

bool OpensThinking(const AnswerFormat& format) {
  if (format.thinking_ends.empty()) return false;
  // Looked up in the text: beside other characters, a tag may have other tokens. A tag in the
  // content that is continued is a quotation.
  std::string_view prompt = format.generation_prompt;
  if (prompt.ends_with(format.continued)) prompt.remove_suffix(format.continued.size());
  const std::size_t opened = prompt.rfind(format.thinking_start);
  return opened != std::string_view::npos &&
         std::none_of(format.thinking_ends.begin(), format.thinking_ends.end(),
                      [&](const std::string& end) {
                        return prompt.find(end, opened) != std::string_view::npos;
                      });
}

Result<std::shared_ptr<const AnswerFormat>> MakeAnswerFormat(const common_chat_params& found,
                                                             const ChatOptions& options) {
  auto format = std::make_shared<AnswerFormat>();
  auto parser = std::make_shared<common_chat_parser_params>(found);
  parser->reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  parser->parser = LoadBounded(found.parser);
  parser->is_continuation = options.continue_last;
  format->parser = std::move(parser);
  format->generation_prompt = found.generation_prompt;
  format->spelled_tokens = found.preserved_tokens;
  format->stop = found.additional_stops;
  format->thinking_start = found.thinking_start_tag;
  format->thinking_ends = found.thinking_end_tags;

  const bool may_call = !options.tools.empty() && options.tool_choice != ToolChoice::kNone;
  const bool must_follow = options.tool_choice == ToolChoice::kRequired ||
                           std::any_of(options.tools.begin(), options.tools.end(),
                                       [](const Tool& t) { return t.strict; });
  // Some formats have no mark with which a call begins: there only calls that must happen have a
  // grammar.
  if (may_call && found.grammar.empty() && must_follow) {
    return Status(StatusCode::kInvalidRequest,
                  "this model's tool calls have no start tag, so they cannot be enforced", "tools");
  }
  AddEndsOfReasoning(may_call, format.get());
  if (may_call && !found.grammar.empty()) {
    if (found.grammar_lazy) format->trigger = WordsOf(found.grammar_triggers);
    if (BeginsCall(found, options)) format->trigger.reset();
    SVC_ASSIGN_OR_RETURN(format->grammar,
                         CallGrammar(found, options, /*is_whole=*/!format->trigger));
  }
  return std::shared_ptr<const AnswerFormat>(std::move(format));
}

Result<std::shared_ptr<const AnswerFormat>> MakeFormatWithCalls(const common_chat_params& found,
                                                                const common_chat_params& called,
                                                                const ChatOptions& options) {
  if (BeginsCall(found, options)) {
    return Status(StatusCode::kInvalidRequest,
                  "this model begins its tool calls and its contents with the same text, so an "
                  "output format cannot be combined with tools that may be called",
                  "format");
  }
  ChatOptions as_text = options;
  as_text.tool_choice = ToolChoice::kNone;
  SVC_ASSIGN_OR_RETURN(std::shared_ptr<const AnswerFormat> text, MakeAnswerFormat(found, as_text));
  auto format = std::make_shared<AnswerFormat>(*text);
  AddEndsOfReasoning(/*may_call=*/true, format.get());
  GrammarTrigger::Words calls = WordsOf(found.grammar_triggers);
  format->marks.words.insert(format->marks.words.end(), calls.words.begin(), calls.words.end());
  format->marks.patterns = std::move(calls.patterns);
  ChatOptions as_calls = options;
  as_calls.tool_choice = ToolChoice::kRequired;
  SVC_ASSIGN_OR_RETURN(format->calls_beside_format,
                       CallGrammar(called, as_calls, /*is_whole=*/false));
  return std::shared_ptr<const AnswerFormat>(std::move(format));
}

}  // namespace svc
