// Variables and members read without copies: of every kind of value, the interpreter reads the same
// or reports the same error.
#include "engine/llama/jinja/direct_lookup.h"

#include <exception>
#include <string>
#include <vector>

#include "rendered.h"
#include "test.h"

namespace svc {
namespace {

using jinja::mk_val;
using jinja::statement_ptr;
using jinja::value;
using test::Dictionary;
using test::List;
using test::Number;
using test::Text;

// The names of variables; "absent" is none.
const std::vector<std::string> kVariables = {
    "absent", "none",      "true",   "number", "text",  "list",  "object", "range", "null",
    "False",  "namespace", "Number", "",       "upper", "items", "method", "unset"};
const std::vector<std::string> kMembers = {"absent", "a",    "items", "get",    "keys",
                                           "upper",  "none", "split", "length", "append",
                                           "x",      "pop",  "",      "default"};

jinja::context Context() {
  jinja::context context;
  const value object = Dictionary({{"a", Number(1)},
                                   {"items", Text("a key with the name of a method")},
                                   {"none", mk_val<jinja::value_none>()},
                                   {"x", mk_val<jinja::value_undefined>("another name")}});
  context.set_val("number", Number(3));
  context.set_val("text", Text("Some text"));
  context.set_val("list", List({Number(1), Text("x")}));
  context.set_val("object", object);
  context.set_val("range", Text("a variable with the name of a function"));
  context.set_val("null", mk_val<jinja::value_none>());
  context.set_val("unset", mk_val<jinja::value_undefined>("another name"));
  context.set_val("method",
                  mk_val<jinja::value_func>("get", object->get_builtins().at("get"), object));
  return context;
}

// What a node reads: its type and text, or the error.
std::string Read(const statement_ptr& node, jinja::context& context) {
  try {
    const value read = node->execute(context);
    return read->type() + ": " +
           (jinja::is_val<jinja::value_none>(read) ? "none" : read->as_repr());
  } catch (const std::exception& error) {
    return std::string("error: ") + error.what();
  }
}

statement_ptr NodeOf(const std::string& variable) {
  statement_ptr node = std::make_unique<jinja::identifier>(variable);
  node->pos = 0;  // as the parser does
  return node;
}
statement_ptr NodeOf(const std::string& variable, const std::string& member) {
  statement_ptr node = std::make_unique<jinja::member_expression>(NodeOf(variable), NodeOf(member),
                                                                  /*computed=*/false);
  node->pos = 0;
  return node;
}

template <typename... Names>
void ExpectSame(const Names&... names) {
  jinja::context context = Context();
  const std::string plain = Read(NodeOf(names...), context);
  const std::string direct = Read(WithDirectLookup(NodeOf(names...)), context);
  if (direct != plain) test::Fail(__FILE__, __LINE__, direct + " is read in place of " + plain);
}

TEST(EveryVariableIsReadTheSame) {
  for (const std::string& variable : kVariables) ExpectSame(variable);
}

TEST(EveryMemberIsReadTheSame) {
  for (const std::string& variable : kVariables) {
    for (const std::string& member : kMembers) ExpectSame(variable, member);
  }
}

TEST(FunctionsAndMethodsAreBound) {
  const std::string calls = "{{ range(3) | join }} {{ text.upper() }} {{ object.get('a') }}";
  const value variables =
      Dictionary({{"text", Text("t")}, {"object", Dictionary({{"a", Number(5)}})}});
  jinja::program program = test::ParseProgram(calls);
  const std::string plain = test::Rendered(program, variables);
  for (statement_ptr& node : program.body) {
    if (auto* call = dynamic_cast<jinja::call_expression*>(node.get())) {
      call->callee = WithDirectLookup(std::move(call->callee));
    }
  }
  EXPECT_EQ(plain, "012 T 5");
  EXPECT_EQ(test::Rendered(program, variables), plain);
}

// llama.cpp learns from the values that a template reads which features it supports.
TEST(WhatIsReadIsCounted) {
  for (const bool is_direct : {false, true}) {
    jinja::context context = Context();
    context.is_get_stats = true;
    statement_ptr variable = NodeOf("text");
    statement_ptr member = NodeOf("object", "a");
    if (is_direct) variable = WithDirectLookup(std::move(variable));
    if (is_direct) member = WithDirectLookup(std::move(member));
    EXPECT(!context.get_val("text")->stats.used);
    (void)variable->execute(context);
    EXPECT(context.get_val("text")->stats.used);
    const value read = member->execute(context);
    EXPECT(read->stats.used);
    EXPECT(context.get_val("object")->stats.ops.contains("object_access"));
  }
}

TEST(OtherNodesStay) {
  const auto stays = [](statement_ptr node) {
    const jinja::statement* before = node.get();
    return WithDirectLookup(std::move(node)).get() == before;
  };
  EXPECT(stays(std::make_unique<jinja::integer_literal>(1)));
  EXPECT(stays(std::make_unique<jinja::member_expression>(NodeOf("list"), NodeOf("number"),
                                                          /*computed=*/true)));
  EXPECT(stays(std::make_unique<jinja::member_expression>(
      NodeOf("list"), std::make_unique<jinja::integer_literal>(0), /*computed=*/false)));
}

TEST(ErrorsNameTheNode) {
  statement_ptr node = NodeOf("object", "a");
  node->pos = 7;
  const std::string type = node->type();
  const statement_ptr direct = WithDirectLookup(std::move(node));
  EXPECT_EQ(direct->pos, 7U);
  EXPECT_EQ(direct->type(), type);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
