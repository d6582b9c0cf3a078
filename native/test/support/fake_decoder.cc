#include "fake_decoder.h"

#include <cstring>
#include <set>

#include "engine/model/step_constants.h"
#include "test.h"

namespace svc::test {

std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6U) + (hash >> 2U);
  hash *= 0xBF58476D1CE4E5B9ULL;
  return hash ^ (hash >> 31U);
}

std::uint64_t HashOf(const std::vector<Token>& tokens) {
  std::uint64_t hash = 1;
  for (const Token token : tokens) hash = Mix(hash, static_cast<std::uint64_t>(token));
  return hash;
}

std::uint32_t TagOf(const AdapterSet& adapters) {
  std::uint64_t hash = 0;
  for (const AdapterUse& use : adapters) {
    hash = Mix(Mix(hash, use.index), static_cast<std::uint64_t>(use.scale * 1000));
  }
  return adapters.empty() ? 0 : static_cast<std::uint32_t>(1 + hash % 255);
}

void LogitsOf(std::uint64_t hash, float* logits) {
  for (std::size_t i = 0; i < kFakeVocabulary; ++i) {
    logits[i] = static_cast<float>(Mix(hash, i) & 0xFFFFU);
  }
}

std::string FakePiece(Token token) {
  if (token == kFakeEnd) return "";
  if (token == 1) return "\xF0\x9F";
  if (token == 2) return "\x98";
  return {static_cast<char>('0' + token)};
}

Token FakeSampler::Sample(const float* logits) {
  for (std::size_t i = 0; i < kFakeVocabulary; ++i) {
    state_ = Mix(state_, static_cast<std::uint64_t>(logits[i]));
  }
  if (state_ % 80 == 0) return kFakeEnd;
  return static_cast<Token>(1 + (state_ >> 8U) % (kFakeVocabulary - 1));
}

Token EchoSampler::Sample(const float* logits) {
  for (std::size_t i = 0; i < kFakeVocabulary; ++i) {
    state_ = Mix(state_, static_cast<std::uint64_t>(logits[i]));
  }
  const std::uint64_t count = drawn_++;
  if (state_ % 400 == 0) return kFakeEnd;
  if (state_ % 16 == 1) return static_cast<Token>(1 + (state_ >> 8U) % (kFakeVocabulary - 1));
  return static_cast<Token>(3 + Mix(period_, count % period_) % (kFakeVocabulary - 3));
}

// ---- the decoder --------------------------------------------------------------------------------

FakeDecoder::FakeDecoder(FakeOptions options, FakeRecord* record)
    : options_(std::move(options)), record_(record), lane_(this) {}

void FakeDecoder::SetAdapters(const AdapterSet& adapters) {
  const std::uint32_t tag = TagOf(adapters);
  if (tag != adapters_) ++record_->set_changes;
  adapters_ = tag;
}

DecodeOutcome FakeDecoder::Decode(std::span<const Row> rows, const std::atomic<bool>& abort) {
  ++record_->steps;
  record_->rows += static_cast<std::uint32_t>(rows.size());
  EXPECT(!rows.empty());
  EXPECT(rows.size() <= options_.max_rows);
  if (options_.fault) {
    const DecodeOutcome outcome = options_.fault(rows, abort);
    if (outcome != DecodeOutcome::kDone) return outcome;
  }
  if (record_->cells + rows.size() > options_.cells) {
    Fail(__FILE__, __LINE__, "a step was planned with more rows than free cells");
    return DecodeOutcome::kNoCells;
  }
  logits_.assign(rows.size() * kFakeVocabulary, 0);
  std::set<SequenceId> sequences;
  std::uint32_t asked = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    EXPECT(IsId(row.sequence));
    Cells& cells = sequences_[row.sequence];
    EXPECT_EQ(row.position, static_cast<std::int32_t>(cells.size()));
    if (!cells.empty()) EXPECT_EQ(cells.rbegin()->second->adapters, adapters_);
    cells.emplace(row.position, std::make_shared<Cell>(row.token, adapters_, record_));
    sequences.insert(row.sequence);
    if (!row.wants_logits) continue;
    ++asked;
    float* const logits = &logits_[i * kFakeVocabulary];
    if (options_.logits) {
      options_.logits(TokensOf(cells), rows.size(), logits);
    } else {
      LogitsOf(HashOf(TokensOf(cells)) + adapters_, logits);
    }
  }
  EXPECT(asked <= max_outputs());
  record_->largest_batch = std::max<std::uint32_t>(record_->largest_batch, sequences.size());
  return DecodeOutcome::kDone;
}

std::int32_t FakeDecoder::NextPosition(SequenceId sequence) const {
  const auto found = sequences_.find(sequence);
  if (found == sequences_.end() || found->second.empty()) return 0;
  return found->second.rbegin()->first + 1;
}

