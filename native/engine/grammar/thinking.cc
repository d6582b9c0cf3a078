#include "engine/grammar/thinking.h"

#include <algorithm>
#include <utility>

namespace svc {
namespace {

std::string_view WithoutSpace(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

}  // namespace

Thinking::Thinking(ThinkingTags tags, bool is_open, std::optional<std::uint32_t> budget,
                   Tokenizer tokenize)
    : tags_(std::move(tags)),
      budget_(budget),
      tokenize_(std::move(tokenize)),
      longest_(tags_.start.size()) {
  for (const std::string& end : tags_.ends) longest_ = std::max(longest_, end.size());
  if (is_open) Turn(true);
}

std::optional<std::string> Thinking::Missing(std::string_view text) const {
  if (!is_beginning_) return std::nullopt;
  const std::string all = written_ + std::string(text);
  const std::string_view head = WithoutSpace(all);
  if (!tags_.start.starts_with(head)) return std::nullopt;
  return tags_.start.substr(head.size());
}

std::optional<std::string> Thinking::Opens(std::string_view text, bool is_control) const {
  if (is_open_) return std::nullopt;
  const std::string all = written_ + std::string(text);
  if (is_beginning_) {
    const std::string_view head = WithoutSpace(all);
    if (head.starts_with(tags_.start)) return std::string(head.substr(tags_.start.size()));
  }
  const std::size_t start = all.find(tags_.start);
  if (start == std::string::npos) return std::nullopt;
  const std::string marks = is_control_ + std::string(text.size(), is_control ? 1 : 0);
  if (marks.substr(start, tags_.start.size()).find(1) == std::string::npos) return std::nullopt;
  return all.substr(start + tags_.start.size());
}

bool Thinking::MayOpen(std::string_view text) const {
  if (!is_beginning_) return false;
  if (Opens(text, /*is_control=*/false)) return true;
  const std::optional<std::string> missing = Missing(text);
  return missing && !tokenize_(*missing).empty();
}

std::optional<Thinking::End> Thinking::Ends(std::string_view text) const {
  if (!is_open_) return std::nullopt;
  const std::string all = written_ + std::string(text);
  std::size_t first = std::string::npos;
  std::size_t length = 0;
  for (const std::string& end : tags_.ends) {
    const std::size_t start = all.find(end);
    if (start == std::string::npos || start > first) continue;
    length = start < first ? end.size() : std::max(length, end.size());
    first = start;
  }
  if (first == std::string::npos) return std::nullopt;
  return End{.text = all.substr(first), .length = length};
}

void Thinking::Open() {
  forced_ = tokenize_(Missing("").value_or(""));
  next_forced_ = 0;
}

std::optional<Token> Thinking::Forced() const {
  if (next_forced_ == forced_.size()) return std::nullopt;
  return forced_[next_forced_];
}

void Thinking::Accept(std::string_view text, bool is_control) {
  if (Forced()) ++next_forced_;
  if (const std::optional<std::string> rest = Opens(text, is_control)) {
    Turn(true);
    Keep(*rest, /*is_control=*/false);
  } else if (const std::optional<End> end = Ends(text)) {
    Turn(false);
    Keep(std::string_view(end->text).substr(end->length), is_control);
  } else {
    is_beginning_ = Missing(text).has_value();
    Keep(text, is_control);
    if (!is_open_) return;
    ++spent_;
    ForceEndIfSpent();
  }
}

void Thinking::Turn(bool is_open) {
  is_open_ = is_open;
  is_beginning_ = false;
  written_.clear();
  is_control_.clear();
  spent_ = 0;
  characters_ = TextStream({});
  if (is_open) ForceEndIfSpent();
}

void Thinking::Keep(std::string_view text, bool is_control) {
  std::string delivered;
  if (is_open_) (void)characters_.Push(text, &delivered);
  written_ += text;
  is_control_.append(text.size(), is_control ? 1 : 0);
  // White space before a start tag may be longer than a tag.
  const std::size_t space = written_.size() - WithoutSpace(written_).size();
  const std::size_t kept = is_beginning_ ? written_.size() - space : longest_;
  if (written_.size() <= kept) return;
  is_control_.erase(0, written_.size() - kept);
  written_.erase(0, written_.size() - kept);
}

// Behind a whole character only.
void Thinking::ForceEndIfSpent() {
  if (!budget_ || spent_ < *budget_ || characters_.held() > 0 || Forced()) return;
  forced_ = tokenize_(tags_.ends.front());
  next_forced_ = 0;
}

}  // namespace svc
