#include "engine/llama/answer/distinct_rules.h"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "chat-peg-parser.h"
#include "chat.h"
#include "engine/llama/answer/call_parts.h"

namespace svc {
namespace {

// Aliases of names: the prefix, a number, kEnd. No alias is a prefix of another.
class Aliases {
 public:
  std::string For(const std::string& name) {
    names_.push_back(name);
    return kPrefix + std::to_string(names_.size() - 1) + kEnd;
  }

  // Puts the names back into a text that llama.cpp has made with aliases.
  void Restore(std::string* text) const {
    for (std::size_t at = 0; (at = text->find(kPrefix, at)) != std::string::npos;) {
      const std::size_t digits = at + kPrefix.size();
      const std::size_t end = text->find(kEnd, digits);
      if (end == std::string::npos) return;
      const std::string& name = names_.at(std::stoul(text->substr(digits, end - digits)));
      text->replace(at, end + 1 - at, name);
      at += name.size();
    }
  }

  void Restore(common_peg_arena* parser) const {
    for (CallPart id = 0; id < parser->size(); ++id) {
      common_peg_parser_variant& part = parser->get(id);
      if (auto* literal = std::get_if<common_peg_literal_parser>(&part)) Restore(&literal->literal);
      if (auto* until = std::get_if<common_peg_until_parser>(&part)) Restore(&until->delimiters);
      if (auto* until = std::get_if<common_peg_ac_parser>(&part)) Restore(&until->delimiters);
      if (auto* schema = std::get_if<common_peg_schema_parser>(&part)) Restore(&schema->name);
    }
  }

 private:
  static inline const std::string kPrefix = "svc-name-";
  static constexpr char kEnd = '-';

  void Restore(std::vector<std::string>* texts) const {
    for (std::string& text : *texts) Restore(&text);
  }

  std::vector<std::string> names_;
};

bool LosesRules(const common_peg_arena& parser) {
  std::set<std::string_view> names;
  for (CallPart id = 0; id < parser.size(); ++id) {
    const auto* rule = std::get_if<common_peg_rule_parser>(&parser.get(id));
    // llama.cpp's placeholder of a rule that may refer to itself.
    if (rule == nullptr || std::holds_alternative<common_peg_any_parser>(parser.get(rule->child))) {
      continue;
    }
    if (!names.insert(rule->name).second) return true;
  }
  return false;
}

bool HasApartArguments(const common_peg_arena& parser) {
  bool has = false;
  VisitParts(parser, parser.root(), [&](CallPart part) {
    has = has || TagOf(parser, part) == common_chat_peg_builder::TOOL_ARG;
    return !has;
  });
  return has;
}

// Renames the arguments in a JSON Schema.
std::string WithAliases(const std::string& parameters, Aliases* aliases) {
  common_json schema = common_json::parse(parameters);
  const auto has = [&schema](const char* key) {
    return schema.is_object() && schema.contains(key);
  };
  if (!has("properties") || !schema.at("properties").is_object()) return parameters;
  std::map<std::string, std::string> renamed;
  common_json properties = common_json::object();
  for (const auto& each : schema.at("properties").items()) {
    const std::string alias = aliases->For(each.key());
    renamed.emplace(each.key(), alias);
    properties[alias] = each.value();
  }
  schema["properties"] = properties;
  if (has("required") && schema.at("required").is_array()) {
    common_json required = common_json::array();
    for (const auto& each : schema.at("required")) {
      const auto found = each.is_string() ? renamed.find(each.get<std::string>()) : renamed.end();
      if (found != renamed.end()) required.push_back(found->second);
    }
    schema["required"] = required;
  }
  return schema.dump();
}

}  // namespace

common_chat_params WithDistinctRules(
    common_chat_params found, const common_chat_templates_inputs& inputs,
    const std::function<common_chat_params(const common_chat_templates_inputs&)>& analyze) {
  if (inputs.tools.empty()) return found;
  common_peg_arena parser;
  parser.load(found.parser);
  if (!LosesRules(parser)) return found;
  // Only arguments that are written apart have rules of their own: those in one JSON object keep
  // their names, because llama.cpp's grammar of the object has them, too.
  const bool are_apart = HasApartArguments(parser);
  Aliases aliases;
  common_chat_templates_inputs renamed = inputs;
  for (common_chat_tool& tool : renamed.tools) {
    tool.name = aliases.For(tool.name);
    if (are_apart) tool.parameters = WithAliases(tool.parameters, &aliases);
  }
  common_chat_params made = analyze(renamed);
  parser.load(made.parser);
  aliases.Restore(&parser);
  made.parser = parser.save();
  for (common_grammar_trigger& trigger : made.grammar_triggers) aliases.Restore(&trigger.value);
  made.prompt = std::move(found.prompt);
  return made;
}

}  // namespace svc