void FakeDecoder::Clear() {
  sequences_.clear();
  lane_.Clear();
}

void FakeDecoder::ShareCells(SequenceId from, SequenceId to, std::uint32_t begin,
                             std::uint32_t end) {
  EXPECT(options_.can_share && IsId(from) && IsId(to) && from != to && begin < end);
  ExpectWhole(from, begin, end);
  for (std::uint32_t at = begin; at < end; ++at) {
    const auto position = static_cast<std::int32_t>(at);
    const auto cell = sequences_[from].find(position);
    if (cell == sequences_[from].end()) {
      Fail(__FILE__, __LINE__, "ShareCells: the sequence lacks a cell");
      return;
    }
    EXPECT(sequences_[to].emplace(position, cell->second).second);
  }
}

void FakeDecoder::RemoveCells(SequenceId sequence, std::uint32_t begin, std::uint32_t end) {
  EXPECT(options_.can_share);
  ExpectWhole(sequence, begin, end);
  for (std::uint32_t at = begin; at < end; ++at) {
    EXPECT_EQ(sequences_[sequence].erase(static_cast<std::int32_t>(at)), 1U);
  }
}

void FakeDecoder::ExpectWhole(SequenceId sequence, std::uint32_t begin, std::uint32_t end) const {
  const auto cells = sequences_.find(sequence);
  if (cells == sequences_.end()) return;
  const auto is_inside = [&](std::uint32_t at) {
    const auto cell = cells->second.find(static_cast<std::int32_t>(at));
    return cell != cells->second.end() && IsMediaToken(cell->second->token) &&
           !BeginsMedia(cell->second->token);
  };
  EXPECT(!is_inside(begin) && !is_inside(end));
}

std::uint64_t FakeDecoder::SizeOfState(SequenceId sequence, std::uint32_t begin,
                                       std::uint32_t end) {
  EXPECT(IsId(sequence) && begin < end);
  return options_.token_bytes * (end - begin);
}

StateBytes FakeDecoder::SaveState(SequenceId sequence, std::uint32_t begin, std::uint32_t end) {
  EXPECT(IsId(sequence) && begin < end);
  if (options_.before_save) options_.before_save();
  if (options_.can_share) {
    ExpectWhole(sequence, begin, end);
  } else {
    EXPECT_EQ(begin, 0U);
    EXPECT_EQ(static_cast<std::int32_t>(end), NextPosition(sequence));
  }
  ++record_->states_saved;
  StateBytes state(options_.token_bytes * (end - begin));
  std::uint8_t* to = state.data();
  for (auto at = static_cast<std::int32_t>(begin); at < static_cast<std::int32_t>(end); ++at) {
    const auto cell = sequences_[sequence].find(at);
    if (cell == sequences_[sequence].end()) {
      Fail(__FILE__, __LINE__, "SaveState: the sequence lacks a cell");
      return {};
    }
    const SavedCell saved{at, cell->second->adapters, cell->second->token};
    std::memcpy(to, &saved, sizeof saved);
    std::memset(to + sizeof saved, saved.Filler(), options_.token_bytes - sizeof saved);
    to += options_.token_bytes;
  }
  return state;
}

bool FakeDecoder::LoadState(SequenceId sequence, std::span<const std::uint8_t> state,
                            std::uint32_t begin, std::uint32_t end) {
  EXPECT(IsId(sequence) && begin < end);
  const auto saved = static_cast<std::uint32_t>(state.size() / options_.token_bytes);
  if (record_->cells + saved > options_.cells) {
    Fail(__FILE__, __LINE__, "LoadState: not enough free cells");
    return false;
  }
  if (!options_.can_share) EXPECT(begin == 0 && end == saved && NextPosition(sequence) == 0);
  ++record_->states_loaded;
  for (; !state.empty(); state = state.subspan(options_.token_bytes)) {
    SavedCell cell;
    std::memcpy(&cell, state.data(), sizeof cell);
    const bool whole =
        options_.token_bytes == sizeof cell || state[options_.token_bytes - 1] == cell.Filler();
    EXPECT(whole);
    const std::int32_t at = cell.at;
    const std::uint32_t adapters = cell.adapters;
    if (at < static_cast<std::int32_t>(begin) || at >= static_cast<std::int32_t>(end)) continue;
    auto loaded = std::make_shared<Cell>(cell.token, adapters, record_);
    EXPECT(sequences_[sequence].emplace(at, std::move(loaded)).second);
  }
  EXPECT_EQ(NextPosition(sequence), static_cast<std::int32_t>(end));
  return true;
}

