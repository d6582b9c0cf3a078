// An answer put together from the outputs of an engine.
#pragma once

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "engine/types/chat.h"
#include "engine/types/output.h"

namespace svc::test {

// An answer as a client puts it together.
struct Answer {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> calls;
  bool is_sound = true;  // every first part of a call has a name, and no other part has one

  void Add(const GenerationOutput& output) {
    content += output.text;
    reasoning += output.reasoning;
    for (const ToolCallPart& part : output.tool_calls) {
      if (part.index > calls.size()) is_sound = false;
      const bool is_first = part.index == calls.size();
      if (is_first) calls.push_back({.id = part.id, .name = part.name});
      is_sound = is_sound && is_first == !part.name.empty() && part.index < calls.size();
      if (part.index < calls.size()) calls[part.index].arguments += part.arguments;
    }
  }

  friend bool operator==(const Answer& a, const Answer& b) {
    const auto equal = [](const ToolCall& x, const ToolCall& y) {
      return x.name == y.name && x.arguments == y.arguments;
    };
    return a.content == b.content && a.reasoning == b.reasoning && a.is_sound && b.is_sound &&
           std::equal(a.calls.begin(), a.calls.end(), b.calls.begin(), b.calls.end(), equal);
  }
};

inline std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  out << "{content \"" << answer.content << "\", reasoning \"" << answer.reasoning << '"';
  for (const ToolCall& call : answer.calls)
    out << ", " << call.name << "(" << call.arguments << ")";
  return out << (answer.is_sound ? "}" : ", unsound}");
}

}  // namespace svc::test
