// A fake Decoder without a model. It checks that the runner keeps the Decoder's contract. Its
// logits are a hash of the sequence's cache contents: one wrong token, position or missing cell
// changes the text that follows.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/decoder.h"
#include "engine/model/prefill_lane.h"

namespace svc::test {

inline constexpr std::size_t kFakeVocabulary = 64;
inline constexpr Token kFakeEnd = 0;

using Tokens = std::vector<Token>;

// A text of random tokens, the same for the same seed.
inline Tokens RandomText(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  Tokens tokens(count);
  for (Token& token : tokens) token = static_cast<Token>(random() % kFakeVocabulary);
  return tokens;
}
inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Combines a hash with a value.
std::uint64_t Mix(std::uint64_t hash, std::uint64_t value);
std::uint64_t HashOf(const std::vector<Token>& tokens);
// Eight bits that tell sets of adapters apart; 0: none. The logits depend on it: those of tokens
// and a tag are LogitsOf(HashOf(tokens) + tag).
std::uint32_t TagOf(const AdapterSet& adapters);
// Fills the logits with 16 bits of the hash each, which floats hold exactly.
void LogitsOf(std::uint64_t hash, float* logits);

// Depends on every logit and on the number of draws: preemption must change neither. About one draw
// in 80 ends the text.
class FakeSampler final : public Sampler {
 public:
  explicit FakeSampler(std::uint64_t seed) : state_(seed) {}

  Token Sample(const float* logits) override;

 private:
  std::uint64_t state_;
};

// Returns kBrokenLogits where the logits are not numbers.
class CarefulSampler final : public Sampler {
 public:
  Token Sample(const float* logits) override {
    return std::isnan(logits[0]) ? kBrokenLogits : Token{7};
  }
};

// Text of a token. Tokens 1 and 2 are parts of a character, so that text cannot be made token by
// token.
std::string FakePiece(Token token);

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
  // Size of the first lane; a longer prompt gets a new one of twice the size. 0: lane_cells.
  std::uint32_t least_lane_cells = 0;
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

  Token Sample(const float* logits) override;

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
  std::atomic<int> threads = 0;           // of the last SetThreads; 0: never called
  std::atomic<double> step_limit_ms = 0;  // of the last SetStepLimit
  std::atomic<std::uint32_t> cells = 0;   // in use, by one sequence or many
  std::atomic<std::uint32_t> grown = 0;   // calls of Grow
  std::atomic<std::uint32_t> states_saved = 0;
  std::atomic<std::uint32_t> states_loaded = 0;
  std::atomic<std::uint32_t> lane_layers = 0;  // calls of Advance(kLayer)
  std::atomic<std::uint32_t> lane_parts = 0;   // calls of Advance with another stretch
  std::atomic<std::uint32_t> set_changes = 0;  // calls of SetAdapters with another set
};

class FakeDecoder final : public Decoder {
 public:
  FakeDecoder(FakeOptions options, FakeRecord* record);

  void SetAdapters(const AdapterSet& adapters) override;
  DecodeOutcome Decode(std::span<const Row> rows, const std::atomic<bool>& abort) override;

  const float* Logits(std::size_t index) override { return &logits_[index * kFakeVocabulary]; }

  std::int32_t NextPosition(SequenceId sequence) const override;
  void RemoveSequence(SequenceId sequence) override { sequences_.erase(sequence); }
  void Clear() override;

  bool can_share() const override { return options_.can_share; }
  void ShareCells(SequenceId from, SequenceId to, std::uint32_t begin, std::uint32_t end) override;
  void RemoveCells(SequenceId sequence, std::uint32_t begin, std::uint32_t end) override;

  std::uint64_t SizeOfState(SequenceId sequence, std::uint32_t begin, std::uint32_t end) override;
  // A SavedCell for each cell, and what it lacks to token_bytes.
  StateBytes SaveState(SequenceId sequence, std::uint32_t begin, std::uint32_t end) override;
  bool LoadState(SequenceId sequence, std::span<const std::uint8_t> state, std::uint32_t begin,
                 std::uint32_t end) override;

