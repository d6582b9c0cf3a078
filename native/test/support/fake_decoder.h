// A fake Decoder without a model. It checks that the runner keeps the Decoder's contract. Its
// logits are a hash of the sequence's cache contents: one wrong token, position or missing cell
// changes the text that follows.
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "engine/model/decoder.h"
#include "engine/model/prefill_lane.h"
#include "engine/run/generation.h"
#include "test.h"

namespace svc::test {

inline constexpr std::size_t kFakeVocabulary = 64;
inline constexpr Token kFakeEnd = 0;

// Combines a hash with a value.
inline std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6U) + (hash >> 2U);
  hash *= 0xBF58476D1CE4E5B9ULL;
  return hash ^ (hash >> 31U);
}
inline std::uint64_t HashOf(const std::vector<Token>& tokens) {
  std::uint64_t hash = 1;
  for (const Token token : tokens) hash = Mix(hash, static_cast<std::uint64_t>(token));
  return hash;
}
// Fills the logits with 16 bits of the hash each, which floats hold exactly.
inline void LogitsOf(std::uint64_t hash, float* logits) {
  for (std::size_t i = 0; i < kFakeVocabulary; ++i) {
    logits[i] = static_cast<float>(Mix(hash, i) & 0xFFFFU);
  }
}

// Depends on every logit and on the number of draws: preemption must change neither. About one draw
// in 80 ends the text.
class FakeSampler final : public Sampler {
 public:
  explicit FakeSampler(std::uint64_t seed) : state_(seed) {}

  Token Sample(const float* logits) override {
    for (std::size_t i = 0; i < kFakeVocabulary; ++i) {
      state_ = Mix(state_, static_cast<std::uint64_t>(logits[i]));
    }
    if (state_ % 80 == 0) return kFakeEnd;
    return static_cast<Token>(1 + (state_ >> 8U) % (kFakeVocabulary - 1));
  }

 private:
  std::uint64_t state_;
};

// Text of a token. Tokens 1 and 2 are parts of a character, so that text cannot be made token by
// token.
inline std::string FakePiece(Token token) {
  if (token == kFakeEnd) return "";
  if (token == 1) return "\xF0\x9F";
  if (token == 2) return "\x98";
  return {static_cast<char>('0' + token)};
}

struct FakeOptions {
  std::uint32_t cells = 1024;
  std::uint32_t max_cells = 0;  // 0: `cells`
  // Returns false if a cache of so many cells cannot be allocated.
  std::function<bool(std::uint32_t cells)> may_grow;
  std::uint32_t max_rows = 64;
  std::uint32_t max_sequences = 8;
  std::uint32_t sequence_ids = 32;
  bool can_share = true;
  std::uint32_t idle_cells = std::numeric_limits<std::uint32_t>::max();
  int threads = 1;
  // Tokens that can be copied beside a lane of `lane_tokens`; absent: as many as there are cells.
  std::function<std::uint32_t(std::uint32_t lane_tokens)> max_copied;
  std::uint64_t max_state_bytes = std::uint64_t{1} << 30U;
  std::uint64_t token_bytes = 8;  // of a token in a state; at least 8
  // 0: no prefill lane.
  std::uint32_t lane_cells = 0;
  std::uint32_t lane_rows = 64;
  // Calls of Advance per batch. lane_fault runs before each; a result other than kDone is the
  // outcome.
  int lane_advances = 4;
  std::function<PrefillLane::Progress(std::uint32_t rows)> lane_fault;
  // Replaces LogitsOf(HashOf(tokens)). `rows`: number of rows in the batch.
  std::function<void(const std::vector<Token>&, std::size_t rows, float*)> logits;
  // Called on the runner thread before each step; a result other than kDone is the outcome.
  std::function<DecodeOutcome(std::span<const Row>, const std::atomic<bool>& abort)> fault;
  // Called on the runner thread before a state is copied.
  std::function<void()> before_save;
};

// Repeats the same `period` tokens, so that most draft tokens are accepted. One draw in 16 instead
// depends on every logit so far, so that a wrong row anywhere changes the text. One draw in 400
// ends the text.
class EchoSampler final : public Sampler {
 public:
  EchoSampler(std::uint64_t seed, std::uint32_t period) : state_(seed), period_(period) {}

  Token Sample(const float* logits) override {
    for (std::size_t i = 0; i < kFakeVocabulary; ++i) {
      state_ = Mix(state_, static_cast<std::uint64_t>(logits[i]));
    }
    const std::uint64_t count = drawn_++;
    if (state_ % 400 == 0) return kFakeEnd;
    if (state_ % 16 == 1) return static_cast<Token>(1 + (state_ >> 8U) % (kFakeVocabulary - 1));
    return static_cast<Token>(3 + Mix(period_, count % period_) % (kFakeVocabulary - 3));
  }

 private:
  std::uint64_t state_;
  const std::uint32_t period_;
  std::uint64_t drawn_ = 0;
};

