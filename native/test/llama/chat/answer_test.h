// Support for tests of answers: what a stream has read, joined.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat.h"
#include "engine/llama/chat/answer_format.h"
#include "engine/llama/chat/answer_stream.h"

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

// Reads the pieces of a text.
inline Answer ReadPieces(const std::shared_ptr<const AnswerFormat>& format,
                         const std::vector<std::string_view>& pieces) {
  AnswerStream stream(format);
  Answer answer;
  for (const std::string_view piece : pieces) {
    GenerationOutput output;
    stream.Read(std::string(piece), /*last=*/false, &output);
    answer.Add(output);
  }
  GenerationOutput output;
  stream.Read("", /*last=*/true, &output);
  answer.Add(output);
  return answer;
}

// The text's characters, whole ones.
inline std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> characters;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
    characters.push_back(text.substr(at, end - at));
    at = end;
  }
  return characters;
}

}  // namespace svc::test
