#include "engine/grammar/grammar_trigger.h"

#include <algorithm>

namespace svc {

GrammarTrigger::GrammarTrigger(const Words& triggers) : words_(triggers.words) {
  for (const std::string& pattern : triggers.patterns) patterns_.emplace_back(pattern);
}

std::optional<std::string> GrammarTrigger::Push(std::string_view bytes) {
  window_ += bytes;
  std::size_t start = std::string::npos;
  for (const std::string& word : words_) start = std::min(start, window_.find(word));

  const auto flags =
      is_whole_ ? std::regex_constants::match_default : std::regex_constants::match_not_bol;
  for (const std::regex& pattern : patterns_) {
    std::smatch match;
    if (!std::regex_search(window_, match, pattern, flags)) continue;
    std::size_t group = 0;
    for (std::size_t i = match.size() - 1; i > 0; --i) {
      if (match[i].length() > 0) group = i;
    }
    start = std::min(start, static_cast<std::size_t>(match.position(group)));
  }
  if (start != std::string::npos) return window_.substr(start);

  if (window_.size() > 2 * kWindow) {
    window_.erase(0, window_.size() - kWindow);
    is_whole_ = false;
  }
  return std::nullopt;
}

}  // namespace svc
