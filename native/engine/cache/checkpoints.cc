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

bool Checkpoints::MakeRoom(std::uint64_t bytes) {
  const std::shared_ptr<const StateBytes> written = written_.lock();
  const std::uint64_t fixed = FixedBytes(written.get());
  if (bytes > max_bytes_ || fixed > max_bytes_ - bytes) return false;
  EvictDownTo(max_bytes_ - bytes - fixed, written.get());
  return true;
}

void Checkpoints::SetRead(std::uint64_t bytes) {
  read_bytes_ = bytes;
  const std::shared_ptr<const StateBytes> written = written_.lock();
  const std::uint64_t fixed = FixedBytes(written.get());
  EvictDownTo(max_bytes_ - std::min(max_bytes_, fixed), written.get());
}

std::uint64_t Checkpoints::max_read_bytes() const {
  const std::shared_ptr<const StateBytes> written = written_.lock();
  return max_bytes_ - std::min<std::uint64_t>(max_bytes_, written != nullptr ? written->size() : 0);
}

// Evicts until all checkpoints but the one being written take at most `bytes`: evicting that one
// would free nothing.
void Checkpoints::EvictDownTo(std::uint64_t bytes, const StateBytes* written) {
  std::uint64_t evictable = 0;
  for (const Checkpoint& each : checkpoints_) {
    if (each.state.get() != written) evictable += each.state->size();
  }
  for (auto each = checkpoints_.end(); evictable > bytes;) {
    --each;
    if (each->state.get() == written) continue;
    evictable -= each->state->size();
    bytes_ -= each->state->size();
    each = checkpoints_.erase(each);
  }
}

void Checkpoints::Put(PrefixScope scope, std::vector<Token> tokens,
                      std::shared_ptr<const StateBytes> state) {
  std::vector<ShareId> owners;
  std::erase_if(checkpoints_, [&](Checkpoint& each) {
    if (each.salt != scope.salt || each.tokens != tokens) return false;
    bytes_ -= each.state->size();
    owners = std::move(each.owners);
    return true;
  });
  if (!MakeRoom(state->size())) return;
  AddOwner(scope.owner, &owners);
  bytes_ += state->size();
  checkpoints_.push_front({.tokens = std::move(tokens),
                           .state = std::move(state),
                           .salt = scope.salt,
                           .owners = std::move(owners)});
  if (checkpoints_.size() > kMostCheckpoints) {
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

void Checkpoints::Discard(PrefixScope scope, std::span<const Token> tokens) {
  std::erase_if(checkpoints_, [&](const Checkpoint& each) {
    if (each.salt != scope.salt || !Begins(each.tokens, tokens)) return false;
    bytes_ -= each.state->size();
    return true;
  });
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