// State of the decoder that tests can read after the runner has taken ownership of it.
struct FakeRecord {
  std::atomic<std::uint32_t> steps = 0;
  std::atomic<std::uint32_t> largest_batch = 0;  // sequences
  std::atomic<std::uint32_t> rows = 0;
  std::atomic<int> threads = 0;          // of the last SetThreads; 0: never called
  std::atomic<std::uint32_t> cells = 0;  // in use, by one sequence or many
  std::atomic<std::uint32_t> grown = 0;  // calls of Grow
  std::atomic<std::uint32_t> states_saved = 0;
  std::atomic<std::uint32_t> states_loaded = 0;
  std::atomic<std::uint32_t> lane_layers = 0;  // calls of Advance(kLayer)
  std::atomic<std::uint32_t> lane_parts = 0;   // calls of Advance with another stretch
};

class FakeDecoder final : public Decoder {
 public:
  FakeDecoder(FakeOptions options, FakeRecord* record)
      : options_(std::move(options)), record_(record), lane_(this) {}

  DecodeOutcome Decode(std::span<const Row> rows, const std::atomic<bool>& abort) override {
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
      cells.emplace(row.position, std::make_shared<Cell>(row.token, record_));
      sequences.insert(row.sequence);
      if (!row.wants_logits) continue;
      ++asked;
      float* const logits = &logits_[i * kFakeVocabulary];
      if (options_.logits) {
        options_.logits(TokensOf(cells), rows.size(), logits);
      } else {
        LogitsOf(HashOf(TokensOf(cells)), logits);
      }
    }
    EXPECT(asked <= max_outputs());
    record_->largest_batch = std::max<std::uint32_t>(record_->largest_batch, sequences.size());
    return DecodeOutcome::kDone;
  }

  const float* Logits(std::size_t index) override { return &logits_[index * kFakeVocabulary]; }

  std::int32_t NextPosition(SequenceId sequence) const override {
    const auto found = sequences_.find(sequence);
    if (found == sequences_.end() || found->second.empty()) return 0;
    return found->second.rbegin()->first + 1;
  }
  void RemoveSequence(SequenceId sequence) override { sequences_.erase(sequence); }
  void Clear() override {
    sequences_.clear();
    lane_.Clear();
  }

  bool can_share() const override { return options_.can_share; }
  void ShareCells(SequenceId from, SequenceId to, std::uint32_t begin, std::uint32_t end) override {
    EXPECT(options_.can_share && IsId(from) && IsId(to) && from != to && begin < end);
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
  void RemoveCells(SequenceId sequence, std::uint32_t begin, std::uint32_t end) override {
    EXPECT(options_.can_share);
    for (std::uint32_t at = begin; at < end; ++at) {
      EXPECT_EQ(sequences_[sequence].erase(static_cast<std::int32_t>(at)), 1U);
    }
  }

  std::uint64_t SizeOfState(SequenceId sequence, std::uint32_t begin, std::uint32_t end) override {
    EXPECT(IsId(sequence) && begin < end);
    return options_.token_bytes * (end - begin);
  }
  // A SavedCell for each cell, and what it lacks to token_bytes.
  StateBytes SaveState(SequenceId sequence, std::uint32_t begin, std::uint32_t end) override {
    EXPECT(IsId(sequence) && begin < end);
    if (options_.before_save) options_.before_save();
    if (!options_.can_share) {
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
      const SavedCell saved{at, cell->second->token};
      std::memcpy(to, &saved, sizeof saved);
      std::memset(to + sizeof saved, saved.Filler(), options_.token_bytes - sizeof saved);
      to += options_.token_bytes;
    }
    return state;
  }
  bool LoadState(SequenceId sequence, std::span<const std::uint8_t> state, std::uint32_t begin,
                 std::uint32_t end) override {
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
      if (cell.at < static_cast<std::int32_t>(begin)) continue;
      if (cell.at >= static_cast<std::int32_t>(end)) continue;
      EXPECT(sequences_[sequence]
                 .emplace(cell.at, std::make_shared<Cell>(cell.token, record_))
                 .second);
    }
    EXPECT_EQ(NextPosition(sequence), static_cast<std::int32_t>(end));
    return true;
  }

  std::uint32_t idle_cells() const override { return options_.idle_cells; }
  std::uint32_t lane_cells() const override { return options_.can_share ? options_.lane_cells : 0; }
  std::uint32_t max_copied(std::uint32_t lane_tokens) const override {
    return options_.max_copied ? options_.max_copied(lane_tokens) : options_.cells;
  }
  std::uint64_t max_state_bytes() const override { return options_.max_state_bytes; }
  PrefillLane* lane(std::uint32_t tokens) override {
    EXPECT(tokens <= lane_cells());
    return lane_cells() > 0 ? &lane_ : nullptr;
  }

  bool IsEndOfGeneration(Token token) const override { return token == kFakeEnd; }
  std::string Piece(Token token) const override { return FakePiece(token); }
  void SetThreads(int threads) override {
    EXPECT(threads >= 1 && threads <= options_.threads);
    record_->threads = threads;
  }
  int max_threads() const override { return options_.threads; }
  std::uint32_t max_rows() const override { return options_.max_rows; }
  std::uint32_t max_outputs() const override {
    return std::max(options_.max_sequences + kPaddingIds, kLeastOutputs);
  }
  std::uint32_t max_sequences() const override { return options_.max_sequences; }
  std::uint32_t sequence_ids() const override { return options_.sequence_ids; }
  std::uint32_t vocabulary() const override { return kFakeVocabulary; }
  std::uint32_t cells_total() const override { return options_.cells; }
  std::uint32_t max_cells() const override { return std::max(options_.max_cells, options_.cells); }
  bool Grow(std::uint32_t cells) override {
    EXPECT(cells >= options_.cells && cells <= max_cells());
    EXPECT_EQ(record_->cells, 0U);
    lane_.Clear();
    ++record_->grown;
    if (options_.may_grow && !options_.may_grow(cells)) return false;
    options_.cells = cells;
    return true;
  }

 private:
  // Counts as used while a sequence holds it.
  struct Cell {
    Cell(Token value, FakeRecord* counter) : token(value), record(counter) { ++record->cells; }
    ~Cell() { --record->cells; }
    Cell(const Cell&) = delete;
    Cell& operator=(const Cell&) = delete;
    const Token token;
    FakeRecord* const record;
  };
  using Cells = std::map<std::int32_t, std::shared_ptr<Cell>>;
  struct SavedCell {
    std::int32_t at = 0;
    Token token = 0;

    std::uint8_t Filler() const { return static_cast<std::uint8_t>(at + token); }
  };

  class Lane final : public PrefillLane {
   public:
    explicit Lane(FakeDecoder* decoder) : decoder_(*decoder) {}

    std::uint32_t max_rows() const override { return decoder_.options_.lane_rows; }
    std::uint32_t cells() const override { return decoder_.options_.lane_cells; }
    int threads() const override { return std::max<int>(decoder_.record_->threads, 1); }
    void Clear() override {
      tokens_.clear();
      batch_.clear();
    }
    bool LoadState(std::span<const std::uint8_t> state, std::uint32_t begin,
                   std::uint32_t end) override {
      EXPECT(tokens_.size() == begin && batch_.empty());
      std::vector<std::int32_t> words(state.size() / sizeof(std::int32_t));
      std::memcpy(words.data(), state.data(), state.size());
      for (std::size_t i = 0; i < words.size(); i += 2) {
        EXPECT_EQ(words[i], static_cast<std::int32_t>(tokens_.size()));
        tokens_.push_back(words[i + 1]);
      }
      EXPECT(tokens_.size() == end && end <= decoder_.lane_cells());
      return true;
    }
    void Begin(std::span<const Token> tokens, std::uint32_t padding) override {
      EXPECT(batch_.empty() && !tokens.empty() && tokens.size() <= max_rows());
      EXPECT(tokens_.size() + tokens.size() + padding <= decoder_.lane_cells());
      EXPECT(tokens.size() + padding <= max_rows());
      batch_.assign(tokens.begin(), tokens.end());
      advances_ = 0;
    }
    Progress Advance(Stretch stretch, const std::atomic<bool>& /*abort*/) override {
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
      LogitsOf(HashOf(tokens_), logits_.data());
      return Progress::kDone;
    }
    const float* Logits() override { return logits_.data(); }
    StateBytes SaveState(std::uint32_t begin, std::uint32_t end) override {
      EXPECT(begin < end && end <= tokens_.size());
      std::vector<std::int32_t> words;
      for (std::uint32_t at = begin; at < end; ++at) {
        words.push_back(static_cast<std::int32_t>(at));
        words.push_back(tokens_[at]);
      }
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(words.data());
      return {bytes, bytes + words.size() * sizeof(std::int32_t)};
    }

   private:
    FakeDecoder& decoder_;
    std::vector<Token> tokens_;
    std::vector<Token> batch_;
    int advances_ = 0;
    std::vector<float> logits_;
  };

  bool IsId(SequenceId id) const {
    return id >= 0 && id < static_cast<SequenceId>(options_.sequence_ids);
  }
  static std::vector<Token> TokensOf(const Cells& cells) {
    std::vector<Token> tokens;
    for (const auto& [position, cell] : cells) {
      EXPECT_EQ(position, static_cast<std::int32_t>(tokens.size()));
      tokens.push_back(cell->token);
    }
    return tokens;
  }

  FakeOptions options_;
  FakeRecord* const record_;
  std::map<SequenceId, Cells> sequences_;
  std::vector<float> logits_;
  Lane lane_;
};

}  // namespace svc::test
