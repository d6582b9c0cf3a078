#include "engine/llama/chat/template_limit.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "chat.h"
#include "engine/base/work_limit.h"
#include "jinja/runtime.h"

// Copy of the struct in llama.cpp's common/chat.cpp, which no header declares. Headers and library
// are built from the same tag (cmake/llama.cmake), and chat_renderer_test detects a different
// layout.
struct common_chat_templates {
  bool add_bos;
  bool add_eos;
  bool has_explicit_template;
  std::unique_ptr<common_chat_template> template_default;
  std::unique_ptr<common_chat_template> template_tool_use;
};

namespace svc {
namespace {

// Runs at the start of each iteration of a `{% for %}` and each call of a `{% macro %}`. Writes
// nothing.
struct LimitStatement final : jinja::statement {
  std::string type() const override { return "Limit"; }
  jinja::value execute_impl(jinja::context& /*context*/) const override {
    if (WorkLimit::IsExceeded()) throw std::runtime_error("the template runs for too long");
    return jinja::mk_val<jinja::value_undefined>();
  }
};

void Limit(jinja::statements* body) {
  auto limit = std::make_unique<LimitStatement>();
  limit->pos = body->empty() ? 0 : body->front()->pos;
  body->insert(body->begin(), std::move(limit));
}

void LimitLoopsOf(jinja::program* program) {
  // Bodies are collected first and changed afterwards, because the visit iterates over them.
  std::vector<jinja::statements*> bodies;
  jinja::context context;
  context.visitor = [&](bool /*is_leaf*/, const jinja::statement* visited,
                        const std::vector<jinja::visitor_pair>& children) {
    auto* statement = const_cast<jinja::statement*>(visited);
    if (auto* loop = dynamic_cast<jinja::for_statement*>(statement)) bodies.push_back(&loop->body);
    if (auto* macro = dynamic_cast<jinja::macro_statement*>(statement)) {
      bodies.push_back(&macro->body);
    }
    for (const auto& [label, group] : children) {
      for (const jinja::statement* child : group) {
        if (child != nullptr) child->visit(context);
      }
    }
  };
  for (const jinja::statement_ptr& statement : program->body) statement->visit(context);
  for (jinja::statements* body : bodies) Limit(body);
}

}  // namespace

void LimitTemplates(common_chat_templates* templates) {
  for (const auto* each : {&templates->template_default, &templates->template_tool_use}) {
    if (*each != nullptr) LimitLoopsOf(&(*each)->prog);
  }
}

}  // namespace svc
