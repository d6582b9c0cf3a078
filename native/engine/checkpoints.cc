#include "engine/checkpoints.h"

#include <algorithm>
#include <utility>

#include "engine/common_length.h"

namespace svc {
namespace {

// The scheduler's.
constexpr std::uint32_t kTile = 64;
// Looked through for each prompt.
constexpr std::size_t kMostCheckpoints = 256;

bool Begins(std::span<const Token> beginning, std::span<const Token> tokens) {
  return CommonLength(beginning, tokens) == beginning.size();
}

}  // namespace

void Checkpoints::Put(std::vector<Token> tokens, std::shared_ptr<const StateBytes> state) {
  if (state->size() > max_bytes_) return;
  std::erase_if(checkpoints_, [&](const Checkpoint& each) {
    if (each.tokens != tokens) return false;
    bytes_ -= each.state->size();
    return true;
  });
  bytes_ += state->size();
  checkpoints_.push_front({std::move(tokens), std::move(state)});
  while (bytes_ > max_bytes_ || checkpoints_.size() > kMostCheckpoints) {
    bytes_ -= checkpoints_.back().state->size();
    checkpoints_.pop_back();
  }
}

const Checkpoints::Checkpoint* Checkpoints::Take(std::span<const Token> tokens) {
  auto longest = checkpoints_.end();
  for (auto each = checkpoints_.begin(); each != checkpoints_.end(); ++each) {
    if (longest != checkpoints_.end() && each->tokens.size() <= longest->tokens.size()) continue;
    if (Begins(each->tokens, tokens)) longest = each;
  }
  if (longest == checkpoints_.end()) return nullptr;
  checkpoints_.splice(checkpoints_.begin(), checkpoints_, longest);
  return &checkpoints_.front();
}

std::uint32_t Checkpoints::Match(std::span<const Token> tokens) const {
  std::size_t longest = 0;
  for (const Checkpoint& each : checkpoints_) {
    if (each.tokens.size() > longest && Begins(each.tokens, tokens)) longest = each.tokens.size();
  }
  return static_cast<std::uint32_t>(longest);
}

bool Checkpoints::Has(std::span<const Token> tokens) const {
  return Match(tokens) == tokens.size();
}

// In ascending order.
std::vector<std::uint32_t> Checkpoints::PlacesIn(std::span<const Token> prompt) const {
  if (prompt.size() < std::size_t{2} * kTile) return {};
  const std::uint32_t last = (static_cast<std::uint32_t>(prompt.size()) - kTile) / kTile * kTile;
  std::uint32_t parting = 0;
  for (const Checkpoint& each : checkpoints_) {
    parting = std::max(parting, CommonLength(each.tokens, prompt) / kTile * kTile);
  }
  if (parting == 0 || parting >= last) return {last};
  return {parting, last};
}

std::uint32_t Checkpoints::CutRows(std::span<const Token> prompt, std::uint32_t computed,
                                   std::uint32_t rows) const {
  for (const std::uint32_t place : PlacesIn(prompt)) {
    if (place > computed && place < computed + rows) return place - computed;
  }
  return rows;
}

bool Checkpoints::BelongsAt(std::span<const Token> prompt, std::uint32_t computed) const {
  const std::vector<std::uint32_t> places = PlacesIn(prompt);
  return std::find(places.begin(), places.end(), computed) != places.end() &&
         !Has(prompt.first(computed));
}

}  // namespace svc
