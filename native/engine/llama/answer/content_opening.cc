#include "engine/llama/answer/content_opening.h"

#include <variant>

#include "chat-peg-parser.h"
#include "chat.h"
#include "engine/llama/answer/call_parts.h"

namespace svc {
namespace {

// True if the parser reads the text's last character, "y", as content.
bool ReadsContent(const AnswerFormat& format, const std::string& text) {
  const common_chat_parser_params& parser = *format.parser;
  return !RefusedAt(parser.parser, parser.generation_prompt + text) &&
         common_chat_parse(text, /*is_partial=*/true, parser).content.ends_with('y');
}

// Returns the last literal of the parser that directly precedes a content; empty: there is none.
std::string ContentLiteral(const AnswerFormat& format) {
  const common_peg_arena& parser = format.parser->parser;
  std::string found;
  VisitParts(parser, parser.root(), [&](CallPart part) {
    const auto* parts = std::get_if<common_peg_sequence_parser>(&parser.get(part));
    for (std::size_t i = 1; parts != nullptr && i < parts->children.size(); ++i) {
      if (TagOf(parser, parts->children[i]) != common_chat_peg_builder::CONTENT) continue;
      const auto* before =
          std::get_if<common_peg_literal_parser>(&parser.get(parts->children[i - 1]));
      if (before != nullptr) found = before->literal;
    }
    return true;
  });
  return found;
}

}  // namespace

ContentOpening OpeningOf(const AnswerFormat& format) {
  if (format.parser == nullptr) return {};
  const std::string literal = ContentLiteral(format);
  const auto behind = [&](const std::string& text) -> std::string {
    for (const std::string& opening :
         {std::string(), literal, format.generation_prompt + literal}) {
      if (ReadsContent(format, text + opening + "y")) return opening;
    }
    return "";
  };
  const bool is_open = OpensThinking(format);
  ContentOpening opening;
  if (!is_open) opening.at_once = behind("");
  if (!format.thinking_ends.empty()) {
    opening.after_reasoning =
        behind((is_open ? "" : format.thinking_start) + "x" + format.thinking_ends.front());
    const bool is_message = opening.after_reasoning.size() > literal.size() &&
                            opening.after_reasoning == format.generation_prompt + literal;
    if (is_message) opening.message_after_reasoning = format.generation_prompt;
  }
  return opening;
}

}  // namespace svc
