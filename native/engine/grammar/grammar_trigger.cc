#include "engine/grammar/grammar_trigger.h"

#include <algorithm>

namespace svc {

GrammarTrigger::GrammarTrigger(const Words& triggers) : words_(triggers.words) {
  for (const std::string& pattern : triggers.patterns) {
    patterns_.push_back({.regex = std::regex(pattern), .ends = pattern.ends_with('$')});
  }
}

std::optional<GrammarTrigger::Match> GrammarTrigger::Find(std::string_view bytes) const {
  const std::string text = window_ + std::string(bytes);
  std::optional<Place> first;
  const auto found = [&first](Place place) {
    if (!first || place.start < first->start) first = place;
  };
  for (const std::string& word : words_) {
    const std::size_t start = text.find(word);
    if (start != std::string::npos) found({start, word.size()});
  }
  for (const Pattern& pattern : patterns_) {
    // Such a pattern may match in the middle of the token.
    std::size_t end = pattern.ends ? window_.size() + 1 : text.size();
    for (; end <= text.size(); ++end) {
      const std::optional<Place> place = Search(pattern.regex, text.substr(0, end));
      if (!place) continue;
      found(*place);
      break;
    }
  }
  if (!first) return std::nullopt;
  return Match{text.substr(first->start), first->length};
}

std::optional<GrammarTrigger::Place> GrammarTrigger::Search(const std::regex& regex,
                                                            const std::string& text) const {
  const auto flags =
      is_whole_ ? std::regex_constants::match_default : std::regex_constants::match_not_bol;
  std::smatch match;
  if (!std::regex_search(text, match, regex, flags)) return std::nullopt;
  std::size_t group = 0;
  for (std::size_t i = match.size() - 1; i > 0; --i) {
    if (match[i].length() > 0) group = i;
  }
  const auto start = static_cast<std::size_t>(match.position(group));
  return Place{start, static_cast<std::size_t>(match.position(0) + match.length(0)) - start};
}

void GrammarTrigger::Add(std::string_view bytes) {
  window_ += bytes;
  if (window_.size() > 2 * kWindow) {
    window_.erase(0, window_.size() - kWindow);
    is_whole_ = false;
  }
}

}  // namespace svc
