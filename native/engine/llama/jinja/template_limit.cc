#include "engine/llama/jinja/template_limit.h"

#include <array>
#include <exception>
#include <memory>
#include <string>

#include "chat-auto-parser.h"
#include "chat.h"
#include "engine/base/work_limit.h"
#include "engine/llama/jinja/limited_builtins.h"
#include "engine/llama/jinja/limited_program.h"
#include "engine/llama/jinja/value_keeper.h"
#include "jinja/caps.h"
#include "jinja/parser.h"
#include "llama.h"

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

// Analyses a copy of the template as llama.cpp will do. Returns false if llama.cpp, which has no
// ValueKeeper, could not free the values.
bool Try(const char* source) {
  if (source == nullptr || *source == '\0') return true;
  const ValueKeeper keeper(/*collects=*/false);
  try {
    jinja::lexer lexer;
    jinja::program program = jinja::parse_from_tokens(lexer.tokenize(source));
    LimitProgram(&program);
    (void)jinja::caps_get(program);
  } catch (const std::exception&) {
    // llama.cpp meets the same error, and reports it.
  }
  return keeper.IsShallow(kMaxAnalysisDepth);
}

common_chat_templates_ptr WithoutEndToken(const common_chat_templates& templates) {
  const auto copy_of = [](const std::unique_ptr<common_chat_template>& each) {
    if (each == nullptr) return std::unique_ptr<common_chat_template>();
    return std::make_unique<common_chat_template>(each->source(), each->bos_token(), "");
  };
  return common_chat_templates_ptr(
      new common_chat_templates{.add_bos = templates.add_bos,
                                .add_eos = false,
                                .has_explicit_template = templates.has_explicit_template,
                                .template_default = copy_of(templates.template_default),
                                .template_tool_use = copy_of(templates.template_tool_use)});
}

void LimitPrograms(common_chat_templates* templates) {
  for (const auto* each : {&templates->template_default, &templates->template_tool_use}) {
    if (*each != nullptr) LimitProgram(&(*each)->prog);
  }
}

}  // namespace

Result<Templates> InitTemplates(const llama_model* model, const std::string& chat_template) {
  LimitBuiltins();
  const WorkLimit limit(kAnalysisCpuSeconds);
  const FixedTime time;
  bool is_shallow = true;
  if (!chat_template.empty()) {
    is_shallow = Try(chat_template.c_str());
  } else {
    for (const char* name : std::array<const char*, 2>{nullptr, "tool_use"}) {
      is_shallow = Try(llama_model_chat_template(model, name)) && is_shallow;
    }
  }
  if (WorkLimit::IsExceeded()) {
    return Status(StatusCode::kModelInvalid,
                  "the model's chat template never ends, takes too long or needs too much memory, "
                  "even for a short chat");
  }
  if (!is_shallow) {
    return Status(StatusCode::kModelInvalid,
                  "the model's chat template makes values that contain themselves, or are nested "
                  "too deep");
  }
  try {
    Templates templates = {.of_prompts = common_chat_templates_init(model, chat_template)};
    templates.of_answers = WithoutEndToken(*templates.of_prompts);
    LimitPrograms(templates.of_prompts.get());
    LimitPrograms(templates.of_answers.get());
    return templates;
  } catch (const std::exception& error) {
    return Status(StatusCode::kModelInvalid,
                  std::string("the model's chat template cannot be parsed: ") + error.what());
  }
}

common_chat_params ApplyTemplates(const common_chat_templates* templates,
                                  const common_chat_templates_inputs& inputs) {
  const ValueKeeper keeper(/*collects=*/true);
  return common_chat_templates_apply(templates, inputs);
}

bool IsSpecialized(const common_chat_templates* templates) {
  const WorkLimit limit(kAnalysisCpuSeconds);
  const ValueKeeper keeper(/*collects=*/true);
  const auto is_specialized = [](const common_chat_template& each) {
    autoparser::generation_params question;
    question.messages = json::array({{{"role", "user"}, {"content", "Hello"}}});
    try {
      return common_chat_try_specialized_template(each, each.source(), question).has_value();
    } catch (const std::exception&) {
      return true;  // its code has refused this chat
    }
  };
  return is_specialized(*templates->template_default) ||
         (templates->template_tool_use != nullptr && is_specialized(*templates->template_tool_use));
}

}  // namespace svc