  std::uint32_t idle_cells() const override { return options_.idle_cells; }
  std::uint32_t lane_cells() const override { return options_.can_share ? options_.lane_cells : 0; }
  std::uint32_t max_copied(std::uint32_t lane_tokens) const override;
  std::uint64_t max_state_bytes() const override { return options_.max_state_bytes; }
  PrefillLane* lane(std::uint32_t tokens) override;

  bool IsEndOfGeneration(Token token) const override { return token == kFakeEnd; }
  std::string Piece(Token token) const override { return FakePiece(token); }
  void SetThreads(int threads) override;
  void SetStepLimit(double ms) override { record_->step_limit_ms = ms; }
  int max_threads() const override { return options_.threads; }
  std::uint32_t max_rows() const override { return options_.max_rows; }
  std::uint32_t max_outputs() const override;
  std::uint32_t max_sequences() const override { return options_.max_sequences; }
  std::uint32_t sequence_ids() const override { return options_.sequence_ids; }
  std::uint32_t vocabulary() const override { return kFakeVocabulary; }
  std::uint32_t cells_total() const override { return options_.cells; }
  std::uint32_t max_cells() const override { return std::max(options_.max_cells, options_.cells); }
  bool Grow(std::uint32_t cells) override;

 private:
  // Counts as used while a sequence holds it.
  struct Cell {
    Cell(Token value, std::uint32_t set, FakeRecord* counter)
        : token(value), adapters(set), record(counter) {
      ++record->cells;
    }
    ~Cell() { --record->cells; }
    Cell(const Cell&) = delete;
    Cell& operator=(const Cell&) = delete;
    const Token token;
    const std::uint32_t adapters;  // TagOf those with which it was computed
    FakeRecord* const record;
  };
  using Cells = std::map<std::int32_t, std::shared_ptr<Cell>>;
  struct SavedCell {
    std::int32_t at : 24 = 0;
    std::uint32_t adapters : 8 = 0;
    Token token = 0;

    std::uint8_t Filler() const { return static_cast<std::uint8_t>(at + token); }
  };

  class Lane final : public PrefillLane {
   public:
    explicit Lane(FakeDecoder* decoder) : decoder_(*decoder) {}

    std::uint32_t max_rows() const override { return decoder_.options_.lane_rows; }
    std::uint32_t cells() const override { return decoder_.lane_size_; }
    std::uint32_t length() const override;
    int threads() const override { return std::max<int>(decoder_.record_->threads, 1); }
    void Clear() override;
    void SetAdapters(const AdapterSet& adapters) override;
    bool LoadState(std::span<const std::uint8_t> state, std::uint32_t begin,
                   std::uint32_t end) override;
    void Begin(std::span<const Token> tokens, std::uint32_t padding) override;
    Progress Advance(Stretch stretch, const std::atomic<bool>& /*abort*/) override;
    const float* Logits() override { return logits_.data(); }
    StateBytes SaveState(std::uint32_t begin, std::uint32_t end) override;

   private:
    FakeDecoder& decoder_;
    std::uint32_t adapters_ = 0;
    std::vector<Token> tokens_;
    std::vector<Token> batch_;
    int advances_ = 0;
    std::vector<float> logits_;
  };

  bool IsId(SequenceId id) const;
  // Expects that no picture's rows are parted at either end, as if the model had M-RoPE.
  void ExpectWhole(SequenceId sequence, std::uint32_t begin, std::uint32_t end) const;
  static std::vector<Token> TokensOf(const Cells& cells);

  FakeOptions options_;
  std::uint32_t adapters_ = 0;
  FakeRecord* const record_;
  std::map<SequenceId, Cells> sequences_;
  std::vector<float> logits_;
  Lane lane_;
  std::uint32_t lane_size_ = 0;
};

}  // namespace svc::test
