#include "engine/cache/checkpoints.h"

#include <algorithm>
#include <utility>

#include "engine/base/common_length.h"
#include "engine/model/step_constants.h"

namespace svc {
namespace {

// Every look-up scans all checkpoints.
constexpr std::size_t kMostCheckpoints = 256;

// Maximum owners of a checkpoint; the least recent is dropped.
constexpr std::size_t kMostOwners = 64;

void AddOwner(ShareId owner, std::vector<ShareId>* owners) {
  std::erase(*owners, owner);
  if (owners->size() == kMostOwners) owners->erase(owners->begin());
  owners->push_back(owner);
}

// True if `beginning` is a prefix of `tokens`.
bool Begins(std::span<const Token> beginning, std::span<const Token> tokens) {
  return CommonLength(beginning, tokens) == beginning.size();
}

}  // namespace

void Checkpoints::Put(PrefixScope scope, std::vector<Token> tokens,
                      std::shared_ptr<const StateBytes> state) {
  if (state->size() > max_bytes_) return;
  std::vector<ShareId> owners;
  std::erase_if(checkpoints_, [&](Checkpoint& each) {
    if (each.salt != scope.salt || each.tokens != tokens) return false;
    bytes_ -= each.state->size();
    owners = std::move(each.owners);
    return true;
  });
  AddOwner(scope.owner, &owners);
  bytes_ += state->size();
  checkpoints_.push_front({.tokens = std::move(tokens),
                           .state = std::move(state),
                           .salt = scope.salt,
                           .owners = std::move(owners)});
  while (bytes_ > max_bytes_ || checkpoints_.size() > kMostCheckpoints) {
    bytes_ -= checkpoints_.back().state->size();
    checkpoints_.pop_back();
  }
}

const Checkpoints::Checkpoint* Checkpoints::Take(PrefixScope scope, std::span<const Token> tokens) {
  auto longest = checkpoints_.end();
  for (auto each = checkpoints_.begin(); each != checkpoints_.end(); ++each) {
    if (each->salt != scope.salt) continue;
    if (longest != checkpoints_.end() && each->tokens.size() <= longest->tokens.size()) continue;
    if (Begins(each->tokens, tokens)) longest = each;
  }
  if (longest == checkpoints_.end()) return nullptr;
  checkpoints_.splice(checkpoints_.begin(), checkpoints_, longest);
  return &checkpoints_.front();
}

std::uint32_t Checkpoints::Match(PrefixScope scope, std::span<const Token> tokens) const {
  std::size_t longest = 0;
  for (const Checkpoint& each : checkpoints_) {
    if (each.salt != scope.salt) continue;
    if (each.tokens.size() > longest && Begins(each.tokens, tokens)) longest = each.tokens.size();
  }
  return static_cast<std::uint32_t>(longest);
}

std::uint32_t Checkpoints::Known(PrefixScope scope, std::span<const Token> tokens) const {
  std::size_t longest = 0;
  for (const Checkpoint& each : checkpoints_) {
    const auto& [own, state, salt, owners] = each;
    if (salt != scope.salt || own.size() <= longest || !Begins(own, tokens)) continue;
    if (std::find(owners.begin(), owners.end(), scope.owner) != owners.end()) longest = own.size();
  }
  return static_cast<std::uint32_t>(longest);
}

bool Checkpoints::Has(PrefixScope scope, std::span<const Token> tokens) const {
  return Match(scope, tokens) == tokens.size();
}

void Checkpoints::MarkKnown(PrefixScope scope, std::span<const Token> tokens) {
  for (Checkpoint& each : checkpoints_) {
    const bool same = each.salt == scope.salt && each.tokens.size() == tokens.size();
    if (same && Begins(each.tokens, tokens)) AddOwner(scope.owner, &each.owners);
  }
}

// Places for checkpoints in the prompt, ascending.
std::vector<std::uint32_t> Checkpoints::PlacesIn(PrefixScope scope,
                                                 std::span<const Token> prompt) const {
  if (prompt.size() < std::size_t{2} * kTile) return {};
  const std::uint32_t last = (static_cast<std::uint32_t>(prompt.size()) - kTile) / kTile * kTile;
  std::uint32_t parting = 0;
  for (const Checkpoint& each : checkpoints_) {
    if (each.salt != scope.salt) continue;
    parting = std::max(parting, CommonLength(each.tokens, prompt) / kTile * kTile);
  }
  if (parting == 0 || parting >= last) return {last};
  return {parting, last};
}

std::uint32_t Checkpoints::CutRows(PrefixScope scope, std::span<const Token> prompt,
                                   std::uint32_t computed, std::uint32_t rows) const {
  for (const std::uint32_t place : PlacesIn(scope, prompt)) {
    if (place > computed && place < computed + rows) return place - computed;
  }
  return rows;
}

bool Checkpoints::BelongsAt(PrefixScope scope, std::span<const Token> prompt,
                            std::uint32_t computed) const {
  const std::vector<std::uint32_t> places = PlacesIn(scope, prompt);
  return std::find(places.begin(), places.end(), computed) != places.end() &&
         !Has(scope, prompt.first(computed));
}

}  // namespace svc
