// Templates for tests, parsed with a tiny model's vocabulary.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/llama/jinja/template_limit.h"
#include "models.h"
#include "test.h"

namespace svc::test {

// Null, and the test fails, if libllama refuses it.
inline common_chat_templates_ptr Parse(const std::string& text) {
  static const std::unique_ptr<LlamaModel> model = LoadTinyModel(TinyModels()[0]);
  if (model == nullptr) return nullptr;
  Result<Templates> templates = InitTemplates(model->get(), text);
  if (templates.ok()) return std::move(templates.value().of_prompts);
  Fail(__FILE__, __LINE__, text + ": " + templates.status().message());
  return nullptr;
}

}  // namespace svc::test
