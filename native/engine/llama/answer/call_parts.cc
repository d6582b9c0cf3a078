#include "engine/llama/answer/call_parts.h"

#include <set>
#include <type_traits>
#include <variant>

#include "chat-peg-parser.h"

namespace svc {
namespace {

template <typename Part>
concept HasChildren = requires(const Part& part) {
  part.children;
};
template <typename Part>
concept HasChild = requires(const Part& part) {
  part.child;
};

using Builder = common_chat_peg_builder;

bool IsLiteral(const common_peg_arena& parser, CallPart part) {
  return std::holds_alternative<common_peg_literal_parser>(parser.get(part));
}

bool HasEnd(const common_peg_arena& parser, CallPart part) {
  bool has = false;
  VisitParts(parser, part, [&](CallPart each) {
    has = has || TagOf(parser, each) == Builder::TOOL_CLOSE;
    return !has;
  });
  return has;
}

}  // namespace

std::vector<CallPart> PartsBelow(const common_peg_arena& parser, CallPart part) {
  return std::visit(
      [&](const auto& each) -> std::vector<CallPart> {
        using Part = std::decay_t<decltype(each)>;
        if constexpr (HasChildren<Part>) {
          return each.children;
        } else if constexpr (HasChild<Part>) {
          return {each.child};
        } else {
          return {};
        }
      },
      parser.get(part));
}

void VisitParts(const common_peg_arena& parser, CallPart root,
                const std::function<bool(CallPart)>& visit) {
  std::set<CallPart> seen;
  std::vector<CallPart> open = {root};
  while (!open.empty()) {
    const CallPart part = open.back();
    open.pop_back();
    if (!seen.insert(part).second || !visit(part)) continue;
    const std::vector<CallPart> below = PartsBelow(parser, part);
    open.insert(open.end(), below.rbegin(), below.rend());  // the first is visited first
  }
}

std::string_view TagOf(const common_peg_arena& parser, CallPart part) {
  const auto* tag = std::get_if<common_peg_tag_parser>(&parser.get(part));
  return tag != nullptr ? std::string_view(tag->tag) : std::string_view();
}

std::optional<CallPart> LiteralIn(const common_peg_arena& parser, CallPart root,
                                  std::string_view tag) {
  std::optional<CallPart> tagged;
  VisitParts(parser, root, [&](CallPart part) {
    if (!tagged && TagOf(parser, part) == tag) tagged = part;
    return !tagged;
  });
  std::optional<CallPart> literal;
  if (!tagged) return literal;
  VisitParts(parser, *tagged, [&](CallPart part) {
    if (!literal && IsLiteral(parser, part)) literal = part;
    return !literal;
  });
  return literal;
}

std::optional<std::size_t> RefusedAt(const common_peg_arena& parser, const std::string& text) {
  common_peg_parse_context context(text, COMMON_PEG_PARSE_FLAG_LENIENT);
  const common_peg_parse_result result = parser.parse(context);
  return result.fail() ? std::optional(result.end) : std::nullopt;
}

std::map<std::string, CallPart> CallsOf(const common_peg_arena& parser) {
  // Only from the root: the arena also has parts of which others were made.
  std::map<CallPart, CallPart> above;
  std::vector<CallPart> names;
  VisitParts(parser, parser.root(), [&](CallPart part) {
    for (const CallPart each : PartsBelow(parser, part)) above.emplace(each, part);
    if (TagOf(parser, part) == Builder::TOOL_NAME) names.push_back(part);
    return true;
  });
  std::map<std::string, CallPart> calls;
  for (const CallPart part : names) {
    const std::optional<CallPart> name = LiteralIn(parser, part, Builder::TOOL_NAME);
    if (!name) continue;
    // Some formats tag a call; otherwise the call is the nearest ancestor with a name and an end.
    std::optional<CallPart> call = part;
    while (call && TagOf(parser, *call) != Builder::TOOL && !HasEnd(parser, *call)) {
      const auto found = above.find(*call);
      call = found == above.end() ? std::nullopt : std::optional(found->second);
    }
    if (call) calls.emplace(std::get<common_peg_literal_parser>(parser.get(*name)).literal, *call);
  }
  return calls;
}

}  // namespace svc
