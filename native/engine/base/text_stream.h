// Turns the bytes of tokens into text that may be shown: whole UTF-8 characters, none of them part
// of a stop string.
//
// Two stages. Bytes wait until they make a whole character; what can make none becomes U+FFFD, one
// for each maximal broken piece, as the Unicode standard and llama-server's JSON have it.
// Characters wait while they may be the start of a stop string. The text ends before the first stop
// string in it: the one that starts earliest, as in llama-server.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace svc {

// Owner: one generation. Not thread-safe.
class TextStream {
 public:
  // Empty stop strings are ignored.
  explicit TextStream(std::vector<std::string> stop);

  // Adds the bytes of a token and appends to *text what may be shown now. Returns true when a stop
  // string is complete: the text has ended and nothing may be pushed any more.
  bool Push(std::string_view bytes, std::string* text);

  // The generation ended otherwise: appends to *text all that was held back.
  void Finish(std::string* text);

  // Bytes that have been pushed and not shown; what was no UTF-8 counts as its replacement.
  std::size_t held() const { return bytes_.size() + characters_.size(); }

 private:
  void TakeCharacters(bool all);

  std::vector<std::string> stop_;
  std::string bytes_;       // not yet a whole character
  std::string characters_;  // whole characters that may start a stop string
};

}  // namespace svc
