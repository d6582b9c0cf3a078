// Walks through parsers of answers, compared with a plain recursion; which part reads the calls of
// which tool.
#include "engine/llama/answer/call_parts.h"

#include <algorithm>
#include <random>

#include "chat-peg-parser.h"
#include "test.h"

namespace svc {
namespace {

using Builder = common_chat_peg_builder;
using Parts = std::vector<CallPart>;

void Recurse(const common_peg_arena& parser, CallPart part, CallPart leaf, Parts* visited) {
  if (std::find(visited->begin(), visited->end(), part) != visited->end()) return;
  visited->push_back(part);
  if (part == leaf) return;
  for (const CallPart each : PartsBelow(parser, part)) Recurse(parser, each, leaf, visited);
}

std::string TextOf(const common_peg_arena& parser, std::optional<CallPart> literal) {
  return literal ? std::get<common_peg_literal_parser>(parser.get(*literal)).literal : "none";
}

bool Reads(const common_peg_arena& parser, CallPart part, const std::string& text) {
  common_peg_parse_context context(text);
  const common_peg_parse_result result = parser.parse(part, context, 0);
  return result.success() && result.end == text.size();
}

TEST(EachKindOfPartHasTheOnesBelowIt) {
  Builder p;
  const CallPart a = p.literal("a");
  const auto b = p.until("b");
  const Parts without = {a, b, p.eps(), p.space(), p.sequence()};
  const Parts with_one = {
      p.optional(b),  p.one_or_more(b), p.peek(b),
      p.negate(b),    p.atomic(b),      p.tag("t", b),
      p.gbnf(b, "x"), p.ac(b, "b"),     p.schema(b, "s", common_json::parse("{}"))};
  const CallPart sequence = p.sequence(Parts{a, b, a});
  const CallPart choice = p.choice(Parts{b, a});
  p.set_root(p.rule("r", b));
  const common_peg_arena parser = p.build();
  for (const CallPart part : without) EXPECT(PartsBelow(parser, part).empty());
  for (const CallPart part : with_one) EXPECT(PartsBelow(parser, part) == Parts{b});
  EXPECT((PartsBelow(parser, sequence) == Parts{a, b, a}));
  EXPECT((PartsBelow(parser, choice) == Parts{b, a}));
  EXPECT(PartsBelow(parser, parser.root()) == Parts{b});
}

// In parsers in which parts are shared, and contain themselves.
TEST(EachPartIsVisitedOnceTheFirstBelowFirst) {
  std::mt19937 random(1);
  std::size_t longest = 0;
  for (int round = 0; round < 500; ++round) {
    Builder p;
    Parts made = {p.literal("x")};
    const auto pick = [&] { return made[random() % made.size()]; };
    p.set_root(p.rule("loop", [&] {
      while (made.size() < 20) {
        const Parts below = {pick(), pick(), p.ref("loop")};
        const auto kind = random() % 3;
        made.push_back(kind == 0   ? p.choice(below)
                       : kind == 1 ? p.sequence(below)
                                   : p.tag("t", common_peg_parser(pick(), p)));
      }
      return common_peg_parser(made.back(), p);
    }));
    const CallPart leaf = pick();
    const common_peg_arena parser = p.build();
    for (const CallPart root : {parser.root(), pick(), leaf}) {
      Parts expected;
      Recurse(parser, root, leaf, &expected);
      Parts visited;
      VisitParts(parser, root, [&](CallPart part) {
        visited.push_back(part);
        return part != leaf;
      });
      EXPECT(visited == expected);
      longest = std::max(longest, visited.size());
    }
  }
  EXPECT(longest > 10);
}

TEST(ALiteralIsFoundByTheTagAboveIt) {
  Builder p;
  const auto name = p.tag("name", p.sequence({p.space(), p.literal("first"), p.literal("no")}));
  const auto empty = p.tag("empty", p.space());
  const auto root = p.sequence({p.literal("no"), p.optional(empty), p.atomic(name), p.literal("no"),
                                p.tag("name", p.literal("second"))});
  p.set_root(root);
  const common_peg_arena parser = p.build();
  EXPECT_EQ(TagOf(parser, name), "name");
  EXPECT_EQ(TagOf(parser, root), "");
  EXPECT_EQ(TextOf(parser, LiteralIn(parser, root, "name")), "first");
  EXPECT_EQ(TextOf(parser, LiteralIn(parser, name, "name")), "first");
  EXPECT_EQ(TextOf(parser, LiteralIn(parser, root, "empty")), "none");
  EXPECT_EQ(TextOf(parser, LiteralIn(parser, root, "other")), "none");
  EXPECT_EQ(TextOf(parser, LiteralIn(parser, empty, "name")), "none");
}

// Some formats tag a call, some its end, some both.
TEST(EachToolHasThePartThatReadsItsCalls) {
  for (const std::string tags : {"call", "end", "call, end"}) {
    Builder p;
    const auto call = [&](const std::string& name) {
      const auto end = p.literal("</f>");
      const auto text = p.sequence({p.tool_open(p.literal("<f=") + p.tool_name(p.literal(name))),
                                    p.literal(">"), p.tool_args(p.until("</f>")),
                                    tags.ends_with("end") ? p.tool_close(end) : end});
      return tags.starts_with("call") ? p.tool(text) : p.atomic(text);
    };
    const CallPart unused = call("unused");
    const auto calls = p.choice({call("sun"), p.rule("call", call("moon"))});
    p.set_root(p.content(p.until("<f")) + p.one_or_more(calls + p.space()));
    const common_peg_arena parser = p.build();
    EXPECT(Reads(parser, unused, "<f=unused></f>"));
    const std::map<std::string, CallPart> found = CallsOf(parser);
    REQUIRE(found.size() == 2 && found.contains("sun") && found.contains("moon"));
    for (const auto& [name, part] : found) {
      EXPECT(Reads(parser, part, "<f=" + name + ">x</f>"));
      EXPECT(!Reads(parser, part, name == "sun" ? "<f=moon>x</f>" : "<f=sun>x</f>"));
      EXPECT(!Reads(parser, part, "<f=" + name + ">x</f> "));
    }
  }
}

TEST(ATextWithoutANameOrAnEndIsNoCall) {
  for (const bool has_name : {false, true}) {
    Builder p;
    const auto name = has_name ? p.literal("sun") : p.until(":");
    p.set_root(p.sequence({p.tool_name(name), has_name ? p.space() : p.tool_close(p.space())}));
    EXPECT(CallsOf(p.build()).empty());
  }
}

TEST(AParserRefusesATextOrWaitsForMore) {
  const common_peg_arena parser =
      build_chat_peg_parser([](Builder& p) { return p.literal("a") + "bc" + p.end(); });
  EXPECT(!RefusedAt(parser, "") && !RefusedAt(parser, "ab") && !RefusedAt(parser, "abc"));
  EXPECT_EQ(RefusedAt(parser, "abd").value_or(0), std::size_t{1});
  EXPECT_EQ(RefusedAt(parser, "abcd").value_or(0), std::size_t{3});
}

}  // namespace
}  // namespace svc

TEST_MAIN()
