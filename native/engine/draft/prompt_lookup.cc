#include "engine/draft/prompt_lookup.h"

#include <algorithm>
#include <bit>

namespace svc {
namespace {

// Match lengths above this are not distinguished.
constexpr std::size_t kMostLength = 32;

// Prior acceptance probability by class of match length, and its weight in drafts.
constexpr std::array<double, 5> kPrior = {0.25, 0.4, 0.6, 0.8, 0.9};
constexpr double kPriorWeight = 2;
// Decay of a record with each new draft.
constexpr double kFade = 0.9;

// Slots for each token, which ends three runs (of 2, 3 and 4 tokens).
constexpr std::size_t kPlacesPerToken = 4;
constexpr std::size_t kLeastPlaces = 1024;

}  // namespace

// Classes of match length: 2, 3, 4..7, 8..15, 16 and more tokens.
std::size_t PromptLookup::ClassOf(std::size_t length) {
  if (length < 4) return length < 3 ? 0 : 1;
  return std::min<std::size_t>(std::bit_width(length) - 1, kClasses - 1);
}

double PromptLookup::Chance(std::size_t length) const {
  const std::size_t index = ClassOf(length);
  return records_[index].Chance(kPrior[index], kPriorWeight);
}

std::uint32_t& PromptLookup::Place(std::span<const Token> run) {
  std::uint64_t hash = run.size();
  for (const Token token : run) {
    hash = (hash ^ static_cast<std::uint32_t>(token)) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 29U;
  }
  return places_[hash & (places_.size() - 1)];
}

// Records the runs that end before position `end`, whose next token is tokens[end].
void PromptLookup::Note(std::span<const Token> tokens, std::size_t end) {
  for (std::size_t length = kShortest; length <= std::min(kLongest, end); ++length) {
    Place(tokens.subspan(end - length, length)) = static_cast<std::uint32_t>(end);
  }
}

void PromptLookup::Grow(std::span<const Token> tokens) {
  const std::size_t wanted =
      std::clamp(std::bit_ceil(tokens.size() * kPlacesPerToken), kLeastPlaces, kMostPlaces);
  if (wanted <= places_.size()) return;
  places_.assign(wanted, 0);
  for (std::size_t end = kShortest; end < known_; ++end) Note(tokens, end);
}

void PromptLookup::Look(std::span<const Token> tokens) {
  const std::size_t end = tokens.size();
  for (std::size_t length = std::min(kLongest, end); length >= kShortest; --length) {
    const std::size_t place = Place(tokens.last(length));
    if (place < length) continue;
    std::size_t same = 0;
    while (same < std::min(place, kMostLength) &&
           tokens[place - 1 - same] == tokens[end - 1 - same]) {
      ++same;
    }
    if (same < length) continue;
    next_ = place;
    length_ = same;
    return;
  }
}

void PromptLookup::Follow(std::span<const Token> tokens, std::size_t judged_from) {
  Grow(tokens);
  for (; known_ < tokens.size(); ++known_) {
    if (length_ > 0) {
      const bool right = tokens[next_] == tokens[known_];
      if (known_ >= judged_from) records_[ClassOf(length_)].Add(right, kFade);
      ++next_;
      length_ = right ? std::min(length_ + 1, kMostLength) : 0;
    }
    Note(tokens, known_);
    if (length_ == 0 && known_ + 1 >= judged_from) Look(tokens.first(known_ + 1));
  }
}

std::vector<DraftToken> PromptLookup::Propose(std::span<const Token> tokens,
                                              std::size_t most) const {
  std::vector<DraftToken> drafts;
  if (length_ == 0) return drafts;
  drafts.reserve(most);
  // Beyond the known text, the draft continues with its own tokens.
  const std::size_t behind = tokens.size() - next_;  // > 0
  for (std::size_t i = 0; i < most; ++i) {
    const Token token = i < behind ? tokens[next_ + i] : drafts[i - behind].token;
    drafts.push_back({.token = token, .chance = Chance(length_ + i)});
  }
  return drafts;
}

}  // namespace svc
