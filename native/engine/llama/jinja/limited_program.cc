#include "engine/llama/jinja/limited_program.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/work_limit.h"
#include "engine/llama/jinja/direct_lookup.h"
#include "engine/llama/jinja/limited_builtins.h"
#include "engine/llama/jinja/template_value.h"
#include "engine/llama/jinja/value_keeper.h"

namespace svc {
namespace {

using jinja::statement;
using jinja::statement_ptr;
using jinja::value;

// Memory of an iteration's or a call's own variables.
constexpr double kScopeBytes = 8192;
// Work of copying one variable into the scope of an iteration, as if these bytes were moved.
constexpr double kVariableBytes = 4096;
// Shorter literals are not worth a check.
constexpr std::size_t kShortText = 256;

// Filters of which the interpreter turns the operand into text.
constexpr std::array<std::string_view, 8> kFiltersOfText = {
    "capitalize", "lower", "replace", "strip", "title", "trim", "upper", "wordcount"};

// Runs at the start of each iteration of a `{% for %}` and each call of a `{% macro %}`. Writes
// nothing.
struct LimitStatement final : statement {
  // `made`: the variable that the interpreter makes for the scope, "loop" or "caller".
  explicit LimitStatement(const char* made) : made(made) {}
  std::string type() const override { return "Limit"; }
  value execute_impl(jinja::context& context) const override {
    RequireMemory(kScopeBytes);
    ValueKeeper::KeepItems(context.get_val(made));
    return jinja::mk_val<jinja::value_undefined>();
  }
  const char* made;
};

// Stands for another node, which it executes.
struct Limited : jinja::expression {
  explicit Limited(statement_ptr node) : inner(std::move(node)) { pos = inner->pos; }
  std::string type() const override { return inner->type(); }
  void visit(jinja::context& context) const override { inner->visit(context); }
  statement_ptr inner;
};

struct LimitedOutput final : Limited {
  using Limited::Limited;
  value execute_impl(jinja::context& context) const override {
    value written = inner->execute(context);
    // Objects write nothing.
    if (!jinja::is_val<jinja::value_object>(written) &&
        !WorkLimit::MayOutput(RequireBounded(written).bytes)) {
      RequireMemory(0);
    }
    return written;
  }
};

struct LimitedLiteral final : Limited {
  using Limited::Limited;
  value execute_impl(jinja::context& context) const override {
    value made = inner->execute(context);
    RequireMemory(TextBytes(made) + (1 + 2 * ItemsOf(made)) * kValueBytes);
    ValueKeeper::Keep(made);
    return made;
  }
};

// The object of which a `{% set %}` changes a member.
struct LimitedTarget final : Limited {
  using Limited::Limited;
  value execute_impl(jinja::context& context) const override {
    value changed = inner->execute(context);
    ValueKeeper::Keep(changed);
    return changed;
  }
};

// The operand of a filter that turns it into text.
struct LimitedText final : Limited {
  using Limited::Limited;
  value execute_impl(jinja::context& context) const override {
    value written = inner->execute(context);
    if (!jinja::is_val<jinja::value_string>(written)) {
      RequireMemory(RequireBounded(written).bytes);
    }
    return written;
  }
};

// Hashing a key follows all that it contains.
struct LimitedKey final : Limited {
  using Limited::Limited;
  value execute_impl(jinja::context& context) const override {
    value key = inner->execute(context);
    if (ItemsOf(key) > 0) (void)RequireBounded(key);
    return key;
  }
};

// Each iteration of a loop starts with copies of all variables, before anything in its body runs.
struct LimitedIterable final : Limited {
  LimitedIterable(statement_ptr node, std::size_t variables)
      : Limited(std::move(node)), variables(static_cast<double>(variables)) {}
  value execute_impl(jinja::context& context) const override {
    value iterated = inner->execute(context);
    RequireMemory(ItemsOf(iterated) * kValueBytes);
    RequireMoves(ItemsOf(iterated) * variables * kVariableBytes);
    return iterated;
  }
  double variables;
};

// An operator that uses both of its operands.
struct LimitedBinary final : Limited {
  using Limited::Limited;

  value execute_impl(jinja::context& context) const override {
    const auto& operation = static_cast<const jinja::binary_expression&>(*inner);
    value left = operation.left->execute(context);
    value right = operation.right->execute(context);
    if (WorkLimit::IsInForce()) Check(operation.op.value, left, right);
    const jinja::binary_expression known(operation.op, std::make_unique<Known>(std::move(left)),
                                         std::make_unique<Known>(std::move(right)));
    value made = known.execute_impl(context);
    ValueKeeper::Keep(made);
    return made;
  }

