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

  struct Match {
    std::string text;        // from the trigger on
    std::size_t length = 0;  // of the trigger in it
  };

  // Finds the trigger in the text with the bytes of this token, wherever it ends in them.
  std::optional<Match> Find(std::string_view bytes) const;
  // Adds the bytes of a token. REQUIRES: Find has found nothing for them.
  void Add(std::string_view bytes);

 private:
  struct Pattern {
    std::regex regex;
    bool ends;  // matches only at the end of the text
  };
  struct Place {
    std::size_t start = 0;
    std::size_t length = 0;
  };
  std::optional<Place> Search(const std::regex& regex, const std::string& text) const;

  std::vector<std::string> words_;
  std::vector<Pattern> patterns_;
  std::string window_;    // end of the text
  bool is_whole_ = true;  // the window is the whole text
};

}  // namespace svc
