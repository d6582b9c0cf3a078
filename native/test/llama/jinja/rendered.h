// Templates that llama.cpp's interpreter renders by itself, without a model or a chat.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/llama/jinja/value_keeper.h"
#include "jinja/lexer.h"
#include "jinja/parser.h"
#include "jinja/runtime.h"

namespace svc::test {

// The error that is thrown once the limit of the thread is exceeded.
inline constexpr const char* kEnded = "the template runs for too long, or needs too much memory";

inline jinja::value Text(const std::string& text) {
  return jinja::mk_val<jinja::value_string>(text);
}
inline jinja::value Number(std::int64_t number) { return jinja::mk_val<jinja::value_int>(number); }
inline jinja::value List(const std::vector<jinja::value>& items) {
  return jinja::mk_val<jinja::value_array>(items);
}
inline jinja::value Dictionary(const std::vector<std::pair<std::string, jinja::value>>& items) {
  auto made = jinja::mk_val<jinja::value_object>();
  for (const auto& [key, item] : items) made->insert(key, item);
  return made;
}

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