 private:
  static void Check(const std::string& op, const value& left, const value& right) {
    if (op == "*") {
      RequireMemory(std::max(Repeated(left, right), Repeated(right, left)));
    } else if (op == "+" || op == "~") {
      Concatenate(left, right);
    } else if (op == "in" || op == "not in") {
      CheckMembership(left, right);
    } else if (op == "==" || op == "!=") {
      RequireMoves(RequireBounded(left).bytes + RequireBounded(right).bytes);
    }
  }

  static double Repeated(const value& text, const value& count) {
    if (!jinja::is_val<jinja::value_string>(text) || !jinja::is_val<jinja::value_int>(count)) {
      return 0;
    }
    // An empty text costs the time of its repetitions.
    return std::max(TextBytes(text), 1.0) * static_cast<double>(count->as_int());
  }

  static void Concatenate(const value& left, const value& right) {
    const bool is_list =
        jinja::is_val<jinja::value_array>(left) && jinja::is_val<jinja::value_array>(right);
    RequireMemory(is_list ? kValueBytes + (ItemsOf(left) + ItemsOf(right)) * sizeof(value)
                          : kValueBytes + RequireBounded(left).bytes + RequireBounded(right).bytes);
  }
};

class Limiter {
 public:
  explicit Limiter(jinja::program* program) {
    // Variables are made by `set`, loops and macros.
    variables_ = CountVariables(*program);
    Body(&program->body);
  }

 private:
  static std::size_t CountVariables(const jinja::program& program) {
    std::size_t count = 0;
    jinja::context context;
    context.visitor = [&](bool /*is_leaf*/, const statement* visited,
                          const std::vector<jinja::visitor_pair>& children) {
      if (dynamic_cast<const jinja::set_statement*>(visited) != nullptr ||
          dynamic_cast<const jinja::for_statement*>(visited) != nullptr ||
          dynamic_cast<const jinja::macro_statement*>(visited) != nullptr) {
        ++count;
      }
      for (const auto& [label, group] : children) {
        for (const statement* child : group) {
          if (child != nullptr) child->visit(context);
        }
      }
    };
    for (const statement_ptr& each : program.body) each->visit(context);
    return count + kVariablesOfChat;
  }

  static constexpr std::size_t kVariablesOfChat = 32;

  template <typename Node>
  static Node* As(const statement_ptr& node) {
    return dynamic_cast<Node*>(node.get());
  }

  template <typename Node, typename... Arguments>
  static void Replace(statement_ptr* node, Arguments... arguments) {
    *node = std::make_unique<Node>(std::move(*node), arguments...);
  }

  static bool WritesItself(const statement_ptr& node) {
    return As<jinja::if_statement>(node) == nullptr && As<jinja::for_statement>(node) == nullptr &&
           As<jinja::set_statement>(node) == nullptr && As<jinja::macro_statement>(node) == nullptr;
  }

  void Body(jinja::statements* body) {
    for (statement_ptr& each : *body) {
      Slot(&each);
      if (WritesItself(each)) Replace<LimitedOutput>(&each);
    }
  }

  void LimitedBody(jinja::statements* body, const char* made) {
    Body(body);
    auto limit = std::make_unique<LimitStatement>(made);
    limit->pos = body->empty() ? 0 : body->front()->pos;
    body->insert(body->begin(), std::move(limit));
  }

  void Slots(jinja::statements* nodes) {
    for (statement_ptr& each : *nodes) Slot(&each);
  }

  // Limits a node of any type whose value is used.
  void Slot(statement_ptr* node) {
    if (*node == nullptr) return;
    Inside(*node);
    if (const auto* operation = As<jinja::binary_expression>(*node)) {
      if (operation->op.value != "and" && operation->op.value != "or") {
        Replace<LimitedBinary>(node);
      }
    } else if (IsLargeLiteral(*node)) {
      Replace<LimitedLiteral>(node);
    } else {
      *node = WithDirectLookup(std::move(*node));
    }
  }

  static bool WritesOperand(const statement_ptr& filter) {
    const auto* name = As<jinja::identifier>(filter);
    return name != nullptr && std::find(kFiltersOfText.begin(), kFiltersOfText.end(), name->val) !=
                                  kFiltersOfText.end();
  }

  static bool IsLargeLiteral(const statement_ptr& node) {
    if (const auto* text = As<jinja::string_literal>(node)) return text->val.size() > kShortText;
    return As<jinja::array_literal>(node) != nullptr || As<jinja::tuple_literal>(node) != nullptr ||
           As<jinja::object_literal>(node) != nullptr;
  }

