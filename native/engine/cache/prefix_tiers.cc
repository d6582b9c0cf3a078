#include "engine/cache/prefix_tiers.h"

#include <algorithm>
#include <utility>

#include "engine/model/media_rows.h"

namespace svc {
namespace {

// Maximum texts that wait to be saved; the oldest are dropped.
constexpr std::size_t kMostUnsaved = 64;
// The same may wait for an idle time; beyond it they are saved as soon as nothing is computed.
constexpr std::size_t kMostWaiting = kMostUnsaved / 2;

// Where a new file must end at least, after the tokens stored already.
std::uint32_t LeastEnd(std::uint32_t stored) {
  return stored + (stored == 0 ? PrefixStore::kLeastTokens : PrefixStore::kLeastMore);
}

// The same for a whole state of `tokens` tokens, which is written anew each time: a hundredth of
// them, so that a long conversation does not write its whole state for a short answer.
std::uint32_t LeastMoreOfState(std::uint32_t tokens) {
  constexpr std::uint32_t kPart = 100;
  return std::max(PrefixStore::kLeastTokens, tokens / kPart);
}

}  // namespace

PrefixTiers::PrefixTiers(Decoder* decoder, PrefixCache* cache, std::unique_ptr<PrefixStore> store,
                         std::uint64_t most_piece_bytes)
    : decoder_(decoder),
      most_piece_bytes_(most_piece_bytes),
      cache_(cache),
      store_(std::move(store)),
      checkpoints_(decoder->max_state_bytes()) {}

std::uint32_t PrefixTiers::Match(PrefixScope scope, std::span<const Token> tokens) const {
  return decoder_->can_share() ? cache_->Match(scope, tokens) : checkpoints_.Match(scope, tokens);
}

std::uint32_t PrefixTiers::Known(PrefixScope scope, std::span<const Token> tokens) const {
  return decoder_->can_share() ? cache_->Known(scope, tokens) : checkpoints_.Known(scope, tokens);
}

// ---- checkpoints --------------------------------------------------------------------------------

std::uint32_t PrefixTiers::Restore(PrefixScope scope, std::span<const Token> tokens,
                                   SequenceId sequence) {
  if (decoder_->can_share()) return 0;
  const Checkpoints::Checkpoint* found = checkpoints_.Take(scope, tokens);
  if (found == nullptr) return 0;
  const auto length = static_cast<std::uint32_t>(found->tokens.size());
  if (!decoder_->LoadState(sequence, *found->state, 0, length)) return 0;
  checkpoints_.MarkKnown(scope, tokens.first(length));
  return length;
}

std::uint32_t PrefixTiers::CutRows(PrefixScope scope, std::span<const Token> prompt,
                                   std::uint32_t computed, std::uint32_t rows) const {
  return decoder_->can_share() ? rows : checkpoints_.CutRows(scope, prompt, computed, rows);
}

void PrefixTiers::PromptComputed(PrefixScope scope, std::span<const Token> prompt,
                                 std::uint32_t computed, SequenceId sequence, bool on_disk) {
  if (decoder_->can_share() || !checkpoints_.BelongsAt(scope, prompt, computed)) return;
  // Saved to disk too: the next prompt may repeat the prompt but not the answer, and a state that
  // cannot be cut includes the answer once it is computed.
  Keep(scope, prompt.first(computed), sequence, on_disk);
}

bool PrefixTiers::MakeRoomForStates(std::uint64_t bytes) {
  BoundCheckpoints();
  return checkpoints_.MakeRoom(bytes);
}

void PrefixTiers::Discard(PrefixScope scope, std::span<const Token> tokens) {
  cache_->Discard(scope, tokens);
  checkpoints_.Discard(scope, tokens);
  // Queued texts need no change: SaveOne writes only states that are in memory.
  if (store_ != nullptr) store_->Discard(scope.salt, tokens);
}

void PrefixTiers::Keep(PrefixScope scope, std::span<const Token> tokens, SequenceId sequence,
                       bool on_disk) {
  if (tokens.size() < PrefixStore::kLeastTokens) return;
  std::vector<Token> kept(tokens.begin(), tokens.end());
  if (!decoder_->can_share() && !checkpoints_.Has(scope, tokens)) {
    // Before the copy, so that all copies together stay below the limit.
    const auto end = static_cast<std::uint32_t>(tokens.size());
    if (!MakeRoomForStates(decoder_->SizeOfState(sequence, 0, end))) return;
    StateBytes state = decoder_->SaveState(sequence, 0, end);
    if (state.empty()) return;
    checkpoints_.Put(scope, kept, std::make_shared<const StateBytes>(std::move(state)));
  }
  kept_in_states_ += kept.size();
  if (store_ == nullptr || !on_disk) return;
  // A continuation replaces the queued texts that it begins with.
  std::erase_if(unsaved_, [&](const Unsaved& each) {
    return decoder_->can_share() && each.scope.salt == scope.salt &&
           each.tokens.size() <= kept.size() &&
           std::equal(each.tokens.begin(), each.tokens.end(), kept.begin());
  });
  unsaved_.push_back({.scope = scope, .tokens = std::move(kept), .kept_before = this->kept()});
  if (unsaved_.size() > kMostUnsaved) unsaved_.pop_front();
}

// ---- from the disk ------------------------------------------------------------------------------

bool PrefixTiers::Fetch(GenerationId wanted_by, PrefixScope scope, std::span<const Token> tokens) {
  if (store_ == nullptr) return false;
  const std::uint32_t covered = Match(scope, tokens);
  if (decoder_->can_share()) return store_->Fetch(wanted_by, scope.salt, tokens, covered) > 0;
  BoundCheckpoints();
  const std::uint64_t bytes =
      store_->Fetch(wanted_by, scope.salt, tokens, covered, checkpoints_.max_read_bytes());
  if (bytes == 0) return false;
  reads_[wanted_by] = bytes;
  CountReads();
  return true;
}

void PrefixTiers::CancelFetch(GenerationId wanted_by) {
  if (store_ != nullptr) store_->Cancel(wanted_by);
  if (reads_.erase(wanted_by) > 0) CountReads();
}

void PrefixTiers::BoundCheckpoints() {
  checkpoints_.SetMaxBytes(decoder_->max_state_bytes());
  if (store_ == nullptr || !store_->writing()) checkpoints_.SetWritten(nullptr);
}

// One state is read ahead at a time.
void PrefixTiers::CountReads() {
  std::uint64_t largest = 0;
  for (const auto& [id, bytes] : reads_) largest = std::max(largest, bytes);
  checkpoints_.SetRead(largest);
}

std::vector<GenerationId> PrefixTiers::TakeFetched(SequenceId sequence, std::uint32_t busy_cells) {
  std::vector<GenerationId> ready;
  if (store_ == nullptr) return ready;
  while (std::optional<FetchedPiece> piece = store_->TakeFetched()) {
    if (piece->last) ready.insert(ready.end(), piece->wanted_by.begin(), piece->wanted_by.end());
    // Before it is adopted: from then on it counts as a checkpoint.
    for (const GenerationId id : piece->wanted_by) reads_.erase(id);
    CountReads();
    if (!piece->state.empty()) Adopt(std::move(*piece), sequence, busy_cells);
  }
  return ready;
}

void PrefixTiers::Adopt(FetchedPiece piece, SequenceId sequence, std::uint32_t busy_cells) {
  std::vector<Token>& tokens = piece.head.tokens;
  const PrefixScope scope = piece.head.scope;
  if (!decoder_->can_share()) {
    BoundCheckpoints();
    checkpoints_.Put(scope, std::move(tokens),
                     std::make_shared<const StateBytes>(std::move(piece.state)));
    return;
  }
  if (sequence < 0) return;
  const auto needed = static_cast<std::uint32_t>(tokens.size()) - piece.head.begin;
  const std::span<const Token> wanted = std::span(tokens).first(piece.end);
  PrefixCache::Pin pin = cache_->Take(scope, wanted, sequence);
  cache_->SwapIn(wanted, sequence, FreeCells(busy_cells), pin);
  const std::uint32_t room = FreeCells(busy_cells);
  const bool fits = needed <= room + cache_->evictable();
  // The tokens before the piece may have been evicted meanwhile.
  if (pin.length >= piece.head.begin && pin.length < piece.end && fits) {
    if (needed > room) cache_->Evict(needed - room);
    if (decoder_->LoadState(sequence, piece.state, pin.length, piece.end)) {
      cache_->Publish(scope, wanted, sequence, pin);
    }
  }
  decoder_->RemoveSequence(sequence);
  cache_->Release(pin);
}

// ---- to the disk --------------------------------------------------------------------------------

bool PrefixTiers::WantsToSave() const { return !unsaved_.empty() && !store_->writing(); }

bool PrefixTiers::MayLoseUnsaved() const {
  if (unsaved_.empty()) return false;
  const std::uint64_t since = kept() - unsaved_.front().kept_before;
  return unsaved_.size() > kMostWaiting || since > decoder_->cells_total() / 2;
}

void PrefixTiers::SaveOne(SequenceId sequence, std::uint32_t busy_cells) {
  Unsaved text = std::move(unsaved_.front());
  unsaved_.pop_front();
  const std::uint32_t stored = store_->Match(text.scope.salt, text.tokens, 0);
  if (!decoder_->can_share()) return SaveWholeState(text, stored);
  // The piece before could not be written: the disk is full, say.
  if (stored < text.attempted) return;
  const std::uint32_t cached = cache_->Match(text.scope, text.tokens);
  const std::uint32_t least_end = LeastEnd(stored);
  if (cached < least_end) return;
  std::optional<PrefixCache::Part> part = cache_->SwappedAt(text.scope, text.tokens, stored);
  if (!part || part->end < least_end) part = CopyPart(text, stored, sequence, busy_cells);
  if (!part) return;
  store_->Write({.tokens = {text.tokens.begin(), text.tokens.begin() + part->end},
                 .begin = part->begin,
                 .scope = text.scope},
                std::move(part->state));
  if (part->end == cached) return;
  text.attempted = part->end;
  unsaved_.push_front(std::move(text));
}

// Copies the cells of the text from `stored` on. Absent: there are too few.
std::optional<PrefixCache::Part> PrefixTiers::CopyPart(const Unsaved& text, std::uint32_t stored,
                                                       SequenceId sequence,
                                                       std::uint32_t busy_cells) {
  if (sequence < 0) return std::nullopt;
  PrefixCache::Pin pin = cache_->Take(text.scope, text.tokens, sequence);
  const std::uint32_t least_end = LeastEnd(stored);
  if (pin.length < least_end) {
    cache_->SwapIn(text.tokens, sequence, FreeCells(busy_cells), pin);
  }
  StateBytes state;
  std::uint32_t end = pin.length;
  if (end >= least_end) {
    end = EndOfPiece(std::span(text.tokens).first(end), stored,
                     decoder_->SizeOfState(sequence, stored, end));
    state = decoder_->SaveState(sequence, stored, end);
  }
  decoder_->RemoveSequence(sequence);
  cache_->Release(pin);
  if (state.empty()) return std::nullopt;
  return PrefixCache::Part{stored, end, std::make_shared<const StateBytes>(std::move(state))};
}

// Returns where the piece [begin, ...) of a text ends that has `bytes` in [begin, tokens.size()).
std::uint32_t PrefixTiers::EndOfPiece(std::span<const Token> tokens, std::uint32_t begin,
                                      std::uint64_t bytes) const {
  const auto size = static_cast<std::uint32_t>(tokens.size());
  if (bytes <= most_piece_bytes_) return size;
  const auto fitting = static_cast<std::uint32_t>((size - begin) * most_piece_bytes_ / bytes);
  const std::uint32_t most = std::min(size, begin + std::max(fitting, PrefixStore::kLeastTokens));
  std::uint32_t end = WholePictures(tokens, most);
  if (end >= LeastEnd(begin)) return end;
  // A picture that is larger than a piece.
  for (end = most; WholePictures(tokens, end) < end;) ++end;
  return end;
}

void PrefixTiers::SaveWholeState(const Unsaved& unsaved, std::uint32_t stored) {
  const Checkpoints::Checkpoint* found = checkpoints_.Take(unsaved.scope, unsaved.tokens);
  if (found == nullptr) return;
  const auto length = static_cast<std::uint32_t>(found->tokens.size());
  if (length < stored + LeastMoreOfState(length)) return;
  checkpoints_.SetWritten(found->state);
  store_->Write({.tokens = found->tokens, .begin = 0, .scope = unsaved.scope}, found->state);
}

}  // namespace svc
