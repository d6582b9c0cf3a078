// What a load finds out about a model's chat template, by rendering short chats with it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/llama/answer/answer_format.h"

namespace svc {

struct Templates;

struct TemplateTraits {
  bool is_specialized = false;  // llama.cpp has code of its own for the template
  bool knows_efforts = false;   // it reads the reasoning effort

  bool thinks = false;              // it has a form for reasoning
  bool can_answer_at_once = false;  // it can leave the reasoning out
  // Formats of answers to chats without tools, with and without reasoning.
  std::shared_ptr<const AnswerFormat> thinking;
  std::shared_ptr<const AnswerFormat> answering;

  // Stop strings of all answers, besides those that llama.cpp's analysis finds.
  std::vector<std::string> stop;

  bool writes_systems = false;        // a system message at the beginning
  bool writes_late_systems = false;   // one after the beginning, in its place
  bool writes_calls = false;          // calls and their results
  bool writes_several_calls = false;  // several calls of one answer
  bool calls_tools = false;           // it lists tools, and a call that it writes is read back
};

// Tries the templates. Observes a WorkLimit of its own.
TemplateTraits LearnTraits(const Templates& templates);

}  // namespace svc
