#include "engine/llama/chat/answer_format.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "chat-peg-parser.h"
#include "chat.h"
#include "json-schema-to-grammar.h"

namespace svc {
namespace {

using Builder = common_chat_peg_builder;

// Name of the parser of a tool's arguments, where the format writes them as one JSON object.
std::string SchemaName(const Tool& tool) { return "tool-" + tool.name + "-schema"; }

// Name of the first rule of a tool's grammar, which matches its arguments.
std::string RootOf(const Tool& tool) { return tool.grammar.substr(0, tool.grammar.find(' ')); }

// Makes the arguments of each tool follow the tool's own grammar. Returns the tools for which that
// is possible.
std::set<const Tool*> FollowGrammars(const std::vector<Tool>& tools, common_peg_arena* parser) {
  std::set<const Tool*> followed;
  for (common_peg_parser_id id = 0; id < parser->size(); ++id) {
    const auto* schema = std::get_if<common_peg_schema_parser>(&parser->get(id));
    if (schema == nullptr) continue;
    const auto tool = std::find_if(tools.begin(), tools.end(), [&](const Tool& each) {
      return !each.grammar.empty() && SchemaName(each) == schema->name;
    });
    if (tool == tools.end()) continue;
    parser->get(id) = common_peg_gbnf_parser{schema->child, RootOf(*tool)};
    followed.insert(&*tool);
  }
  return followed;
}

// Lets no content precede a call that must happen: a model might never stop writing it.
void RemoveContent(common_peg_arena* parser) {
  for (common_peg_parser_id id = 0; id < parser->size(); ++id) {
    const auto* tag = std::get_if<common_peg_tag_parser>(&parser->get(id));
    if (tag != nullptr && tag->tag == Builder::CONTENT) {
      parser->get(id) = common_peg_epsilon_parser{};
    }
  }
}

// Allows a single call. Some formats of llama.cpp ignore parallel_tool_calls.
void AllowOneCall(common_peg_arena* parser) {
  for (common_peg_parser_id id = 0; id < parser->size(); ++id) {
    const auto* rule = std::get_if<common_peg_rule_parser>(&parser->get(id));
    if (rule == nullptr || !rule->trigger) continue;
    auto* calls = std::get_if<common_peg_repetition_parser>(&parser->get(rule->child));
    if (calls != nullptr) calls->max_count = 1;
  }
}

Result<std::string> CallGrammar(const common_chat_params& found, const ChatOptions& options) {
  common_peg_arena parser;
  parser.load(found.parser);
  const std::set<const Tool*> followed = FollowGrammars(options.tools, &parser);
  for (const Tool& tool : options.tools) {
    if (tool.strict && !followed.contains(&tool)) {
      return Status(StatusCode::kInvalidRequest,
                    "this model writes tool calls in a format in which the schema of a tool's "
                    "arguments cannot be enforced",
                    "tools");
    }
  }
  if (options.tool_choice == ToolChoice::kRequired) RemoveContent(&parser);
  if (!options.parallel_tool_calls) AllowOneCall(&parser);
  std::string grammar = build_grammar([&](const common_grammar_builder& builder) {
    parser.build_grammar(builder, found.grammar_lazy);
  });
  for (const Tool* tool : followed) grammar += "\n" + tool->grammar;
  return grammar;
}

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

}  // namespace

bool OpensThinking(const AnswerFormat& format) {
  if (format.thinking_ends.empty()) return false;
  // Looked up in the text: beside other characters, a tag may have other tokens.
  const std::string& prompt = format.generation_prompt;
  const std::size_t opened = prompt.rfind(format.thinking_start);
  return opened != std::string::npos &&
         std::none_of(
             format.thinking_ends.begin(), format.thinking_ends.end(),
             [&](const std::string& end) { return prompt.find(end, opened) != std::string::npos; });
}

Result<std::shared_ptr<const AnswerFormat>> MakeAnswerFormat(const common_chat_params& found,
                                                             const ChatOptions& options) {
  auto format = std::make_shared<AnswerFormat>();
  auto parser = std::make_shared<common_chat_parser_params>(found);
  parser->reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  parser->parser.load(found.parser);
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
                  "this model writes tool calls without a mark that begins them, so they cannot be "
                  "enforced",
                  "tools");
  }
  if (may_call && !found.grammar.empty()) {
    Result<std::string> grammar = CallGrammar(found, options);
    if (!grammar.ok()) return grammar.status();
    format->grammar = std::move(grammar.value());
    if (found.grammar_lazy) format->trigger = WordsOf(found.grammar_triggers);
  }
  return std::shared_ptr<const AnswerFormat>(std::move(format));
}

}  // namespace svc
