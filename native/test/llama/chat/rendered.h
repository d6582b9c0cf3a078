// Templates that llama.cpp's interpreter renders by itself, without a model or a chat.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "engine/llama/chat/value_keeper.h"
#include "jinja/lexer.h"
#include "jinja/parser.h"
#include "jinja/runtime.h"

namespace svc::test {

// The error that is thrown once the limit of the thread is exceeded.
inline constexpr const char* kEnded = "the template runs for too long, or needs too much memory";

// May throw.
inline jinja::program ParseProgram(const std::string& text) {
  jinja::lexer lexer;
  return jinja::parse_from_tokens(lexer.tokenize(text));
}

// What the program writes, with these variables; or "error: " and the error, without the place.
inline std::string Rendered(const jinja::program& program,
                            const jinja::value& variables = nullptr) {
  const ValueKeeper keeper(/*collects=*/false);
  jinja::context context;
  if (variables != nullptr) {
    for (const auto& [name, value] : variables->as_ordered_object()) context.set_val(name, value);
  }
  try {
    jinja::runtime runtime(context);
    return jinja::runtime::gather_string_parts(runtime.execute(program))->as_string().str();
  } catch (const std::exception& error) {
    const std::string what = error.what();
    return what.find(kEnded) != std::string::npos ? kEnded : "error: " + what;
  }
}

}  // namespace svc::test