  // Limits the nodes in `node`. The interpreter looks at the type of some of them, such as names,
  // filters and loop variables; those stay as they are.
  void Inside(const statement_ptr& node) {
    if (!InsideStatement(node)) InsideExpression(node);
  }

  bool InsideStatement(const statement_ptr& node) {
    if (auto* branch = As<jinja::if_statement>(node)) {
      Slot(&branch->test);
      Body(&branch->body);
      Body(&branch->alternate);
    } else if (auto* loop = As<jinja::for_statement>(node)) {
      Iterable(&loop->iterable);
      LimitedBody(&loop->body, "loop");
      Body(&loop->default_block);
    } else if (auto* set = As<jinja::set_statement>(node)) {
      Slot(&set->val);
      Body(&set->body);
      if (auto* member = As<jinja::member_expression>(set->assignee)) {
        Slot(&member->object);
        Replace<LimitedTarget>(&member->object);
      }
    } else if (auto* macro = As<jinja::macro_statement>(node)) {
      for (const statement_ptr& each : macro->args) Inside(each);
      LimitedBody(&macro->body, "caller");
    } else if (auto* filter = As<jinja::filter_statement>(node)) {
      InsideNamed(filter->filter);
      Body(&filter->body);
    } else if (auto* call = As<jinja::call_statement>(node)) {
      Inside(call->call);
      for (const statement_ptr& each : call->caller_args) Inside(each);
      LimitedBody(&call->body, "caller");
    } else {
      return false;
    }
    return true;
  }

  // Limits the arguments of a filter or test; the interpreter reads its name.
  void InsideNamed(const statement_ptr& node) {
    if (auto* call = As<jinja::call_expression>(node)) Slots(&call->args);
  }

  void Iterable(statement_ptr* node) {
    if (auto* selected = As<jinja::select_expression>(*node)) {
      Slot(&selected->test);
      node = &selected->lhs;
    }
    Slot(node);
    Replace<LimitedIterable>(node, variables_);
  }

  void InsideExpression(const statement_ptr& node) {
    if (auto* operation = As<jinja::binary_expression>(node)) {
      Slot(&operation->left);
      Slot(&operation->right);
    } else if (auto* filtered = As<jinja::filter_expression>(node)) {
      Slot(&filtered->operand);
      InsideNamed(filtered->filter);
      if (WritesOperand(filtered->filter)) Replace<LimitedText>(&filtered->operand);
    } else if (auto* tested = As<jinja::test_expression>(node)) {
      Slot(&tested->operand);
      InsideNamed(tested->test);
    } else if (auto* call = As<jinja::call_expression>(node)) {
      Slot(&call->callee);
      Slots(&call->args);
    } else if (auto* named = As<jinja::keyword_argument_expression>(node)) {
      Slot(&named->val);
    } else if (auto* unary = As<jinja::unary_expression>(node)) {
      Slot(&unary->argument);
    } else if (auto* selected = As<jinja::select_expression>(node)) {
      Slot(&selected->lhs);
      Slot(&selected->test);
    } else if (auto* ternary = As<jinja::ternary_expression>(node)) {
      Slot(&ternary->condition);
      Slot(&ternary->true_expr);
      Slot(&ternary->false_expr);
    } else {
      InsideValue(node);
    }
  }

  void InsideValue(const statement_ptr& node) {
    if (auto* member = As<jinja::member_expression>(node)) {
      Slot(&member->object);
      if (!member->computed) return;
      Slot(&member->property);
      if (As<jinja::slice_expression>(member->property) != nullptr) return;
      Replace<LimitedKey>(&member->property);
    } else if (auto* slice = As<jinja::slice_expression>(node)) {
      Slot(&slice->start_expr);
      Slot(&slice->stop_expr);
      Slot(&slice->step_expr);
    } else if (auto* array = As<jinja::array_literal>(node)) {
      Slots(&array->val);
    } else if (auto* tuple = As<jinja::tuple_literal>(node)) {
      Slots(&tuple->val);
    } else if (auto* object = As<jinja::object_literal>(node)) {
      for (auto& [key, item] : object->val) {
        Slot(&key);
        Replace<LimitedKey>(&key);
        Slot(&item);
      }
    }
  }

  std::size_t variables_ = 0;
};

}  // namespace

void LimitProgram(jinja::program* program) { Limiter limiter(program); }

}  // namespace svc
