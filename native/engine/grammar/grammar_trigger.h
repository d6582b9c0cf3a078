// Finds the place in a text from which a lazy grammar constrains it: the beginning of a tool call.
//
// A trigger is a word, or a regular expression (ECMAScript) of llama.cpp's templates. As in
// llama.cpp, a match starts at the first capture group that matched, else at the whole match.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace svc {

// Owner: one generation's sampler.
class GrammarTrigger {
 public:
  struct Words {
    std::vector<std::string> words;
    std::vector<std::string> patterns;  // REQUIRES: valid
  };
  // Bytes before the end of the text in which a pattern is searched: longer than any tag.
  static constexpr std::size_t kWindow = 512;

  explicit GrammarTrigger(const Words& triggers);

  // Adds the bytes of a token. Returns the text from the trigger on, once there is one.
  // REQUIRES: no Push has returned a text.
  std::optional<std::string> Push(std::string_view bytes);

 private:
  std::vector<std::string> words_;
  std::vector<std::regex> patterns_;
  std::string window_;    // end of the text
  bool is_whole_ = true;  // the window is the whole text
};

}  // namespace svc
