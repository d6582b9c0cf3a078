#include "engine/grammar/vocabulary_index.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace svc {

VocabularyIndex::VocabularyIndex(const std::vector<std::string>& pieces, std::vector<Token> ends)
    : tokens_(pieces.size()), places_(pieces.size()), ends_(std::move(ends)) {
  std::ranges::sort(ends_);
  std::iota(tokens_.begin(), tokens_.end(), 0);
  std::ranges::sort(tokens_, [&](Token a, Token b) {
    const int order = pieces[a].compare(pieces[b]);
    return order != 0 ? order < 0 : a < b;
  });
  std::string_view before;
  for (std::uint32_t place = 0; place < tokens_.size(); ++place) {
    const std::string& piece = pieces[tokens_[place]];
    places_[tokens_[place]] = place;
    offsets_.push_back(static_cast<std::uint32_t>(text_.size()));
    const auto differ = std::ranges::mismatch(piece, before).in1;
    shared_.push_back(static_cast<std::uint32_t>(differ - piece.begin()));
    text_ += piece;
    before = piece;
    longest_ = std::max(longest_, piece.size());
    // One past the last place so far with this first byte.
    first_with_[piece.empty() ? 0 : static_cast<unsigned char>(piece[0]) + 1U] = place + 1;
  }
  offsets_.push_back(static_cast<std::uint32_t>(text_.size()));
  for (std::size_t byte = 1; byte < first_with_.size(); ++byte) {
    first_with_[byte] = std::max(first_with_[byte], first_with_[byte - 1]);
  }
}

bool VocabularyIndex::Ends(Token token) const { return std::ranges::binary_search(ends_, token); }

GrammarAutomaton::State VocabularyIndex::After(GrammarAutomaton& automaton,
                                               GrammarAutomaton::State state, Token token) const {
  if (Ends(token)) return automaton.IsComplete(state) ? state : GrammarAutomaton::kDead;
  const std::string_view bytes = piece(token);
  if (bytes.empty()) return GrammarAutomaton::kDead;
  for (const char byte : bytes) {
    state = automaton.Next(state, static_cast<std::uint8_t>(byte));
    if (state == GrammarAutomaton::kDead) break;
  }
  return state;
}

TokenSet VocabularyIndex::Allowed(GrammarAutomaton& automaton,
                                  GrammarAutomaton::State state) const {
  TokenSet allowed(size());
  // path[n]: the state after n bytes of the piece at `place`; known up to `read`.
  std::vector<GrammarAutomaton::State> path(longest_ + 1);
  path[0] = state;
  std::size_t read = 0;
  for (std::uint32_t place = first_with_[0]; place < tokens_.size();) {
    if (shared_[place] > read) {  // shares the prefix at which an earlier piece failed
      ++place;
      continue;
    }
    const std::string_view bytes = Piece(place);
    for (read = shared_[place]; read < bytes.size(); ++read) {
      path[read + 1] = automaton.Next(path[read], static_cast<std::uint8_t>(bytes[read]));
      if (path[read + 1] == GrammarAutomaton::kDead) break;
    }
    if (read == bytes.size()) allowed.Add(tokens_[place]);
    place = read > 0 ? place + 1 : first_with_[static_cast<unsigned char>(bytes[0]) + 1U];
  }
  for (const Token token : ends_) {
    if (automaton.IsComplete(state)) {
      allowed.Add(token);
    } else {
      allowed.Remove(token);
    }
  }
  return allowed;
}

}  // namespace svc
