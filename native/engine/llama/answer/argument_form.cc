#include "engine/llama/answer/argument_form.h"

#include <algorithm>
#include <string_view>
#include <variant>

#include "chat-peg-parser.h"

namespace svc {
namespace {

using Builder = common_chat_peg_builder;
using Forms = std::vector<ArgumentForm>;
using Kind = FormPiece::Kind;

// Formats have one to four forms of an argument.
constexpr std::size_t kMaxForms = 16;
constexpr int kMaxFormDepth = 64;

std::optional<Forms> One(FormPiece piece) { return Forms{{std::move(piece)}}; }
std::optional<Forms> Nothing() { return Forms{{}}; }

class FormReader {
 public:
  explicit FormReader(const common_peg_arena& parser) : parser_(parser) {}

  std::optional<Forms> Read(CallPart part, int depth = 0) const {
    if (depth > kMaxFormDepth) return std::nullopt;
    const common_peg_parser_variant& any = parser_.get(part);
    if (const auto* literal = std::get_if<common_peg_literal_parser>(&any)) {
      return One({.kind = Kind::kText, .text = literal->literal});
    }
    if (std::holds_alternative<common_peg_space_parser>(any)) return One({.kind = Kind::kSpace});
    if (const auto* until = std::get_if<common_peg_until_parser>(&any)) {
      if (until->delimiters.size() != 1) return std::nullopt;
      return One({.kind = Kind::kFiller, .text = until->delimiters.front()});
    }
    if (const auto* other = std::get_if<common_peg_not_parser>(&any)) return Not(other->child);
    if (const auto* choice = std::get_if<common_peg_choice_parser>(&any)) {
      return Choice(choice->children, depth);
    }
    if (const auto* some = std::get_if<common_peg_repetition_parser>(&any)) {
      // What may be left out is left out, except for white space, to which models are used.
      const bool is_space =
          std::holds_alternative<common_peg_space_parser>(parser_.get(some->child));
      return is_space               ? One({.kind = Kind::kSpace})
             : some->min_count == 0 ? Nothing()
                                    : std::nullopt;
    }
    if (std::holds_alternative<common_peg_and_parser>(any)) return Nothing();
    const std::string_view tag = TagOf(parser_, part);
    if (tag == Builder::TOOL_ARG_STRING_VALUE) return One({.kind = Kind::kBare});
    if (tag == Builder::TOOL_ARG_VALUE) return Json(PartsBelow(parser_, part).front());
    if (tag == Builder::TOOL_ARG && depth > 0) return std::nullopt;
    return Sequence(any, part, depth);
  }

 private:
  // Also for parts with one part below, and with none.
  std::optional<Forms> Sequence(const common_peg_parser_variant& any, CallPart part,
                                int depth) const {
    const std::vector<CallPart> below = PartsBelow(parser_, part);
    if (below.empty() && !std::holds_alternative<common_peg_epsilon_parser>(any) &&
        !std::holds_alternative<common_peg_sequence_parser>(any)) {
      return std::nullopt;
    }
    Forms all = {{}};
    for (const CallPart each : below) {
      const std::optional<Forms> next = Read(each, depth + 1);
      if (!next || all.size() * next->size() > kMaxForms) return std::nullopt;
      Forms longer;
      for (const ArgumentForm& before : all) {
        for (const ArgumentForm& after : *next) {
          longer.push_back(before);
          longer.back().insert(longer.back().end(), after.begin(), after.end());
        }
      }
      all = std::move(longer);
    }
    return all;
  }

  std::optional<Forms> Choice(const std::vector<CallPart>& parts, int depth) const {
    Forms all;
    for (const CallPart part : parts) {
      const std::optional<Forms> forms = Read(part, depth + 1);
      if (!forms) return std::nullopt;
      all.insert(all.end(), forms->begin(), forms->end());
    }
    return all;
  }

  std::optional<Forms> Json(CallPart value) const {
    const auto* until = std::get_if<common_peg_until_parser>(&parser_.get(value));
    if (until == nullptr) return One({.kind = Kind::kJson});
    if (until->delimiters.size() != 1) return std::nullopt;
    return One({.kind = Kind::kJson, .text = until->delimiters.front()});
  }

  std::optional<Forms> Not(CallPart part) const {
    const auto* literal = std::get_if<common_peg_literal_parser>(&parser_.get(part));
    if (literal == nullptr) return std::nullopt;
    return One({.kind = Kind::kNot, .text = literal->literal});
  }

  const common_peg_arena& parser_;
};

}  // namespace

std::optional<Forms> FormsOf(const common_peg_arena& parser, CallPart part) {
  return FormReader(parser).Read(part);
}

bool Has(const ArgumentForm& form, Kind kind) {
  return std::any_of(form.begin(), form.end(),
                     [&](const FormPiece& piece) { return piece.kind == kind; });
}

}  // namespace svc
