// Makes chat templates observe the WorkLimit of the rendering thread.
//
// A template comes with the model's file. It can loop or recurse endlessly, and allocate without
// bound; llama.cpp's interpreter limits neither. So its functions and filters are wrapped
// (limited_builtins.h), and checks are inserted into the parsed template (limited_program.h).
// Values that are nested very deep, or contain themselves, are freed without recursion
// (value_keeper.h); whatever follows them ends with the limit exceeded.
#pragma once

#include <cstddef>
#include <string>

#include "chat.h"
#include "engine/base/status.h"

namespace svc {

// CPU time of llama.cpp's analysis of a template at load; it usually takes milliseconds.
constexpr double kAnalysisCpuSeconds = 2;
// Nesting of the values that a template makes at load.
constexpr std::size_t kMaxAnalysisDepth = 1000;

// A model's templates, twice.
struct Templates {
  common_chat_templates_ptr of_prompts;
  // For the analysis of answers: the end token is an empty text. llama.cpp would take it for a part
  // of a call, and misread calls with an id (Mistral Small 3.2).
  common_chat_templates_ptr of_answers;
};

// As common_chat_templates_init, for templates that may be hostile: llama.cpp renders a template
// several times before anything can be inserted into it. So the same is done first with a copy that
// observes the limit. Returned templates throw std::runtime_error from rendering once the limit is
// exceeded. Error: kModelInvalid (a template cannot be parsed, runs for too long, needs too much
// memory, or nests values too deep).
Result<Templates> InitTemplates(const llama_model* model, const std::string& chat_template);

// As common_chat_templates_apply, which must not be called for templates that may be hostile.
// Throws std::exception.
common_chat_params ApplyTemplates(const common_chat_templates* templates,
                                  const common_chat_templates_inputs& inputs);

// True if llama.cpp has code of its own for the template, in place of the analysis. That code may
// change a chat before it renders it.
bool IsSpecialized(const common_chat_templates* templates);

}  // namespace svc
