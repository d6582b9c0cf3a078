#include "engine/llama/answer/call_grammar.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>
#include <variant>
#include <vector>

#include "chat-peg-parser.h"
#include "chat.h"
#include "engine/llama/answer/apart_arguments.h"
#include "engine/llama/answer/call_parts.h"
#include "json-schema-to-grammar.h"

namespace svc {
namespace {

using Builder = common_chat_peg_builder;

// Name of the parser of a tool's arguments, where the format writes them as one JSON object.
std::string SchemaName(const Tool& tool) { return "tool-" + tool.name + "-schema"; }

// Name of the parser of the arguments, where the format writes them in Gemma 4's notation.
constexpr const char* kTaggedObject = "gemma4-dict";

// Name of a grammar's first rule.
std::string RootOf(const std::string& grammar) { return grammar.substr(0, grammar.find(' ')); }

// Makes the arguments of `tool` follow its grammar, if the format writes them as one JSON object.
bool FollowJson(const Tool& tool, common_peg_arena* parser) {
  bool is_followed = false;
  for (CallPart id = 0; id < parser->size(); ++id) {
    const auto* schema = std::get_if<common_peg_schema_parser>(&parser->get(id));
    if (schema == nullptr || schema->name != SchemaName(tool)) continue;
    parser->get(id) = common_peg_gbnf_parser{schema->child, RootOf(tool.grammar)};
    is_followed = true;
  }
  return is_followed;
}

// The same for Gemma 4's notation.
bool FollowTagged(const Tool& tool, CallPart call, common_peg_arena* parser) {
  if (tool.tagged_grammar.empty()) return false;
  bool is_followed = false;
  VisitParts(*parser, call, [&](CallPart part) {
    if (TagOf(*parser, part) != Builder::TOOL_ARGS) return true;
    const CallPart object = PartsBelow(*parser, part).front();
    const auto* rule = std::get_if<common_peg_rule_parser>(&parser->get(object));
    if (rule == nullptr || rule->name != kTaggedObject) return true;
    parser->get(part) = common_peg_gbnf_parser{object, RootOf(tool.tagged_grammar)};
    is_followed = true;
    return false;
  });
  return is_followed;
}

bool Has(const common_peg_arena& parser, CallPart root, std::string_view tag) {
  bool has = false;
  VisitParts(parser, root, [&](CallPart part) {
    has = has || TagOf(parser, part) == tag;
    return !has;
  });
  return has;
}

// Removes the alternatives that have all of these tags, unless no other one would be left.
void RemoveChoicesWith(std::initializer_list<std::string_view> tags, common_peg_arena* parser) {
  for (CallPart part = 0; part < parser->size(); ++part) {
    auto* choice = std::get_if<common_peg_choice_parser>(&parser->get(part));
    if (choice == nullptr) continue;
    std::vector<CallPart> without;
    for (const CallPart each : choice->children) {
      const bool has_all = std::all_of(
          tags.begin(), tags.end(), [&](std::string_view tag) { return Has(*parser, each, tag); });
      if (!has_all) without.push_back(each);
    }
    if (!without.empty()) choice->children = std::move(without);
  }
}

// Lets no content precede a forced call: a model might never stop writing it.
void RemoveContent(common_peg_arena* parser) {
  RemoveChoicesWith({Builder::CONTENT}, parser);
  for (CallPart part = 0; part < parser->size(); ++part) {
    if (TagOf(*parser, part) != Builder::CONTENT) continue;
    // A GBNF rule: a part without a rule cannot be repeated.
    parser->get(part) = common_peg_gbnf_parser{PartsBelow(*parser, part).front(), "\"\""};
  }
}

// True if what follows the part must begin with a certain text, which a grammar cannot express.
bool LooksAhead(const common_peg_arena& parser, CallPart root) {
  std::set<CallPart> seen;
  std::vector<CallPart> lasts = {root};
  while (!lasts.empty()) {
    const CallPart part = lasts.back();
    lasts.pop_back();
    if (!seen.insert(part).second) continue;
    const std::vector<CallPart> below = PartsBelow(parser, part);
    if (std::holds_alternative<common_peg_and_parser>(parser.get(part))) {
      if (std::holds_alternative<common_peg_literal_parser>(parser.get(below.front()))) return true;
    } else if (std::holds_alternative<common_peg_choice_parser>(parser.get(part))) {
      lasts.insert(lasts.end(), below.begin(), below.end());
    } else if (!below.empty()) {
      lasts.push_back(below.back());
    }
  }
  return false;
}

// Writes no white space where the parser looks ahead for a text: it would not find it.
void RemoveSpaceAhead(common_peg_arena* parser) {
  for (CallPart part = 0; part < parser->size(); ++part) {
    auto* sequence = std::get_if<common_peg_sequence_parser>(&parser->get(part));
    if (sequence == nullptr) continue;
    std::vector<CallPart>& parts = sequence->children;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const bool is_space =
          std::holds_alternative<common_peg_space_parser>(parser->get(parts[i + 1]));
      if (is_space && LooksAhead(*parser, parts[i])) {
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
}

// Allows a single call. Some formats of llama.cpp ignore parallel_tool_calls.
void AllowOneCall(common_peg_arena* parser) {
  for (CallPart id = 0; id < parser->size(); ++id) {
    const auto* rule = std::get_if<common_peg_rule_parser>(&parser->get(id));
    if (rule == nullptr || !rule->trigger) continue;
    VisitParts(*parser, rule->child, [&](CallPart part) {
      auto* calls = std::get_if<common_peg_repetition_parser>(&parser->get(part));
      if (calls == nullptr || !Has(*parser, part, Builder::TOOL_NAME)) return true;
      if (calls->max_count != 0) calls->max_count = 1;
      return true;
    });
  }
}

// True for a tag that a text may have or not.
bool IsOptionalTag(const common_peg_arena& parser, CallPart part) {
  const auto* tag = std::get_if<common_peg_repetition_parser>(&parser.get(part));
  return tag != nullptr && tag->min_count == 0 &&
         std::holds_alternative<common_peg_literal_parser>(parser.get(tag->child));
}

// A rule that adds only optional tags to calls describes them, too: a grammar of the calls begins
// with it, because their models begin with that tag.
void TriggerWithOptionalTags(common_peg_arena* parser) {
  const auto triggers = [parser](CallPart part) {
    const auto* rule = std::get_if<common_peg_rule_parser>(&parser->get(part));
    return rule != nullptr && rule->trigger;
  };
  for (CallPart part = 0; part < parser->size(); ++part) {
    auto* rule = std::get_if<common_peg_rule_parser>(&parser->get(part));
    if (rule == nullptr || rule->trigger) continue;
    const auto* all = std::get_if<common_peg_sequence_parser>(&parser->get(rule->child));
    if (all == nullptr || std::ranges::count_if(all->children, triggers) != 1) continue;
    rule->trigger = std::ranges::all_of(all->children, [&](CallPart each) {
      return triggers(each) || IsOptionalTag(*parser, each);
    });
  }
}

// A grammar from the trigger on begins with any rule that has one. A rule within another one
// describes a call without the tags around all calls, with which the text begins.
void KeepOutermostTriggers(common_peg_arena* parser) {
  std::set<CallPart> inner;
  const auto trigger_of = [&](CallPart part) -> common_peg_rule_parser* {
    auto* rule = std::get_if<common_peg_rule_parser>(&parser->get(part));
    return rule != nullptr && rule->trigger ? rule : nullptr;
  };
  for (CallPart part = 0; part < parser->size(); ++part) {
    if (trigger_of(part) == nullptr) continue;
    VisitParts(*parser, part, [&](CallPart below) {
      if (below != part && trigger_of(below) != nullptr) inner.insert(below);
      return true;
    });
  }
  for (const CallPart part : inner) trigger_of(part)->trigger = false;
}

}  // namespace

Result<std::string> CallGrammar(const common_chat_params& found, const ChatOptions& options,
                                bool is_whole) {
  common_peg_arena parser;
  parser.load(found.parser);
  std::string rules;
  bool has_json = false;
  bool has_tagged = false;
  const std::map<std::string, CallPart> calls = CallsOf(parser);
  ApartArguments apart(&parser);
  for (const Tool& tool : options.tools) {
    const auto call = calls.find(tool.name);
    const bool is_known = call != calls.end();
    if (!tool.grammar.empty() &&
        (FollowJson(tool, &parser) || (is_known && apart.Follow(tool, call->second)))) {
      rules += "\n" + tool.grammar;
      has_json = true;
    } else if (is_known && FollowTagged(tool, call->second, &parser)) {
      rules += "\n" + tool.tagged_grammar;
      has_tagged = true;
    } else if (tool.strict) {
      return Status(StatusCode::kInvalidRequest,
                    "this model writes tool calls in a format in which the schema of a tool's "
                    "arguments cannot be enforced",
                    "tools");
    }
  }
  if (has_json) rules += "\n" + options.any_grammar;
  if (has_tagged) rules += "\n" + options.any_tagged_grammar;
  if (options.tool_choice == ToolChoice::kRequired) RemoveContent(&parser);
  RemoveSpaceAhead(&parser);
  TriggerWithOptionalTags(&parser);
  KeepOutermostTriggers(&parser);
  // llama.cpp's parser of the only format for which a lazy grammar is not enough (Functionary v3.2)
  // reads no mark between the content and a call, or between two calls.
  const bool is_single = is_whole && found.grammar_lazy;
  if (is_single) RemoveChoicesWith({Builder::CONTENT, Builder::TOOL}, &parser);
  if (is_single || !options.parallel_tool_calls) AllowOneCall(&parser);
  return build_grammar([&](const common_grammar_builder& builder) {
           parser.build_grammar(builder, /*lazy=*/!is_whole);
         }) +
         rules + apart.rules();
}

}  // namespace svc
