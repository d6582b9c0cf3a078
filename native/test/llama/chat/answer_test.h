// Support for tests of answer streams.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "answer.h"
#include "chat.h"
#include "engine/llama/chat/answer_format.h"
#include "engine/llama/chat/answer_stream.h"

namespace svc::test {

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