std::uint32_t FakeDecoder::max_copied(std::uint32_t lane_tokens) const {
  return options_.max_copied ? options_.max_copied(lane_tokens) : options_.cells;
}

PrefillLane* FakeDecoder::lane(std::uint32_t tokens) {
  EXPECT(tokens <= lane_cells());
  if (lane_cells() == 0) return nullptr;
  if (lane_size_ == 0) {
    lane_size_ = options_.least_lane_cells > 0 ? options_.least_lane_cells : options_.lane_cells;
  }
  while (lane_size_ < tokens) {
    lane_size_ *= 2;
    lane_.Clear();
  }
  return &lane_;
}

void FakeDecoder::SetThreads(int threads) {
  EXPECT(threads >= 1 && threads <= options_.threads);
  record_->threads = threads;
}

std::uint32_t FakeDecoder::max_outputs() const {
  return std::max(options_.max_sequences + kPaddingIds, kLeastOutputs);
}

bool FakeDecoder::Grow(std::uint32_t cells) {
  EXPECT(cells >= options_.cells && cells <= max_cells());
  EXPECT_EQ(record_->cells, 0U);
  lane_.Clear();
  ++record_->grown;
  if (options_.may_grow && !options_.may_grow(cells)) return false;
  options_.cells = cells;
  return true;
}

bool FakeDecoder::IsId(SequenceId id) const {
  return id >= 0 && id < static_cast<SequenceId>(options_.sequence_ids);
}

std::vector<Token> FakeDecoder::TokensOf(const Cells& cells) {
  std::vector<Token> tokens;
  for (const auto& [position, cell] : cells) {
    EXPECT_EQ(position, static_cast<std::int32_t>(tokens.size()));
    tokens.push_back(cell->token);
  }
  return tokens;
}

std::uint32_t FakeDecoder::Lane::length() const {
  EXPECT(batch_.empty());
  return static_cast<std::uint32_t>(tokens_.size());
}

void FakeDecoder::Lane::Clear() {
  tokens_.clear();
  batch_.clear();
}

bool FakeDecoder::Lane::LoadState(std::span<const std::uint8_t> state, std::uint32_t begin,
                                  std::uint32_t end) {
  EXPECT(tokens_.size() == begin && batch_.empty());
  std::vector<SavedCell> cells(state.size() / sizeof(SavedCell));
  std::memcpy(cells.data(), state.data(), state.size());
  for (const SavedCell& cell : cells) {
    EXPECT_EQ(cell.at, static_cast<std::int32_t>(tokens_.size()));
    EXPECT_EQ(cell.adapters, adapters_);
    tokens_.push_back(cell.token);
  }
  EXPECT(tokens_.size() == end && end <= decoder_.lane_size_);
  return true;
}

void FakeDecoder::Lane::SetAdapters(const AdapterSet& adapters) {
  EXPECT(tokens_.empty() && batch_.empty());
  adapters_ = TagOf(adapters);
}

void FakeDecoder::Lane::Begin(std::span<const Token> tokens, std::uint32_t padding) {
  EXPECT(batch_.empty() && !tokens.empty() && tokens.size() <= max_rows());
  EXPECT(tokens_.size() + tokens.size() + padding <= cells());
  EXPECT(tokens.size() + padding <= max_rows());
  batch_.assign(tokens.begin(), tokens.end());
  advances_ = 0;
}

PrefillLane::Progress FakeDecoder::Lane::Advance(Stretch stretch,
                                                 const std::atomic<bool>& /*abort*/) {
  EXPECT(!batch_.empty());
  ++(stretch == Stretch::kLayer ? decoder_.record_->lane_layers : decoder_.record_->lane_parts);
  if (decoder_.options_.lane_fault) {
    const Progress progress = decoder_.options_.lane_fault(batch_.size());
    if (progress != Progress::kDone) {
      batch_.clear();
      return progress;
    }
  }
  if (++advances_ < decoder_.options_.lane_advances) return Progress::kMore;
  tokens_.insert(tokens_.end(), batch_.begin(), batch_.end());
  decoder_.record_->rows += static_cast<std::uint32_t>(batch_.size());
  batch_.clear();
  logits_.resize(kFakeVocabulary);
  LogitsOf(HashOf(tokens_) + adapters_, logits_.data());
  return Progress::kDone;
}

StateBytes FakeDecoder::Lane::SaveState(std::uint32_t begin, std::uint32_t end) {
  EXPECT(begin < end && end <= tokens_.size());
  std::vector<SavedCell> cells;
  for (std::uint32_t at = begin; at < end; ++at) {
    cells.push_back({static_cast<std::int32_t>(at), adapters_, tokens_[at]});
  }
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(cells.data());
  return {bytes, bytes + cells.size() * sizeof(SavedCell)};
}
}  // namespace svc::test
