#include "engine/llama/jinja/direct_lookup.h"

#include <memory>
#include <string>
#include <utility>

namespace svc {
namespace {

using jinja::is_val;
using jinja::mk_val;
using jinja::statement_ptr;
using jinja::value;

// Does what `inner` does. Only `inner` itself counts which values are used (context.is_get_stats),
// for the analysis at load.
struct Lookup : jinja::expression {
  Lookup(statement_ptr node, std::string read) : inner(std::move(node)), name(std::move(read)) {
    pos = inner->pos;
  }
  std::string type() const override { return inner->type(); }
  void visit(jinja::context& context) const override { inner->visit(context); }

  const statement_ptr inner;
  const std::string name;
};

struct Variable final : Lookup {
  using Lookup::Lookup;
  value execute_impl(jinja::context& context) const override {
    if (context.is_get_stats) return inner->execute(context);
    value found = context.get_val(name);
    if (!found->is_undefined()) return found;
    const jinja::func_builtins& functions = jinja::global_builtins();
    const auto function = functions.find(name);
    if (function == functions.end()) return mk_val<jinja::value_undefined>(name);
    return mk_val<jinja::value_func>(name, function->second);
  }
};

// `object.name`
struct Member final : Lookup {
  using Lookup::Lookup;
  value execute_impl(jinja::context& context) const override {
    if (context.is_get_stats) return inner->execute(context);
    const auto& member = static_cast<const jinja::member_expression&>(*inner);
    value object = member.object->execute(context);
    const bool is_object = is_val<jinja::value_object>(object);
    if (!is_object && !is_val<jinja::value_string>(object) && !is_val<jinja::value_array>(object)) {
      const jinja::member_expression known(std::make_unique<Known>(std::move(object)),
                                           std::make_unique<jinja::identifier>(name),
                                           /*computed=*/false);
      return known.execute_impl(context);
    }
    const jinja::func_builtins& methods = object->get_builtins();
    const auto method = methods.find(name);
    if (method != methods.end()) return mk_val<jinja::value_func>(name, method->second, object);
    value missing = mk_val<jinja::value_undefined>(name);
    if (!is_object) return missing;
    value found = object->at(name, missing);
    return is_val<jinja::value_undefined>(found) ? missing : found;
  }
};

}  // namespace

statement_ptr WithDirectLookup(statement_ptr node) {
  if (const auto* variable = dynamic_cast<const jinja::identifier*>(node.get())) {
    std::string name = variable->val;
    return std::make_unique<Variable>(std::move(node), std::move(name));
  }
  if (const auto* member = dynamic_cast<const jinja::member_expression*>(node.get());
      member != nullptr && !member->computed) {
    const auto* property = dynamic_cast<const jinja::identifier*>(member->property.get());
    if (property == nullptr) return node;
    std::string name = property->val;
    return std::make_unique<Member>(std::move(node), std::move(name));
  }
  return node;
}

}  // namespace svc
