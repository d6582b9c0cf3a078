// Forms of one argument, of parsers made by hand: texts, white space, values, and choices of them.
#include "engine/llama/answer/argument_form.h"

#include <algorithm>

#include "chat-peg-parser.h"
#include "test.h"

namespace svc {
namespace {

using Builder = common_chat_peg_builder;
using Kind = FormPiece::Kind;

std::string Show(const ArgumentForm& form) {
  std::string shown;
  for (const FormPiece& piece : form) {
    const char* const kinds[] = {"", "space", "filler", "json", "bare", "not"};
    shown += shown.empty() ? "" : " ";
    shown += kinds[static_cast<std::size_t>(piece.kind)];
    if (piece.kind == Kind::kText || !piece.text.empty()) shown += "'" + piece.text + "'";
  }
  return shown;
}

// The forms of the part that `make` builds, one after the other.
template <typename Make>
std::string Forms(Make make) {
  Builder p;
  p.set_root(make(p));
  const common_peg_arena parser = p.build();
  const std::optional<std::vector<ArgumentForm>> forms = FormsOf(parser, parser.root());
  if (!forms) return "absent";
  std::string shown;
  for (const ArgumentForm& form : *forms) shown += (shown.empty() ? "" : " | ") + Show(form);
  return shown;
}

TEST(APartThatReadsOneThingHasOneForm) {
  EXPECT_EQ(Forms([](Builder& p) { return p.literal("<a>"); }), "'<a>'");
  EXPECT_EQ(Forms([](Builder& p) { return p.space(); }), "space");
  EXPECT_EQ(Forms([](Builder& p) { return p.until(">"); }), "filler'>'");
  EXPECT_EQ(Forms([](Builder& p) { return p.negate(p.literal("<!")); }), "not'<!'");
  EXPECT_EQ(Forms([](Builder& p) { return p.tool_arg_string_value(p.until("<")); }), "bare");
  EXPECT_EQ(Forms([](Builder& p) { return p.tool_arg_value(p.json()); }), "json");
  EXPECT_EQ(Forms([](Builder& p) { return p.tool_arg_value(p.until("</a>")); }), "json'</a>'");
  EXPECT_EQ(Forms([](Builder& p) { return p.eps(); }), "");
  EXPECT_EQ(Forms([](Builder& p) { return p.peek(p.literal("x")); }), "");
}

TEST(WhatMayBeLeftOutIsLeftOutExceptForWhiteSpace) {
  EXPECT_EQ(Forms([](Builder& p) { return p.optional(p.literal("x")); }), "");
  EXPECT_EQ(Forms([](Builder& p) { return p.zero_or_more(p.any()); }), "");
  EXPECT_EQ(Forms([](Builder& p) { return p.optional(p.space()); }), "space");
  EXPECT_EQ(Forms([](Builder& p) { return p.one_or_more(p.space()); }), "space");
}

TEST(PartsInARowAreWrittenInTheirOrder) {
  EXPECT_EQ(Forms([](Builder& p) {
              return p.tool_arg(p.tool_arg_open(p.literal("<a=")) +
                                p.tool_arg_name(p.literal("n")) + p.until(">") + ">" + p.space() +
                                p.tool_arg_string_value(p.until("</a>")) +
                                p.tool_arg_close(p.literal("</a>")));
            }),
            "'<a=' 'n' filler'>' '>' space bare '</a>'");
  EXPECT_EQ(Forms([](Builder& p) { return p.rule("r", p.atomic(p.tag("t", p.literal("x")))); }),
            "'x'");
}

TEST(FormsComeInTheOrderInWhichTheyAreTried) {
  EXPECT_EQ(Forms([](Builder& p) {
              return p.choice({p.literal("a"), p.literal("b")}) + p.space() +
                     p.choice({p.tool_arg_value(p.json()), p.literal("c"), p.eps()});
            }),
            "'a' space json | 'a' space 'c' | 'a' space | "
            "'b' space json | 'b' space 'c' | 'b' space");
}

TEST(WhatCannotBeWrittenInThisWayHasNoForm) {
  EXPECT_EQ(Forms([](Builder& p) { return p.any(); }), "absent");
  EXPECT_EQ(Forms([](Builder& p) { return p.chars("[a-z]"); }), "absent");
  EXPECT_EQ(Forms([](Builder& p) { return p.rest(); }), "absent");
  EXPECT_EQ(Forms([](Builder& p) { return p.until_one_of({"a", "b"}); }), "absent");
  EXPECT_EQ(Forms([](Builder& p) {
              return p.tool_arg_value(p.until_one_of({"a", "b"}));
            }),
            "absent");
  EXPECT_EQ(Forms([](Builder& p) { return p.one_or_more(p.literal("x")); }), "absent");
  EXPECT_EQ(Forms([](Builder& p) { return p.negate(p.space()); }), "absent");
  // In a row and in a choice.
  EXPECT_EQ(Forms([](Builder& p) { return p.literal("x") + p.any(); }), "absent");
  EXPECT_EQ(Forms([](Builder& p) { return p.literal("x") | p.any(); }), "absent");
}

TEST(AnArgumentInAnArgumentHasNoForm) {
  EXPECT_EQ(Forms([](Builder& p) { return p.tool_arg(p.literal("x")); }), "'x'");
  EXPECT_EQ(Forms([](Builder& p) { return p.tool_arg(p.tool_arg(p.literal("x"))); }), "absent");
  EXPECT_EQ(Forms([](Builder& p) {
              return p.rule("value", [&] { return p.literal("(") + p.ref("value"); });
            }),
            "absent");
}

TEST(TooManyFormsAreNone) {
  const auto forms = [](int rows) {
    return Forms([rows](Builder& p) {
      auto row = p.sequence();
      for (int i = 0; i < rows; ++i) row += p.choice({p.literal("a"), p.literal("b")});
      return row;
    });
  };
  const std::string most = forms(4);
  EXPECT_EQ(std::count(most.begin(), most.end(), '|'), 15);
  EXPECT_EQ(forms(5), "absent");
}

TEST(AFormHasTheKindsOfItsPieces) {
  const ArgumentForm form = {{.kind = Kind::kSpace}, {.kind = Kind::kBare}};
  EXPECT(Has(form, Kind::kSpace) && Has(form, Kind::kBare));
  EXPECT(!Has(form, Kind::kText) && !Has(form, Kind::kJson) && !Has({}, Kind::kSpace));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
