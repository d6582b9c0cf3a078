// Arguments that a format of calls writes apart from each other:
//
//   <parameter=city>Ulm</parameter>       strings bare, other values as JSON
//   weather(city="Ulm", days=3)           all values as JSON
//
// llama.cpp's grammars of such formats let an argument come twice, some let a required one be left
// out, and bare strings follow no schema. Here the arguments of a tool come in their order, each
// once, first those that are required, and each value follows the tool's own grammar.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/llama/answer/argument_form.h"
#include "engine/llama/answer/call_parts.h"
#include "engine/types/chat.h"

namespace svc {

class ApartArguments {
 public:
  // `parser` is changed, and must outlive this.
  explicit ApartArguments(common_peg_arena* parser) : parser_(*parser) {}

  // Makes `call`, the part that reads calls of `tool`, write the arguments by the tool's grammars.
  // False: the format writes them otherwise, or cannot enforce the schema of one of them; nothing
  // is changed then.
  bool Follow(const Tool& tool, CallPart call);
  // Rules to be added to the grammar, besides those of the tools.
  const std::string& rules() const { return rules_; }

 private:
  // Where a call writes its arguments.
  struct Place {
    std::vector<CallPart> parts;       // in a row; they are replaced by a rule
    std::optional<CallPart> sequence;  // the part that they are parts of, if they are several
    std::map<std::string, CallPart> arguments;
    std::string separator;  // GBNF
    bool may_be_empty = true;
  };

  std::optional<Place> PlaceIn(CallPart call) const;
  std::optional<std::string> SeparatorOf(const std::vector<CallPart>& parts) const;
  bool HasArgument(CallPart part) const;
  bool MayBeEmpty(CallPart part) const;
  // GBNF of the argument as the part writes it, and in one form. `json`: rule of the value as JSON.
  std::optional<std::string> Write(const ToolArgument& argument, CallPart part);
  std::optional<std::string> Write(const ToolArgument& argument, const ArgumentForm& form,
                                   const std::string& json);
  std::optional<std::string> BareText(const ToolArgument& argument, const std::string& end,
                                      const std::string& not_first);
  // Name of the rule for any text up to `end`, and `end`.
  std::string Until(const std::string& end, const std::string& not_first);
  void Replace(const Place& place, const std::string& rule);

  common_peg_arena& parser_;
  std::string rules_;
  std::map<std::string, std::string> untils_;  // names of the rules
};

}  // namespace svc
