#include "engine/llama/answer/apart_arguments.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <variant>

#include "chat-peg-parser.h"
#include "engine/llama/answer/text_until.h"
#include "json-schema-to-grammar.h"

namespace svc {
namespace {

using Builder = common_chat_peg_builder;
using Kind = FormPiece::Kind;

// Bare texts with a rule of their own have no '<', so that no closing tag begins within them.
constexpr char kTag = '<';
// Longest text that a format ignores: an attribute.
constexpr const char* kFillerLength = "{0,32}";

const std::string& LiteralOf(const common_peg_arena& parser, CallPart part) {
  return std::get<common_peg_literal_parser>(parser.get(part)).literal;
}

}  // namespace

bool ApartArguments::Follow(const Tool& tool, CallPart call) {
  if (!tool.arguments) return false;
  if (!HasArgument(call)) return tool.arguments->empty();
  const std::optional<Place> place = PlaceIn(call);
  if (!place) return false;

  // Many formats want those that are required first.
  std::vector<ToolArgument> arguments = *tool.arguments;
  std::stable_partition(arguments.begin(), arguments.end(),
                        [](const ToolArgument& argument) { return argument.required; });

  // From the last argument to the first: what follows one, and what the list is from it on.
  const std::string prefix = tool.grammar.substr(0, tool.grammar.find("root"));
  std::string rules;
  const auto add = [&](const std::string& name, const std::string& expression) {
    rules += "\n" + prefix + name + " ::= " + expression;
    return prefix + name;
  };
  std::string following = add("after", "\"\"");
  std::string list = place->may_be_empty ? following : "";
  for (std::size_t i = arguments.size(); i-- > 0;) {
    const ToolArgument& argument = arguments[i];
    const auto part = place->arguments.find(argument.name);
    if (part == place->arguments.end()) return false;
    const std::optional<std::string> text = Write(argument, part->second);
    if (!text) return false;
    const std::string number = std::to_string(i);
    const std::string written = add("a" + number, *text);
    std::string first = written + " " + following;
    std::string next = place->separator + written + " " + following;
    if (!argument.required) {
      if (!list.empty()) first += " | " + list;
      next += " | " + following;
    }
    list = add("from" + number, first);
    following = add("after" + number, next);
  }
  if (list.empty()) return false;
  rules_ += rules;
  Replace(*place, list);
  return true;
}

bool ApartArguments::HasArgument(CallPart part) const {
  bool has = false;
  VisitParts(parser_, part, [&](CallPart each) {
    has = has || TagOf(parser_, each) == Builder::TOOL_ARG;
    return !has;
  });
  return has;
}

bool ApartArguments::MayBeEmpty(CallPart part) const {
  const common_peg_parser_variant& any = parser_.get(part);
  const auto may = [this](CallPart each) { return MayBeEmpty(each); };
  if (const auto* some = std::get_if<common_peg_repetition_parser>(&any)) {
    return some->min_count == 0 || MayBeEmpty(some->child);
  }
  if (const auto* choice = std::get_if<common_peg_choice_parser>(&any)) {
    return std::any_of(choice->children.begin(), choice->children.end(), may);
  }
  if (TagOf(parser_, part) == Builder::TOOL_ARG) return false;
  const std::vector<CallPart> below = PartsBelow(parser_, part);
  if (!below.empty()) return std::all_of(below.begin(), below.end(), may);
  return std::holds_alternative<common_peg_space_parser>(any) ||
         std::holds_alternative<common_peg_epsilon_parser>(any);
}

std::optional<ApartArguments::Place> ApartArguments::PlaceIn(CallPart call) const {
  Place place;
  place.parts = {call};
  const auto is_list = [this](CallPart part) {
    return TagOf(parser_, part) == Builder::TOOL_ARG ||
           std::holds_alternative<common_peg_choice_parser>(parser_.get(part)) ||
           std::holds_alternative<common_peg_repetition_parser>(parser_.get(part));
  };
  while (place.parts.size() == 1 && !is_list(place.parts.front())) {
    const CallPart part = place.parts.front();
    const std::vector<CallPart> below = PartsBelow(parser_, part);
    const auto has = [this](CallPart each) { return HasArgument(each); };
    const auto first = std::find_if(below.begin(), below.end(), has);
    const auto last = std::find_if(below.rbegin(), below.rend(), has).base();
    place.parts.assign(first, last);
    place.sequence = part;
  }
  place.may_be_empty = std::all_of(place.parts.begin(), place.parts.end(),
                                   [this](CallPart part) { return MayBeEmpty(part); });
  const std::optional<std::string> separator = SeparatorOf(place.parts);
  if (!separator) return std::nullopt;
  place.separator = *separator;
  for (const CallPart part : place.parts) {
    VisitParts(parser_, part, [&](CallPart each) {
      if (TagOf(parser_, each) != Builder::TOOL_ARG) return true;
      const std::optional<CallPart> name = LiteralIn(parser_, each, Builder::TOOL_ARG_NAME);
      if (name) place.arguments.emplace(LiteralOf(parser_, *name), each);
      return false;
    });
  }
  return place;
}

// What a format writes between arguments: white space, and at most one text.
std::optional<std::string> ApartArguments::SeparatorOf(const std::vector<CallPart>& parts) const {
  std::set<std::string> texts;
  bool has_space = false;
  for (const CallPart part : parts) {
    VisitParts(parser_, part, [&](CallPart each) {
      if (TagOf(parser_, each) == Builder::TOOL_ARG) return false;
      has_space = has_space || std::holds_alternative<common_peg_space_parser>(parser_.get(each));
      if (std::holds_alternative<common_peg_literal_parser>(parser_.get(each))) {
        texts.insert(LiteralOf(parser_, each));
      }
      return true;
    });
  }
  if (texts.size() > 1) return std::nullopt;
  std::string separator;
  if (!texts.empty()) separator += gbnf_format_literal(*texts.begin()) + " ";
  if (has_space) separator += "space ";
  return separator;
}

std::optional<std::string> ApartArguments::Write(const ToolArgument& argument, CallPart part) {
  const std::optional<std::vector<ArgumentForm>> forms = FormsOf(parser_, part);
  if (!forms) return std::nullopt;
  const auto has = [](Kind kind) {
    return [kind](const ArgumentForm& form) { return Has(form, kind); };
  };
  const auto json = std::find_if(forms->begin(), forms->end(), has(Kind::kJson));
  const auto bare = std::find_if(forms->rbegin(), forms->rend(), has(Kind::kBare));
  if (bare == forms->rend()) {
    return json == forms->end() ? std::nullopt : Write(argument, *json, argument.json);
  }
  std::optional<std::string> text = Write(argument, *bare, "");
  if (json == forms->end()) return text;
  // The parser reads as JSON what it can, and the rest as text.
  if (!argument.text_may_be_json) return std::nullopt;
  const bool has_text = argument.any_text || !argument.text.empty();
  if (has_text && !text) return std::nullopt;
  if (argument.other.empty()) return text;
  std::optional<std::string> other = Write(argument, *json, argument.other);
  if (!other || !has_text) return other;
  return *text + " | " + *other;
}

std::optional<std::string> ApartArguments::Write(const ToolArgument& argument,
                                                 const ArgumentForm& form,
                                                 const std::string& json) {
  std::string written;
  std::string not_first;
  for (std::size_t i = 0; i < form.size(); ++i) {
    const auto& [kind, text] = form[i];
    switch (kind) {
      case Kind::kText:
        written += gbnf_format_literal(text) + " ";
        break;
      case Kind::kSpace:
        written += "space ";
        break;
      case Kind::kFiller:
        written += NoneOf(text) + kFillerLength + " ";
        break;
      case Kind::kNot:
        not_first = text;
        break;
      case Kind::kJson:
        if (!text.empty() && !argument.scalar) return std::nullopt;
        written += json + " ";
        break;
      case Kind::kBare: {
        // The text ends with what the format writes next.
        if (++i == form.size() || form[i].kind != Kind::kText) return std::nullopt;
        const std::optional<std::string> bare = BareText(argument, form[i].text, not_first);
        if (!bare) return std::nullopt;
        written += *bare + " ";
        break;
      }
    }
  }
  return written;
}

std::optional<std::string> ApartArguments::BareText(const ToolArgument& argument,
                                                    const std::string& end,
                                                    const std::string& not_first) {
  if (argument.any_text) return Until(end, not_first);
  const bool is_safe =
      end.find(kTag) != std::string::npos && (not_first.empty() || not_first.front() == kTag);
  if (argument.text.empty() || !is_safe) return std::nullopt;
  return argument.text + " " + gbnf_format_literal(end);
}

std::string ApartArguments::Until(const std::string& end, const std::string& not_first) {
  const auto [known, is_new] =
      untils_.try_emplace(end + '\0' + not_first, "text-until-" + std::to_string(untils_.size()));
  if (is_new) rules_ += TextUntil(known->second, end, not_first);
  return known->second;
}

void ApartArguments::Replace(const Place& place, const std::string& rule) {
  const CallPart first = place.parts.front();
  if (place.parts.size() > 1) {
    auto& parts = std::get<common_peg_sequence_parser>(parser_.get(*place.sequence)).children;
    const auto begin = std::find(parts.begin(), parts.end(), first);
    parts.erase(begin + 1, begin + static_cast<std::ptrdiff_t>(place.parts.size()));
  }
  // The name literal has no child parts, so the rule is attached there.
  const CallPart name =
      *LiteralIn(parser_, place.arguments.begin()->second, Builder::TOOL_ARG_NAME);
  parser_.get(first) = common_peg_gbnf_parser{name, rule};
}

}  // namespace svc
