// Nesting of JSON texts from clients, such as the arguments of tool calls. llama.cpp parses them,
// and converts the values recursively: a text that is nested deep enough would overflow the stack.
#pragma once

#include <cstddef>
#include <string_view>

namespace svc {

// As for the body of a request over HTTP.
constexpr std::size_t kMaxJsonDepth = 64;

// Upper bound of the depth to which lists and objects in `json` are nested; any text.
std::size_t JsonDepth(std::string_view json);

}  // namespace svc
